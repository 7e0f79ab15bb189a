"""Judging an answer: whether it meets its contract, and what follows if it does not.

Owns question 7 of the loop, but for calls of `finish` (`finishing`) and the judge of `grounding`. Reading an
answer belongs to `outcome`, the closing call to `turns`.
"""

from jackline_server.core import exits
from jackline_server.core.deciding import leaving, outcome, turns
from jackline_server.core.deciding.outcome import Accepted, Wrong
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.exits import Exit
from jackline_server.core.facts import AnswerProblem, AnswerRejected, StopReason
from jackline_server.core.frozen import change
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import FINISH, Completion, ModelStep
from jackline_server.core.state import Reply, RunState, Visit
from jackline_server.core.steps import CallModel, Record, Step


def judge(
    state: RunState,
    visit: Visit,
    step: ModelStep,
    reply: Reply,
    schemas: SchemaValidator,
    *,
    now_active_ms: int,
) -> Step:
    """What a reply without tool calls leads to."""
    verdict = outcome.read(reply, step.outcome, schemas)
    if visit.closing is not None:
        return close(state, visit, verdict)
    if isinstance(verdict, Wrong) and verdict.problem is AnswerProblem.EMPTY:
        return _empty(state, visit, step, verdict, now_active_ms=now_active_ms)
    if step.completion is Completion.EXPLICIT:
        return reject(state, visit, step, _NOT_FINISHED)
    if not turns.choice_met(state, visit, step):
        verdict = tool_required(verdict)
    if isinstance(verdict, Wrong):
        return reject(state, visit, step, verdict)
    return leaving.leave(state, visit, _accepted(verdict, step))


_NOT_FINISHED = Wrong(
    problem=AnswerProblem.NOT_FINISHED,
    explanation=f"This step goes on until you call `{FINISH}` with your answer. Go on, or call it.",
)


def tool_required(verdict: Accepted | Wrong) -> Wrong:
    """The verdict on an answer that comes before the call that has to succeed first."""
    if isinstance(verdict, Wrong) and verdict.problem is AnswerProblem.TRUNCATED:
        return verdict
    return Wrong(
        problem=AnswerProblem.TOOL_REQUIRED,
        explanation="A tool call has to succeed before you answer. Call the tool.",
    )


def reject(state: RunState, visit: Visit, step: ModelStep, verdict: Wrong, *, call_id: str = "") -> Record:
    """Send a wrong answer back, or end the step. `call_id` is the call of `finish` that gave it."""
    if verdict.problem.costs_a_turn:
        return Record(facts=(_rejected(verdict, 0, call_id),))
    if visit.repairs < step.outcome.repairs:
        return Record(facts=(_rejected(verdict, visit.repairs + 1, call_id),))
    reason = StopReason.INVALID_OUTPUT
    if verdict.problem is AnswerProblem.TOOL_REQUIRED:
        reason = StopReason.NO_TOOL_SUCCEEDED
    end = exits.abnormal(reason, leaf=verdict.problem.value, error=verdict.explanation)
    left = leaving.leave(state, visit, with_best(end, state, visit))
    return Record(facts=(_rejected(verdict, 0, call_id), *left.facts))


def _rejected(verdict: Wrong, repair: int, call_id: str = "") -> AnswerRejected:
    return AnswerRejected(
        problem=verdict.problem, repair=repair, explanation=verdict.explanation, call_id=call_id
    )


def _accepted(verdict: Accepted, step: ModelStep) -> Exit:
    reason = StopReason.OUTCOME if step.outcome.enum else StopReason.DEFAULT
    return Exit(signal=verdict.signal, reason=reason, result=verdict.result, has_result=True)


def _empty(state: RunState, visit: Visit, step: ModelStep, verdict: Wrong, *, now_active_ms: int) -> Step:
    """An empty reply is asked for again once, then a closing answer is tried, then the step fails."""
    if visit.empty_replies == 0:
        return Record(facts=(_rejected(verdict, 1),))
    call = turns.model_call(state, visit, step, closing=turns.EMPTY_REPLY, now_active_ms=now_active_ms)
    return call if isinstance(call, CallModel) else turns.close_without_answer(state, visit)


def close(state: RunState, visit: Visit, verdict: Accepted | Wrong) -> Record:
    """A closing answer: the signal stays the limit's. After a bound the answer is the partial result."""
    limit = visit.closing or turns.EMPTY_REPLY
    if isinstance(verdict, Wrong):
        return leaving.leave(state, visit, turns.cut(limit, state, visit))
    partial = limit.reason is not StopReason.STOP_CONDITION
    end = change(turns.limit_exit(limit), result=verdict.result, has_result=True, partial=partial)
    return leaving.leave(state, visit, end)
