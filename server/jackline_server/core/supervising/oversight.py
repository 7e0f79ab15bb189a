"""Who watches a step, and what they make of it: the questions that the loop asks of a supervisor.

Owns their order: what is under way first, then rules in the order of the file, then the judge. Does not own
whether a rule holds (`rules`), what an action leads to (`firing`), or the judge (`judge`). A step that nobody
watches never comes here.
"""

from jackline_server.core.deciding import leaving
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.facts import NoticeCode, Noticed, StepFinished
from jackline_server.core.instruments import DataTooLarge, ExpressionError, ExpressionEvaluator
from jackline_server.core.plan import ModelStep
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import CallTools, Moment, Record, Step
from jackline_server.core.supervising import firing, judge, rules
from jackline_server.core.supervising.rules import Sight
from jackline_server.core.supervisor_plans import RuleStage, SupervisorPlan


def under_way(state: RunState, visit: Visit, step: ModelStep, *, now: Moment) -> Step | None:
    """What the supervisor has begun and not ended; None if nothing."""
    plan, seen = step.supervisor, visit.supervision
    if plan is None or seen is None:
        return None
    if seen.unanswered:
        end = firing.review(seen.unanswered, "nobody answered in time")
        return leaving.leave(state, visit, with_best(end, state, visit))
    if seen.trial is None or plan.judge is None:
        return None
    return judge.go_on(state, visit, step, plan.judge, seen.trial, now=now)


def before_calls(
    state: RunState,
    visit: Visit,
    step: ModelStep,
    calls: CallTools,
    *,
    now: Moment,
    expressions: ExpressionEvaluator,
) -> Step | None:
    """What has to happen before these calls start; None once nothing has.

    Nobody is asked about a further attempt.
    """
    plan, seen = step.supervisor, visit.supervision
    if plan is None or seen is None:
        return None
    for attempt in calls.attempts:
        if attempt.started.attempt > 1:
            continue
        sight = Sight(state=state, visit=visit, step=step, seen=seen, now=now, attempt=attempt)
        call = state.calls[attempt.started.call_id]
        if call.call_id in seen.denied:
            return Record(facts=(firing.denied(call, seen.denied[call.call_id]),))
        held = _first(plan, RuleStage.BEFORE_CALL, sight, expressions)
        if held is not None:
            return held
    return None


def after_turn(
    state: RunState, visit: Visit, step: ModelStep, *, now: Moment, expressions: ExpressionEvaluator
) -> Step | None:
    """What the turns so far lead to, before the next one; None if nothing.

    A repair, a retry and a closing answer belong to what is under way.
    """
    plan, seen = step.supervisor, visit.supervision
    if plan is None or seen is None or not _is_between_turns(visit):
        return None
    sight = Sight(state=state, visit=visit, step=step, seen=seen, now=now)
    fired = _first(plan, RuleStage.AFTER_TURN, sight, expressions)
    if fired is not None or plan.judge is None or not judge.is_due(plan.judge, visit, seen):
        return fired
    return judge.ask(state, visit, step, plan.judge, now=now)


def before_leaving(state: RunState, visit: Visit, step: ModelStep, decided: Step, *, now: Moment) -> Step:
    """What the loop has decided, unless a blocking judge has to see the answer that the step ends with."""
    plan, seen = step.supervisor, visit.supervision
    if plan is None or seen is None or plan.judge is None or not plan.judge.blocking:
        return decided
    finished = decided.facts[-1] if isinstance(decided, Record) else None
    if not isinstance(finished, StepFinished) or finished.result_json is None or finished.partial:
        return decided
    if judge.has_seen_all(visit, seen):
        return decided
    return judge.ask(state, visit, step, plan.judge, now=now)


def _is_between_turns(visit: Visit) -> bool:
    return (
        visit.ledger.iterations > 0
        and visit.closing is None
        and visit.attempts is None
        and not visit.repairing
        and not visit.history.asked
    )


def _first(
    plan: SupervisorPlan, stage: RuleStage, sight: Sight, expressions: ExpressionEvaluator
) -> Record | None:
    """What the first rule leads to that holds and may fire.

    The size of a call's arguments is the model's choice, so it is no way past a rule that looks at them.
    """
    for rule in plan.rules:
        if rule.stage is not stage or not rules.is_armed(rule, sight):
            continue
        try:
            if rules.holds(rule, sight, expressions):
                return Record(facts=firing.fired(rule, sight))
        except ExpressionError as error:
            met = isinstance(error, DataTooLarge) and stage is RuleStage.BEFORE_CALL
            if rule.place not in sight.seen.unsound:
                return Record(facts=(_unsound(rule.place, error, met=met),))
            if met:
                return Record(facts=firing.fired(rule, sight))
    return None


def _unsound(place: str, error: ExpressionError, *, met: bool) -> Noticed:
    text = f"the rule {place} counts as {'met' if met else 'not met'}: {error}"
    return Noticed(code=NoticeCode.CONDITION_FAILED, subject=place, text=text)
