"""What differs between two calls of a model, or of a tool, that are announced alike.

Owns the kinds of differences and how each is told in a few words without content. Does not own what is
compared with what (`replaying`).
"""

from collections.abc import Iterable
from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from jackline_server.core.plan import ToolEntry
from jackline_server.core.steps import CallModel, CallTools, ToolAttempt


class Kind(Enum):
    """What differs."""

    INPUT = "input"
    DECISION = "decision"
    RESERVATION = "reservation"
    PROMPT = "prompt"
    TOOLS = "tools"
    MODEL = "model"
    TOOL_CALL = "tool_call"
    FOLD = "fold"


@frozen
class Unlike:
    """Two requests that differ. `at` is which of several calls it is, from 0.

    `texts` are the two messages that differ first, empty for any other kind; they are content.
    """

    kind: Kind
    detail: str
    at: int = 0
    texts: tuple[str, str] | None = None


def models_differ(before: CallModel, now: CallModel) -> Unlike | None:
    """What differs between two calls of a model beside what they hold, the weightiest first."""
    if before.messages != now.messages:
        return _prompts(before.messages, now.messages)
    if before.tools != now.tools:
        return Unlike(kind=Kind.TOOLS, detail=_tools(before.tools, now.tools))
    if before.tool_choice != now.tool_choice:
        return Unlike(kind=Kind.TOOLS, detail="another tool_choice")
    names = [*_fields(before.model, now.model)]
    names += [name for name in ("total_ms", "idle_ms") if getattr(before, name) != getattr(now, name)]
    return Unlike(kind=Kind.MODEL, detail=f"other settings: {', '.join(names)}") if names else None


def tools_differ(before: CallTools, now: CallTools) -> Unlike | None:
    """What differs between two batches of calls that are announced alike."""
    for at, (earlier, later) in enumerate(zip(before.attempts, now.attempts, strict=True)):
        names = _attempts(earlier, later)
        if names:
            tool = later.started.tool
            return Unlike(kind=Kind.TOOL_CALL, detail=f"{tool} with another {', '.join(names)}", at=at)
    return None


def _attempts(before: ToolAttempt, now: ToolAttempt) -> list[str]:
    values = ("arguments", "bound", "step_input", "timeout_ms")
    names = [name for name in values if getattr(before, name) != getattr(now, name)]
    return list(dict.fromkeys([*_fields(before.step, now.step), *names]))


def _fields(before: object, now: object) -> list[str]:
    """The fields by which two values of one shape differ."""
    earlier, later = vars(before), vars(now)
    return [name for name in later if earlier.get(name) != later[name]]


def _tools(before: Iterable[ToolEntry], now: Iterable[ToolEntry]) -> str:
    earlier, later = {tool.ref: tool for tool in before}, {tool.ref: tool for tool in now}
    changes = [
        *(f"+{name}" for name in later if name not in earlier),
        *(f"-{name}" for name in earlier if name not in later),
        *(f"~{name}" for name in later if name in earlier and earlier[name] != later[name]),
    ]
    return ", ".join(changes) or "another order"


def _prompts(before: tuple[Message, ...], now: tuple[Message, ...]) -> Unlike:
    at = next(
        (place for place, pair in enumerate(zip(before, now, strict=False)) if pair[0] != pair[1]),
        min(len(before), len(now)),
    )
    earlier, later = _at(before, at), _at(now, at)
    shown = later or earlier
    what = "a message" if shown is None else _whose(shown)
    return Unlike(
        kind=Kind.PROMPT,
        detail=f"message {at + 1} of {len(now)} ({what})",
        texts=("" if earlier is None else earlier.text, "" if later is None else later.text),
    )


def _at(messages: tuple[Message, ...], place: int) -> Message | None:
    return messages[place] if place < len(messages) else None


def _whose(message: Message) -> str:
    match message:
        case SystemMessage():
            return "system"
        case UserMessage():
            return "user"
        case AssistantMessage():
            return "assistant"
        case ToolMessage():
            return "tool"
