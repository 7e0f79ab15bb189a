"""Answers that were rejected."""

from enum import Enum

from jackline_server.core.frozen import frozen


class AnswerProblem(Enum):
    """Why an answer was rejected."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NOT_JSON = "not_json"
    OUTCOME = "outcome"
    SCHEMA = "schema"
    TOOL_REQUIRED = "tool_required"
    NOT_FINISHED = "not_finished"
    CALL_FAILED = "call_failed"
    GUARDRAIL = "guardrail"
    SUPERVISOR = "supervisor"

    @property
    def costs_a_turn(self) -> bool:
        """True if the next turn follows, and no repair is used."""
        return self in (AnswerProblem.NOT_FINISHED, AnswerProblem.CALL_FAILED, AnswerProblem.SUPERVISOR)


@frozen
class AnswerRejected:
    """An answer did not meet its contract. `repair` is the repair that follows, 0 if none does.

    `call_id` is the call of `finish` that gave it, whose result says what is wrong; empty for text.
    """

    problem: AnswerProblem
    repair: int
    explanation: str  # content; in words for the model
    call_id: str = ""
