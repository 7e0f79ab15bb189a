"""What a Python tool may know of the call that it serves."""

from collections.abc import Mapping

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue


@frozen
class ToolCall:
    """Handed to a function that has a parameter `call: ToolCall`; a model never sees that parameter.

    `call_key` is the same for every attempt at the same call: give it to whatever you write to, as its
    idempotency key. `attempt` counts from 1. `subject` says on whose behalf the run works.
    """

    run_id: str
    call_key: str
    attempt: int
    subject: Mapping[str, JsonValue]
