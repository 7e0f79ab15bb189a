"""Timers that fired, and what is worth knowing."""

from enum import Enum

from jackline_server.core.frozen import frozen


class TimerKind(Enum):
    """What a timer in absolute time guards."""

    DEADLINE = "deadline"
    INTERRUPT = "interrupt"
    PAUSE = "pause"
    START = "start"


@frozen
class TimerFired:
    """A timer in absolute time went off.

    `subject` is the interrupt, where it is one's expiry, and what follows, where it is a pause's.
    """

    kind: TimerKind
    subject: str = ""


class NoticeCode(Enum):
    """What a notice is about."""

    BUDGET_NEARLY_USED = "budget_nearly_used"
    FILE_MISSING = "file_missing"
    CONDITION_FAILED = "condition_failed"
    REPETITION = "repetition"
    TOOL_CALLS_IN_TEXT = "tool_calls_in_text"
    HISTORY = "history"
    MODEL_FALLBACK = "model_fallback"
    RESULT_STORED = "result_stored"
    COST_UNKNOWN = "cost_unknown"
    USAGE_ODD = "usage_odd"


@frozen
class Noticed:
    """Something worth knowing. Only `budget_nearly_used` and `repetition` are told to the model.

    `subject` is the bound or the model profile that it is about, where it is about one.
    """

    code: NoticeCode
    text: str  # content
    subject: str = ""
