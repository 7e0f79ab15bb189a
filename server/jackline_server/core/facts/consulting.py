"""Who was asked, and what they answered."""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import Point


class ConsultKind(Enum):
    """What somebody was asked for."""

    STOP_CONDITION = "stop_condition"
    HOOK = "hook"
    POLICY = "policy"
    GUARDRAIL = "guardrail"
    JUDGE = "judge"


class ConsultAnswer(Enum):
    """What came of it. Conditions are answered by yes and no, everybody else by what may happen."""

    YES = "yes"
    NO = "no"
    FAILED = "failed"
    """There was no answer: an error, none in time, or one that means nothing."""

    PROCEED = "proceed"
    DENY = "deny"
    """The call may not start, or the text may not pass."""

    VETO = "veto"
    """The step or the run ends."""

    RETRY = "retry"
    """The call is made once more."""


@frozen
class Consulted:
    """Somebody who can change nothing was asked, and this is the answer.

    `who` is a place in the plan, or the name of who was asked. `point` is where, None for a condition;
    `subject` is the call it is about, if it is about one. `metadata_json` is an object of texts that a hook
    sets for the run, empty for none.
    """

    kind: ConsultKind
    who: str
    answer: ConsultAnswer
    duration_ms: int
    error: str  # content
    point: Point | None = None
    subject: str = ""
    reason: str = ""  # content
    metadata_json: str = ""  # content
