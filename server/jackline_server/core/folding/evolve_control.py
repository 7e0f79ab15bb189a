"""How facts from outside the loop change a run: questions, commands, timers, notices.

Owns what holds a run and what lets it go on.
"""

from jackline_server.core import new_bounds
from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import (
    BoundsAdjusted,
    CommandApplied,
    CommandKind,
    InterruptKind,
    InterruptRaised,
    InterruptResolved,
    NoticeCode,
    Noticed,
    Paused,
    Steered,
    StopReason,
    TimerFired,
    TimerKind,
)
from jackline_server.core.folding import (
    evolve_approvals,
    evolve_calls,
    evolve_gates,
    evolve_progress,
    evolve_supervision,
)
from jackline_server.core.frozen import change
from jackline_server.core.new_bounds import NO_VISIT_BOUNDS
from jackline_server.core.plan import ModelStep, OnPauseMax
from jackline_server.core.reading import budget_notices, fallbacks, limit_questions, pauses, repetition
from jackline_server.core.state import AbortRequest, Interrupt, Note, RunState, bounds_of, current


def pause(state: RunState, fact: Paused) -> RunState:
    """The run is held."""
    held = change(state.oversight, paused=True, pause_expires_unix_ms=fact.expires_unix_ms)
    return change(state, oversight=held)


def resume(state: RunState) -> RunState:
    """The run goes on."""
    return change(state, oversight=change(state.oversight, paused=False, pause_expires_unix_ms=None))


def raise_interrupt(state: RunState, fact: InterruptRaised) -> RunState:
    """A question is opened."""
    interrupt = Interrupt(
        interrupt_id=fact.interrupt_id,
        kind=fact.kind,
        step_id=current(state).step_id,
        call_id=fact.call_id,
        options=fact.options,
        raised_active_ms=state.active_ms,
        raised_sequence=state.sequence,
        expires_unix_ms=fact.expires_unix_ms,
        question=fact.question,
        limit_leaf=fact.limit_leaf,
        raise_to=fact.raise_to,
        schema_json=fact.schema_json,
        arguments_json=fact.arguments_json,
        digest=fact.digest,
        on_expiry=fact.on_expiry,
    )
    interrupts = {**state.oversight.interrupts, fact.interrupt_id: interrupt}
    return change(state, oversight=change(state.oversight, interrupts=interrupts))


def resolve(state: RunState, fact: InterruptResolved) -> RunState:
    """A question was answered, or nobody answered in time."""
    interrupts = dict(state.oversight.interrupts)
    interrupt = interrupts.pop(fact.interrupt_id, None)
    if interrupt is None:
        raise CorruptLog("an interrupt is resolved that is not open")
    oversight = state.oversight
    if fact.option:
        oversight = change(oversight, decided=oversight.decided | {fact.interrupt_id})
    else:
        oversight = change(oversight, expired=oversight.expired | {fact.interrupt_id})
    state = change(state, oversight=change(oversight, interrupts=interrupts))
    match interrupt.kind:
        case InterruptKind.UNKNOWN_OUTCOME:
            return evolve_calls.resolve(state, interrupt, fact)
        case InterruptKind.LIMIT_REACHED:
            return _limit_answered(state, fact.option or limit_questions.EXPIRED)
        case InterruptKind.QUESTION:
            return evolve_calls.replied(state, interrupt, fact)
        case InterruptKind.APPROVAL:
            return evolve_approvals.decided(state, interrupt, fact)
        case InterruptKind.SUPERVISION:
            return evolve_supervision.resolve(state, interrupt, fact)


def _limit_answered(state: RunState, answer: str) -> RunState:
    """The visit remembers the answer; where the bound is raised, nothing stands in its way any more."""
    if answer == limit_questions.RAISE:
        return state
    return change(state, visit=change(current(state), limit_answer=answer))


def command(state: RunState, fact: CommandApplied) -> RunState:
    """An abort takes hold; every other command acts by the facts that follow it.

    Nothing takes the place of the kill switch, which leaves out the cleanup path that another abort may have;
    and no later abort brings back a cleanup path that one has left out.
    """
    if fact.kind is not CommandKind.ABORT or fact.abort_mode is None:
        return state
    earlier = state.oversight.abort
    if earlier is not None and earlier.cause is StopReason.KILL_SWITCH:
        return state
    abort = AbortRequest(
        mode=fact.abort_mode,
        skip_routes=fact.skip_routes or (earlier is not None and earlier.skip_routes),
        principal=fact.principal,
        reason=fact.reason,
        cause=fact.abort_cause or StopReason.OPERATOR,
    )
    aborting = change(state.oversight, abort=abort, paused=False, pause_expires_unix_ms=None)
    return change(state, oversight=aborting)


def steer(state: RunState, fact: Steered) -> RunState:
    """Guidance enters the conversation; an answer that nobody has judged yet gives way to it."""
    state = evolve_gates.withdrawn(state)
    visit = evolve_progress.withdrawn(current(state))
    note = Note(text=fact.text, provenance=f"steer:{fact.principal}")
    progress = repetition.restarted(visit.progress)
    return change(state, visit=change(visit, entries=(*visit.entries, note), answer=None, progress=progress))


def adjust(state: RunState, fact: BoundsAdjusted) -> RunState:
    """The new bounds hold from here on."""
    state = budget_notices.raised(state, fact)
    state = change(state, bounds=new_bounds.of_run(state.bounds, fact.run))
    if fact.visit == NO_VISIT_BOUNDS:
        return state
    visit = current(state)
    step = state.plan.step(visit.step_id)
    if not isinstance(step, ModelStep):
        raise CorruptLog("the bounds of a visit are adjusted that has none")
    adjusted = new_bounds.of_visit(bounds_of(visit, step), fact.visit)
    return change(state, visit=change(visit, adjusted=adjusted))


def timer(state: RunState, fact: TimerFired) -> RunState:
    """A deadline passed, a delay, or a pause that ends the run; others act by the fact that follows them."""
    match fact.kind:
        case TimerKind.DEADLINE:
            return change(state, oversight=change(state.oversight, deadline_passed=True))
        case TimerKind.START:
            return change(state, oversight=change(state.oversight, starts_unix_ms=None))
        case TimerKind.PAUSE if fact.subject == OnPauseMax.ABORT.value:
            return change(state, oversight=pauses.ended(state.oversight))
        case TimerKind.PAUSE | TimerKind.INTERRUPT:
            return state


def notice(state: RunState, fact: Noticed) -> RunState:  # noqa: C901 - one case a code
    """Something is remembered as told; what the model is to know enters the conversation."""
    oversight = state.oversight
    match fact.code:
        case NoticeCode.BUDGET_NEARLY_USED:
            return budget_notices.told(state, fact)
        case NoticeCode.COST_UNKNOWN | NoticeCode.USAGE_ODD:
            told = oversight.told | {(fact.code, fact.subject)}
            return change(state, oversight=change(oversight, told=told))
        case NoticeCode.MODEL_FALLBACK:
            return fallbacks.moved_on(state)
        case NoticeCode.FILE_MISSING:
            return change(state, oversight=change(oversight, warnings_told=oversight.warnings_told + 1))
        case NoticeCode.TOOL_CALLS_IN_TEXT:
            return change(state, visit=change(current(state), text_calls_told=True))
        case NoticeCode.CONDITION_FAILED:
            return evolve_supervision.unsound(state, fact.subject)
        case NoticeCode.HISTORY | NoticeCode.RESULT_STORED:
            return state
        case NoticeCode.REPETITION:
            return evolve_progress.nudge(state, fact)
