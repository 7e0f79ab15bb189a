"""The judge of a supervisor: when it is asked, what it is shown, and what its word leads to.

Owns the cadence: every so many turns, and, for a blocking one, before an answer stands that it has not seen.
It can do no more than its plan says: whatever its reply holds is read as passed, not passed, or nothing
usable. A judge that fails, says nothing usable, has no room under the bounds, or can't be shown all that is
new follows `on_error`. Does not
own how the call is made (`side_calls`) or how its reply is read (`verdicts`).
"""

from jackline_server.core.bounds import Limit
from jackline_server.core.deciding import finishing, judging, side_calls, turns, verdicts
from jackline_server.core.deciding.outcome import Wrong
from jackline_server.core.deciding.side_calls import SideCall
from jackline_server.core.deciding.verdicts import Verdict
from jackline_server.core.facts import AnswerProblem, JudgeReturned, Purpose
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.gates import Trial
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import supervisor_words
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import Moment, Record, Step
from jackline_server.core.supervising import firing, judge_views
from jackline_server.core.supervising.firing import Acting
from jackline_server.core.supervision import Supervision
from jackline_server.core.supervisor_plans import OnSupervisorError, RuleAction, SupervisorJudgePlan

_ON_ERROR = {
    OnSupervisorError.IGNORE: None,
    OnSupervisorError.PAUSE: RuleAction.PAUSE,
    OnSupervisorError.ABORT: RuleAction.ABORT,
}


def is_due(plan: SupervisorJudgePlan, visit: Visit, seen: Supervision) -> bool:
    """True if so many turns are over that it has not seen."""
    return visit.ledger.iterations - seen.judged_turns >= plan.every


def has_seen_all(visit: Visit, seen: Supervision) -> bool:
    """True if nothing was said in the visit since it looked."""
    return len(visit.entries) <= seen.judged_entries


def ask(state: RunState, visit: Visit, step: ModelStep, plan: SupervisorJudgePlan, *, now: Moment) -> Step:
    """The next attempt at it, or what follows where there is no room for one."""
    trial = None if visit.supervision is None else visit.supervision.trial
    case = judge_views.case(state, visit, step, plan)
    if case is None:
        problem = "what the step did since the judge last looked is more than it can be shown"
        return _failed(state, visit, step, plan, problem, now)
    asked = SideCall(
        purpose=Purpose.SUPERVISE,
        model=plan.model,
        instructions=verdicts.instructions(plan.criteria),
        case=case,
        failed=0 if trial is None else trial.failed,
        timeout_ms=plan.timeout_ms,
    )
    call = side_calls.call(state, visit, step, asked, now_active_ms=now.active_ms)
    if isinstance(call, Limit):
        return _failed(state, visit, step, plan, f"no room for the judge: {turns.limit_words(call)}", now)
    return change(call, masked=plan.view is ArgumentsView.REDACTED)


def go_on(
    state: RunState, visit: Visit, step: ModelStep, plan: SupervisorJudgePlan, trial: Trial, *, now: Moment
) -> Step:
    """What follows while it is at work: its word, the wait for its next attempt, or that attempt."""
    if trial.said is not None:
        verdict = verdicts.read(trial.said)
        if isinstance(verdict, str):
            return _failed(state, visit, step, plan, verdict, now)
        return _said(state, visit, step, plan, verdict, now)
    if trial.failed:
        if trial.retry_at_active_ms is None:
            return _failed(state, visit, step, plan, f"the judge failed: {trial.error}", now)
        if now.active_ms < trial.retry_at_active_ms:
            return turns.wait_for_retry(state, trial.retry_at_active_ms, now.active_ms)
    return ask(state, visit, step, plan, now=now)


def _said(
    state: RunState, visit: Visit, step: ModelStep, plan: SupervisorJudgePlan, verdict: Verdict, now: Moment
) -> Record:
    returned = JudgeReturned(
        judge=plan.place,
        turn=visit.ledger.iterations,
        passed=verdict.passed,
        action=None if verdict.passed else plan.on_violation,
        reason=verdict.reason,
    )
    if returned.action is RuleAction.STEER and supervisor_words.is_at_its_end(visit):
        return Record(facts=(returned, *_sent_back(state, visit, step, verdict).facts))
    return _acted(state, visit, plan, returned, now)


def _failed(
    state: RunState, visit: Visit, step: ModelStep, plan: SupervisorJudgePlan, problem: str, now: Moment
) -> Record:
    returned = JudgeReturned(
        judge=plan.place,
        turn=visit.ledger.iterations,
        passed=None,
        action=_ON_ERROR[plan.on_error],
        problem=problem,
    )
    return _acted(state, visit, plan, returned, now)


def _acted(
    state: RunState, visit: Visit, plan: SupervisorJudgePlan, returned: JudgeReturned, now: Moment
) -> Record:
    if returned.action is None:
        return Record(facts=(returned,))
    acting = Acting(
        who=plan.place,
        action=returned.action,
        words=f"The judge does not pass what this step does: {returned.reason or 'it gave no reason'}",
        expiry_ms=plan.expiry_ms,
    )
    return Record(facts=(returned, *firing.consequences(state, visit, acting, now)))


def _sent_back(state: RunState, visit: Visit, step: ModelStep, verdict: Verdict) -> Record:
    """The answer that it was asked about does not stand: the next turn follows."""
    wrong = Wrong(problem=AnswerProblem.SUPERVISOR, explanation=supervisor_words.violation(verdict.reason))
    finish = finishing.given(state, visit, step)
    if finish is not None:
        return finishing.rejected(state, step, finish, wrong)
    return judging.reject(state, visit, step, wrong)
