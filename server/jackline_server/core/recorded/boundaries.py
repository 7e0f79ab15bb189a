"""Boundaries of a recorded log: the places between two facts where the loop asked what to do next.

Owns which facts belong together, and whether a call is in flight. Whoever cuts a log (a fork) or walks one
(a replay) does it here and nowhere else. Does not own what is decided there (`decide`).
"""

from jackline_server.core.deciding.leaving import CUT_OFF
from jackline_server.core.facts import (
    AnswerRejected,
    BoundsAdjusted,
    CallProblem,
    CallStatus,
    ChildFinished,
    ChildStarted,
    CommandApplied,
    CommandRejected,
    ConsultAnswer,
    Consulted,
    Fact,
    InterruptRaised,
    InterruptResolved,
    JudgeReturned,
    MessagesAppended,
    ModelReplied,
    NoticeCode,
    Noticed,
    Paused,
    Resumed,
    RuleFired,
    RunFinished,
    RunRecovered,
    RunSuspended,
    Steered,
    StepFinished,
    StopReason,
    TimerFired,
    ToolCallFinished,
    ToolCallRequested,
)
from jackline_server.core.folding.evolve_calls import FAILED, SUCCEEDED
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import FINISH
from jackline_server.core.reading import question_forms
from jackline_server.core.state import RunState
from jackline_server.core.supervisor_plans import RuleAction


@frozen
class Entry:
    """A fact as it stands in a log: with the active and the wall-clock time that it was recorded at."""

    fact: Fact
    active_ms: int
    unix_ms: int


def in_flight(state: RunState) -> bool:
    """True while a call of a model or tool is under way: what came of it is not in the log yet.

    A call whose worker went away is not under way any more; a child run is, until it ends.
    """
    if state.has_children:
        return True
    visit = state.visit
    if visit is None:
        return False
    if visit.model_call is not None:
        return True
    return any(
        state.calls[call_id].status is CallStatus.STARTED and not state.calls[call_id].interrupted
        for call_id in visit.open_calls
    )


def is_boundary(state: RunState, before: Fact, following: Fact | None) -> bool:
    """True if the loop asked, or could ask, what to do next in this state.

    `before` is the fact that led to the state, `following` the next one of the log, None at its end.
    """
    if state.suspended or in_flight(state):
        return False
    return following is None or not (completes(before, following) or _ends_what(before, following))


def completes(before: Fact, fact: Fact) -> bool:  # noqa: C901, PLR0911, PLR0912 - one case a kind of fact
    """True if a fact from outside the loop is the rest of what the one before it began."""
    match fact:
        case ToolCallRequested():
            return isinstance(before, ModelReplied | ToolCallRequested)
        case Paused():
            return isinstance(before, CommandApplied) or _acts(before, RuleAction.PAUSE)
        case Steered():
            return isinstance(before, CommandApplied)
        case InterruptRaised():
            return _acts(before, RuleAction.ASK)
        case Resumed():
            return isinstance(before, CommandApplied | TimerFired)
        case BoundsAdjusted():
            return isinstance(before, CommandApplied | InterruptResolved)
        case InterruptResolved():
            return isinstance(before, CommandApplied | TimerFired | BoundsAdjusted)
        case ToolCallFinished():
            return (
                _answers(before)
                or isinstance(before, ChildFinished)
                or fact.problem is CallProblem.REPLY_DISCARDED
                or _acts(before, RuleAction.DENY_CALL, RuleAction.STEER, RuleAction.ASK)
            )
        case Noticed(code=NoticeCode.TOOL_CALLS_IN_TEXT):
            return isinstance(before, ModelReplied | ToolCallRequested)
        case Noticed(code=NoticeCode.USAGE_ODD | NoticeCode.COST_UNKNOWN):
            return isinstance(before, ModelReplied | ToolCallRequested | Noticed)
        case Noticed(code=NoticeCode.RESULT_STORED):
            return isinstance(before, ToolCallFinished)
        case Noticed(code=NoticeCode.CONDITION_FAILED):
            return isinstance(before, Consulted) and before.answer is ConsultAnswer.FAILED
        case _:
            return False


def _acts(fact: Fact, *actions: RuleAction) -> bool:
    """True for such an action of a supervisor, which facts behind it carry out."""
    return isinstance(fact, RuleFired | JudgeReturned) and fact.action in actions


def _answers(fact: Fact) -> bool:
    """True for what somebody said of an unknown outcome, with which the call ends at once."""
    if not isinstance(fact, InterruptResolved) or question_forms.is_one(fact.interrupt_id):
        return False
    return fact.option in (SUCCEEDED, FAILED)


def _ends_what(before: Fact, fact: Fact) -> bool:
    """True if the fact ends what the one before it made ready to end: the step, or a call of `finish`."""
    if not isinstance(fact, StepFinished | AnswerRejected):
        return False
    if isinstance(before, ToolCallFinished) and before.tool == FINISH:
        return True
    if isinstance(fact, AnswerRejected):
        return _acts(before, RuleAction.STEER)
    if _acts(before, RuleAction.ASK):
        return True
    match before:
        case AnswerRejected(repair=repair):
            return repair == 0
        case ToolCallFinished(problem=problem, error=error):
            return problem is CallProblem.STEP_ENDED or error == CUT_OFF
        case _:
            return False


def comes_from_outside(fact: Fact) -> bool:
    """True for what the loop did not decide: commands, timers, takeovers, the end by a bug of the server."""
    match fact:
        case (
            CommandApplied()
            | CommandRejected()
            | TimerFired()
            | RunRecovered()
            | RunSuspended()
            | Steered()
            | MessagesAppended()
            | ChildStarted()
            | ChildFinished()
        ):
            return True
        case StepFinished(stop_reason=reason) | RunFinished(stop_reason=reason):
            return reason is StopReason.INTERNAL
        case _:
            return False
