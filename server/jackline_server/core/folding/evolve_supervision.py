"""How the facts of a supervisor change a run, and what its calls change about what a supervisor has seen.

Owns what a firing, and a judge's word, do by themselves: a message enters the conversation, an abort takes
hold. A pause, a denied call, a question and a rejected answer are facts of their own, behind them.
"""

from collections.abc import Sequence

from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    InterruptResolved,
    JudgeReturned,
    ModelCallStarted,
    RuleFired,
    StopReason,
)
from jackline_server.core.frozen import change
from jackline_server.core.gates import Trial
from jackline_server.core.plan import ModelStep, StepPlan
from jackline_server.core.reading import repetition, supervisor_words
from jackline_server.core.repetition_plans import RepeatBy
from jackline_server.core.state import (
    AbortRequest,
    Attempts,
    Interrupt,
    Note,
    Reply,
    RunState,
    ToolCall,
    Visit,
    current,
)
from jackline_server.core.supervision import Supervision
from jackline_server.core.supervisor_plans import ErrorRate, RuleAction, SupervisorPlan, ToolRepeated


def begun(step: StepPlan) -> Supervision | None:
    """What a visit begins with."""
    if not isinstance(step, ModelStep) or step.supervisor is None:
        return None
    return Supervision(counts={}, fired={}, held={}, denied={})


_UNSAID = "its judge does not pass it"


# --- what is seen ------------------------------------------------------------------------------


def turn_over(seen: Supervision, calls: Sequence[ToolCall], plan: SupervisorPlan) -> Supervision:
    """One more turn, whose calls are settled, is counted as its rules look at it."""
    counts = dict(seen.counts)
    for by in {rule.when.by for rule in plan.rules if isinstance(rule.when, ToolRepeated)}:
        for call in calls:
            key = repetition.likeness(call, by)
            counts[key] = counts.get(key, 0) + 1
            if by is RepeatBy.ARGS_RESULT:
                most = supervisor_words.most_alike(call)
                counts[most] = max(counts.get(most, 0), counts[key])
    window = max((rule.when.window for rule in plan.rules if isinstance(rule.when, ErrorRate)), default=0)
    failures = (*seen.failures, *(call.status is not CallStatus.COMPLETED for call in calls))
    return change(seen, counts=counts, failures=failures[-window:] if window else ())


def unsound(state: RunState, rule: str) -> RunState:
    """The expression of a rule could not be evaluated, and that was noticed; of no rule, if that is empty."""
    visit = state.visit
    if not rule or visit is None or visit.supervision is None:
        return state
    seen = visit.supervision
    return change(state, visit=change(visit, supervision=change(seen, unsound=seen.unsound | {rule})))


# --- what it does ------------------------------------------------------------------------------


def fire(state: RunState, fact: RuleFired) -> RunState:
    """A rule fired."""
    visit, seen, plan = _watched(state)
    if plan.rule(fact.rule) is None:
        raise CorruptLog("a rule fires that the plan has not")
    seen = change(seen, fired={**seen.fired, fact.rule: visit.ledger.iterations})
    if fact.call_id:
        seen = change(seen, held={**seen.held, (fact.rule, fact.call_id): state.sequence})
    fired = change(visit, supervision=seen)
    if fact.action is RuleAction.STEER:
        fired = _told(fired, fact.words, fact.rule)
    state = change(state, visit=fired)
    if fact.action is not RuleAction.ABORT:
        return state
    return _aborted(state, StopReason.SUPERVISOR, who=fact.rule, reason=fact.words)


def judged(state: RunState, fact: JudgeReturned) -> RunState:
    """The judge has looked at all there is; its time is no part of any other request's.

    A word that does not pass is about all that the model said since it looked last.
    """
    visit, seen, plan = _watched(state)
    if plan.judge is None or plan.judge.place != fact.judge:
        raise CorruptLog("a judge comes back that the plan has not")
    looked = change(visit, request_since_ms=None)
    if fact.action is RuleAction.STEER and not supervisor_words.is_at_its_end(visit):
        looked = _told(looked, supervisor_words.violation(fact.reason), fact.judge)
    if fact.passed is False or fact.action is RuleAction.ABORT:
        seen = change(seen, refused=seen.refused | _newly_said(visit, seen, looked))
    seen = change(seen, trial=None, judged_turns=visit.ledger.iterations, judged_entries=len(looked.entries))
    state = change(state, visit=change(looked, supervision=seen))
    if fact.action is not RuleAction.ABORT:
        return state
    return _aborted(state, StopReason.JUDGE, who=fact.judge, reason=fact.reason or fact.problem or _UNSAID)


def _newly_said(visit: Visit, seen: Supervision, looked: Visit) -> frozenset[int]:
    """The places of what the judge has not seen before of the model, and of its own words behind that."""
    news = range(seen.judged_entries, len(visit.entries))
    said = (place for place in news if isinstance(visit.entries[place], Reply))
    return frozenset((*said, *range(len(visit.entries), len(looked.entries))))


def resolve(state: RunState, interrupt: Interrupt, fact: InterruptResolved) -> RunState:
    """A person said how it goes on, or nobody did in time."""
    visit, seen, plan = _watched(state)
    who = interrupt.limit_leaf
    match fact.option:
        case supervisor_words.ABORT:
            is_judge = plan.judge is not None and plan.judge.place == who
            cause = StopReason.JUDGE if is_judge else StopReason.SUPERVISOR
            return _aborted(state, cause, who=who, reason=fact.text or f"{fact.principal} ended it")
        case supervisor_words.DENY:
            words = supervisor_words.denied(who, fact.text)
            seen = change(seen, denied={**seen.denied, interrupt.call_id: words})
        case "":
            seen = change(seen, unanswered=who)
        case _:
            return state
    return change(state, visit=change(visit, supervision=seen))


def _watched(state: RunState) -> tuple[Visit, Supervision, SupervisorPlan]:
    visit = current(state)
    step = state.plan.step(visit.step_id)
    if visit.supervision is None or not isinstance(step, ModelStep) or step.supervisor is None:
        raise CorruptLog("a supervisor acts on a step that it does not watch")
    return visit, visit.supervision, step.supervisor


def _told(visit: Visit, text: str, who: str) -> Visit:
    return change(visit, entries=(*visit.entries, Note(text=text, provenance=f"steer:{who}")))


def _aborted(state: RunState, cause: StopReason, *, who: str, reason: str) -> RunState:
    """The run ends along its routes, as with any abort at a boundary. One that was there first stands."""
    if state.oversight.abort is not None:
        return state
    abort = AbortRequest(
        mode=AbortMode.GRACEFUL, skip_routes=False, principal=who, reason=reason, cause=cause
    )
    held = change(state.oversight, abort=abort, paused=False, pause_expires_unix_ms=None)
    return change(state, oversight=held)


# --- calls of the judge ------------------------------------------------------------------------


def reserved(seen: Supervision, started: ModelCallStarted) -> Supervision:
    """The judge is asked."""
    return change(seen, trial=Trial(failed=started.attempt - 1))


def sent_back(seen: Supervision | None, *, sent: bool) -> Supervision | None:
    """An answer was sent back in the judge's name, or the reply that follows has come."""
    return seen if seen is None or seen.sent_back is sent else change(seen, sent_back=sent)


def replied(visit: Visit, text: str) -> Visit:
    """The judge has replied; its words wait to be read and are no part of the conversation."""
    return _trying(visit, Trial(said=text))


def failed(visit: Visit, attempts: Attempts) -> Visit:
    """An attempt at the judge failed."""
    trial = Trial(
        failed=attempts.failed,
        last=attempts.last,
        error=attempts.error,
        retry_at_active_ms=attempts.retry_at_active_ms,
    )
    return _trying(visit, trial)


def _trying(visit: Visit, trial: Trial) -> Visit:
    if visit.supervision is None:
        raise CorruptLog("a judge of nobody is asked")
    return change(visit, supervision=change(visit.supervision, trial=trial))
