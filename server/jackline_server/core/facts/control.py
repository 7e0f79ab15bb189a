"""Commands, and what they did to a run."""

from enum import Enum

from jackline_server.core.facts.runs import StopReason
from jackline_server.core.frozen import frozen
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds


class CommandKind(Enum):
    """What a command does."""

    PAUSE = "pause"
    RESUME = "resume"
    STEER = "steer"
    ABORT = "abort"
    ANSWER = "answer"
    SUBMIT_TOOL_RESULT = "submit_tool_result"
    ADJUST_BOUNDS = "adjust_bounds"
    APPROVE = "approve"
    EDIT_AND_APPROVE = "edit_and_approve"
    REJECT = "reject"
    END_CHILD = "end_child"
    """What a child run says to its parent; nobody can send it."""


class AbortMode(Enum):
    """How an abort stops what is under way."""

    NOW = "now"
    GRACEFUL = "graceful"


class Rejection(Enum):
    """Why a command can take no effect; the names are those of the contract's error reasons."""

    RUN_TERMINAL = "RUN_TERMINAL"
    EXPECTATION_FAILED = "EXPECTATION_FAILED"
    INTERRUPT_NOT_FOUND = "INTERRUPT_NOT_FOUND"
    CALL_NOT_FOUND = "CALL_NOT_FOUND"
    ALREADY_DECIDED = "ALREADY_DECIDED"
    INTERRUPT_EXPIRED = "INTERRUPT_EXPIRED"
    UNKNOWN_OPTION = "UNKNOWN_OPTION"
    TOO_LATE = "TOO_LATE"
    CALL_NOT_OPEN = "CALL_NOT_OPEN"
    BOUND_TOO_HIGH = "BOUND_TOO_HIGH"
    BOUND_TOO_LOW = "BOUND_TOO_LOW"
    NO_BOUNDED_VISIT = "NO_BOUNDED_VISIT"
    PRICE_UNKNOWN = "PRICE_UNKNOWN"
    INVALID_ANSWER = "INVALID_ANSWER"
    ARGUMENTS_CHANGED = "ARGUMENTS_CHANGED"
    WRONG_INTERRUPT_KIND = "WRONG_INTERRUPT_KIND"


@frozen
class CommandApplied:
    """A command took effect, by the facts that follow it in the same commit.

    `abort_mode` and `skip_routes` say how an abort proceeds, `abort_cause` why if no operator wanted it; it
    has no further fact.
    """

    command_id: str
    kind: CommandKind
    principal: str
    abort_mode: AbortMode | None = None
    skip_routes: bool = False
    abort_cause: StopReason | None = None
    reason: str = ""  # content


@frozen
class CommandRejected:
    """A command can take no effect.

    `unheard` is guidance for a run of a thread that came too late for it.
    """

    command_id: str
    kind: CommandKind
    principal: str
    rejection: Rejection
    unheard: str = ""  # content


@frozen
class Paused:
    """The run is held before its next call, until `expires_unix_ms` at the latest if that is set."""

    principal: str
    expires_unix_ms: int | None = None


@frozen
class Resumed:
    """The run goes on. `principal` is empty if that is because its pause was over."""

    principal: str


@frozen
class Steered:
    """Guidance was put into the conversation."""

    principal: str
    text: str  # content


@frozen
class BoundsAdjusted:
    """Caps of the run, or of the visit under way, were changed; the others stay as they are."""

    principal: str
    run: NewRunBounds
    visit: NewVisitBounds
