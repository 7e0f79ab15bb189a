"""A model's reasoning as it is sent back to it.

Owns the value. `thoughts` of the model adapters gathers it, the log keeps it, `translate` sends it.
"""

from jackline_server.core.frozen import frozen


@frozen
class ReasoningBlocks:
    """A model's reasoning as it is sent back to it: unchanged, and to no other model.

    `field` is the field of the provider's wire that takes the reasoning's text as it is, empty for none;
    `blocks_json` is a JSON object of the wire's further fields, signed ones among them, or empty.
    """

    profile: str
    model: str
    field: str
    blocks_json: str
