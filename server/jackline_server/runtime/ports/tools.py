"""What the runtime needs of a tool: a call of it, and how it ended."""

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from jackline_server.core.facts import CallStatus, ToolAsk, ToolReply
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import Effect, JsonValue, ToolStep
from jackline_server.runtime.ports.tool_reports import Report
from jackline_server.runtime.ports.tool_waits import OnWait, unheard


@frozen
class Invocation:
    """One attempt at a tool.

    `arguments` are what the caller chose (the model, or a visit of the step); `bound` are the engine's
    own values and win over them; `step_input` fills what neither has. `call_key` goes to the tool as
    idempotency key. `reply` is what a person said to what the last attempt asked. `on_wait` is told what the
    attempt waits for before anything is called; `report` takes in how far it is, None where nobody asks.
    """

    step: ToolStep
    run_id: str
    call_key: str
    attempt: int
    arguments: Mapping[str, JsonValue]
    bound: Mapping[str, JsonValue]
    step_input: Mapping[str, JsonValue]
    subject: Mapping[str, JsonValue]
    timeout_ms: int
    reply: ToolReply | None = None
    on_wait: OnWait = unheard
    report: Report | None = None

    @property
    def values(self) -> dict[str, JsonValue]:
        """All of them under one roof, the engine's values on top."""
        return {**self.step_input, **self.arguments, **self.bound}


class ToolEnding(Enum):
    """How an attempt at a tool ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    ASKING = "asking"
    """Not at all yet: it asks a person, and is to be called again with the answer."""

    UNCERTAIN = "uncertain"
    """Failed in a way that leaves open whether the tool acted: its answer was lost or came too late."""

    def status(self, effect: Effect) -> CallStatus:
        """What it comes to for the call: of one that may be made again, doubt is a failure like any other."""
        match self:
            case ToolEnding.COMPLETED:
                return CallStatus.COMPLETED
            case ToolEnding.FAILED:
                return CallStatus.FAILED
            case ToolEnding.ASKING:
                return CallStatus.ASKING
            case ToolEnding.UNCERTAIN:
                return CallStatus.FAILED if effect.repeatable else CallStatus.UNKNOWN


@frozen
class MediaPart:
    """Something in a result that is no text. `name` is what its sender calls it, empty if nothing.

    `data` is None where the bytes must not be kept.
    """

    data: bytes | None
    media_type: str
    name: str = ""
    size: int = 0

    @property
    def bytes(self) -> int:
        """How many there are, or were."""
        return self.size if self.data is None else len(self.data)


@frozen
class ToolResult:
    """What an attempt returned: an output as JSON text, or an error in words for the model.

    Of an output that is too long for the log, `output_json` is its beginning as a JSON string, `tail` its
    end, `whole` all of its text, and `cut_from_bytes` the length of that; 0 for any other.

    `media` is what else it holds: part 1 and so on.

    `may_pass` says that another
    attempt can help, `retry_after_ms` how long the tool asks to wait; `timed_out` that the time was over.
    `connection_problem` is set where it is the connection that failed, and not the call or the tool: why, in
    words that hold nothing of the call.
    """

    ending: ToolEnding
    output_json: str | None = None
    error: str = ""
    cut_from_bytes: int = 0
    may_pass: bool = False
    retry_after_ms: int | None = None
    timed_out: bool = False
    connection_problem: str = ""
    tail: str = ""
    whole: str | None = None
    media: tuple[MediaPart, ...] = ()
    ask: ToolAsk | None = None

    @property
    def connection_failed(self) -> bool:
        """True if it is the connection that failed."""
        return bool(self.connection_problem)


class Toolbox(Protocol):
    """All step kinds that do one thing, behind one door."""

    async def call(self, invocation: Invocation) -> ToolResult:
        """Attempt one call. A tool's failure is a result, never a raise.

        Cancelling it stops the attempt as far as its kind allows; whether the tool acted is then open.
        """
        ...


class HeldCalls(Protocol):
    """Calls that a server holds open while a person is asked."""

    def let_go(self, run_id: str) -> None:
        """Nobody waits for those of this run any more: tell their servers so. Raises and awaits nothing."""
        ...
