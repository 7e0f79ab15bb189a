"""What a supervisor says, and what can be said to it: the words that fold and decision share."""

from jackline_server.core.reading import repetition, transcript
from jackline_server.core.repetition_plans import RepeatBy
from jackline_server.core.state import ToolCall, Visit

GO_ON = "go_on"
DENY = "deny"
ABORT = "abort"
AFTER_TURN_OPTIONS = (GO_ON, ABORT)
BEFORE_CALL_OPTIONS = (GO_ON, DENY, ABORT)
"""The answers to a question of a supervisor."""

_MOST = b"most:"


def violation(reason: str) -> str:
    """What the model is told when a judge has found that it does not keep to its criteria."""
    words = "Whoever watches your work finds that it does not keep to what is asked of it. Mend that."
    return f"{words} Why:\n{transcript.fenced(reason)}" if reason else words


def denied(who: str, text: str) -> str:
    """What the model is told of a call that a person denied, with that person's words."""
    return f"the supervisor ({who}) does not allow this call" + (f": {text}" if text else "")


def is_at_its_end(visit: Visit) -> bool:
    """True if an answer is about to stand, in text or by a call: between turns neither is there."""
    return visit.answer is not None or bool(visit.open_calls)


def most_alike(call: ToolCall) -> bytes:
    """The count of the most calls that were like this one and returned the same."""
    return _MOST + repetition.likeness(call, RepeatBy.ARGS)
