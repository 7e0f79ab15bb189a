"""The conversation as a model is given it, free of any provider's wire.

Owns the message types. `transcript` makes them from a run's state; model adapters translate them.
Provenance is one of `system`, `input`, `model`, `tool:<name>`, `steer:<principal>`, `notice`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemMessage:
    """Set by the workflow alone."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    """Input, guidance, notices and requests to mend an answer."""

    text: str
    provenance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToolCall:
    """A call inside an assistant message. `arguments` is always a JSON object's text."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    """What the model said. Has text, calls, or both."""

    text: str
    calls: tuple[MessageToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMessage:
    """The result of one call of the assistant message before it; exactly one for each call."""

    call_id: str
    name: str
    text: str
    is_error: bool


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
