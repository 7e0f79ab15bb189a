"""The conversation as a model is given it, free of any provider's wire.

Owns the message types. `transcript` makes them from a run's state; model adapters translate them.
Provenance is one of `system`, `input`, `model`, `tool:<name>`, `steer:<principal>`, `notice`.
"""

from jackline_server.core.frozen import frozen
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.core.repairs import NO_REPAIRS, Repairs


@frozen
class SystemMessage:
    """Set by the workflow alone."""

    text: str


@frozen
class UserMessage:
    """Input, guidance, notices and requests to mend an answer."""

    text: str
    provenance: str


@frozen
class MessageToolCall:
    """A call inside an assistant message. `arguments` is always a JSON object's text."""

    call_id: str
    name: str
    arguments: str


@frozen
class AssistantMessage:
    """What the model said. Has text, calls, or both.

    `blocks` say how its reasoning is sent back to it, where it has to be; `reasoning` is the text of it.
    """

    text: str
    calls: tuple[MessageToolCall, ...] = ()
    reasoning: str = ""
    blocks: ReasoningBlocks | None = None


@frozen
class ToolMessage:
    """The result of one call of the assistant message before it; exactly one for each call."""

    call_id: str
    name: str
    text: str
    is_error: bool


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@frozen
class Prompt:
    """A conversation as a model is sent it, and what it is estimated to cost.

    `entries` is how many entries of the visit it covers, `tokens` the estimate of its messages,
    `result_tokens` that of the results among them and `tool_tokens` that of the tools' declarations.
    `repairs` were needed to make it sound.
    """

    entries: int
    messages: tuple[Message, ...]
    tokens: int
    tool_tokens: int
    result_tokens: int = 0
    repairs: Repairs = NO_REPAIRS
