"""Calls that may start only if somebody lets them, the last question before a call.

Owns which of the calls that are about to start wait, what is asked about them, and what a refusal leads to.
Those beside them that need no approval go first. A word holds for one call with the very bytes that were
shown, and for the further attempts at it.
"""

from collections.abc import Sequence

from jackline_server.core import context, exits
from jackline_server.core.approval_plans import ApprovalPlan
from jackline_server.core.deciding import call_checks, leaving
from jackline_server.core.deciding.batches import open_batch
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.facts import (
    CallProblem,
    Fact,
    InterruptKind,
    InterruptRaised,
    NoticeCode,
    Noticed,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import ExpressionError, ExpressionEvaluator, Instruments
from jackline_server.core.plan import JsonObject, OnQuestion
from jackline_server.core.reading import approvals
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import CallTools, Moment, Record, Step, ToolAttempt


@frozen
class _Held:
    """An attempt that waits for somebody's word. `failure` says why its condition has no value."""

    attempt: ToolAttempt
    approval: ApprovalPlan
    shown: str
    failure: str = ""


def before_calls(
    state: RunState, visit: Visit, decided: Step, *, now: Moment, instruments: Instruments
) -> Step:
    """What was decided, but for the calls in it that have to wait."""
    if not isinstance(decided, CallTools) or not any(one.approval for one in decided.attempts):
        return decided
    held = [
        found for one in decided.attempts if (found := _held(state, one, instruments.expressions)) is not None
    ]
    if not held:
        return decided
    refused = _refused(state, visit, held)
    if refused:
        return Record(facts=tuple(refused))
    waiting = {one.attempt.started.call_id for one in held}
    free = tuple(one for one in decided.attempts if one.started.call_id not in waiting)
    if free:
        return CallTools(attempts=free)
    return _unanswered(state, visit, held) or Record(facts=tuple(_questions(state, held, now)))


def _held(state: RunState, attempt: ToolAttempt, expressions: ExpressionEvaluator) -> _Held | None:
    approval = attempt.approval
    if approval is None:
        return None
    shown = approvals.shown(attempt.arguments, attempt.bound, attempt.step_input)
    if approvals.is_granted(state, state.calls[attempt.started.call_id], approvals.digest_of(shown)):
        return None
    try:
        needed = not approval.when or expressions.is_true(approval.when, _variables(state, attempt))
    except ExpressionError as error:
        return _Held(attempt=attempt, approval=approval, shown=shown, failure=str(error))
    return _Held(attempt=attempt, approval=approval, shown=shown) if needed else None


def _variables(state: RunState, attempt: ToolAttempt) -> JsonObject:
    return {
        "tool": attempt.started.tool,
        "arguments": attempt.given,
        "input": state.context.get("input"),
        "context": context.public(state.context),
    }


# --- what was said -----------------------------------------------------------------------------


def _refused(state: RunState, visit: Visit, held: Sequence[_Held]) -> list[ToolCallFinished]:
    """The ends of the calls that somebody did not let start."""
    batch = open_batch(state, visit)
    ended: list[ToolCallFinished] = []
    for one in held:
        call = state.calls[one.attempt.started.call_id]
        if call.verdict is not None and call.verdict.refused is not None:
            why = call.verdict.refused or "no reason was given"
            problem = CallProblem.NOT_APPROVED, f"a person did not approve this call: {why}"
            ended.append(call_checks.refused(batch, call, problem))
    return ended


def _unanswered(state: RunState, visit: Visit, held: Sequence[_Held]) -> Record | None:
    """The end of the step where there is nobody to ask, or nobody answered and that was to end it."""
    first = held[0].attempt.started
    if state.started.on_question is OnQuestion.REVIEW or state.oversight.cleanup is not None:
        error = f"{first.tool} has to be approved, and nobody is there to ask"
    elif expired := next((one.attempt.started for one in held if _has_expired(state, one)), None):
        first, error = expired, f"nobody decided about {expired.tool} in time"
    else:
        return None
    end = exits.abnormal(StopReason.REVIEW, leaf=first.tool, error=error)
    return leaving.leave(state, visit, with_best(end, state, visit))


def _has_expired(state: RunState, held: _Held) -> bool:
    verdict = state.calls[held.attempt.started.call_id].verdict
    return verdict is not None and verdict.expired


# --- what is asked -----------------------------------------------------------------------------


def _questions(state: RunState, held: Sequence[_Held], now: Moment) -> list[Fact]:
    facts: list[Fact] = []
    for one in held:
        if one.failure:
            text = f"condition `{one.approval.when}` of an approval counts as true: {one.failure}"
            facts.append(Noticed(code=NoticeCode.CONDITION_FAILED, text=text))
        started, call = one.attempt.started, state.calls[one.attempt.started.call_id]
        facts.append(
            InterruptRaised(
                interrupt_id=approvals.next_id(call),
                kind=InterruptKind.APPROVAL,
                call_id=call.call_id,
                options=approvals.OPTIONS,
                expires_unix_ms=now.unix_ms + one.approval.expiry_ms,
                question=f"May {started.tool} be called with these arguments?",
                arguments_json=one.shown,
                digest=approvals.digest_of(one.shown),
                on_expiry=one.approval.on_expiry,
            )
        )
    return facts
