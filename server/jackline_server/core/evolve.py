"""How a fact changes a run: the fold behind replay, recovery, and every live run.

Owns `begin`, `evolve` and `replay`. Total over the union of facts; a fact that can't follow means that the
log is not one of ours.
"""

from collections.abc import Iterable
from typing import assert_never

from jackline_server.core import json_text
from jackline_server.core.context import LAST_ERROR, LAST_ERROR_TYPE
from jackline_server.core.errors import CorruptLog
from jackline_server.core.exits import ABORTED, Exit, is_abnormal
from jackline_server.core.facts import (
    AnswerRejected,
    BoundsAdjusted,
    ChildFinished,
    ChildStarted,
    CommandApplied,
    CommandRejected,
    Compacted,
    Consulted,
    Fact,
    Grounded,
    HistoryRepaired,
    InterruptRaised,
    InterruptResolved,
    JudgeReturned,
    MessagesAppended,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Noticed,
    Paused,
    RecoveryCause,
    Reflected,
    Resumed,
    RuleFired,
    RunFinished,
    RunRecovered,
    RunStarted,
    RunSuspended,
    Steered,
    StepFinished,
    StepStarted,
    TimerFired,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.folding import (
    evolve_calls,
    evolve_children,
    evolve_control,
    evolve_gates,
    evolve_history,
    evolve_progress,
    evolve_supervision,
    evolve_turns,
)
from jackline_server.core.frozen import change
from jackline_server.core.plan import ModelStep, Plan
from jackline_server.core.reading import conversation, transcript
from jackline_server.core.state import (
    Cleanup,
    History,
    Oversight,
    RunState,
    StepSummary,
    Talk,
    Visit,
    current,
)


def begin(run_id: str, plan: Plan, started: RunStarted, *, active_ms: int = 0) -> RunState:
    """The state after the first fact."""
    thread = started.thread
    return RunState(
        run_id=run_id,
        plan=plan,
        started=started,
        bounds=started.bounds,
        sequence=1,
        active_ms=active_ms,
        epoch=started.epoch,
        context={"input": json_text.parse(started.input_json)},
        next_step=plan.flow[0],
        oversight=Oversight(starts_unix_ms=started.start_unix_ms, interrupts={}),
        visits={},
        calls={},
        talk=None if thread is None else Talk(history=thread.messages, waits=thread.waits),
        gates=evolve_gates.begun(plan),
    )


def replay(run_id: str, plan: Plan, facts: Iterable[tuple[Fact, int]]) -> RunState:
    """Fold a log of facts, each with the active time it carried. Raises CorruptLog."""
    log = iter(facts)
    first = next(log, None)
    if first is None or not isinstance(first[0], RunStarted):
        raise CorruptLog("a log begins with RunStarted")
    state = begin(run_id, plan, first[0], active_ms=first[1])
    for fact, active_ms in log:
        state = evolve(state, fact, active_ms=active_ms)
    return state


def evolve(state: RunState, fact: Fact, *, active_ms: int) -> RunState:
    """The state after `fact`, which was recorded at that active time. Raises CorruptLog."""
    if state.finished is not None:
        raise CorruptLog("nothing follows RunFinished")
    moved = change(state, sequence=state.sequence + 1, active_ms=max(active_ms, state.active_ms))
    return _apply(moved, fact)


def _apply(state: RunState, fact: Fact) -> RunState:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one case a fact
    match fact:  # in the order of how often each comes: the first five are a turn
        case ModelCallStarted():
            return evolve_turns.reserve(state, fact)
        case ModelReplied():
            return evolve_turns.reply(state, fact)
        case ToolCallRequested():
            return evolve_calls.request(state, fact)
        case ToolCallStarted():
            return evolve_calls.start(state, fact)
        case ToolCallFinished():
            return evolve_calls.finish(state, fact)
        case RunStarted():
            raise CorruptLog("a run starts once")
        case RunRecovered():
            return _recover(state, fact)
        case RunSuspended():
            return change(state, suspended=True, lull=_lull(state))
        case RunFinished():
            return change(state, finished=fact)
        case StepStarted():
            return _enter(state, fact)
        case StepFinished():
            return _leave(state, fact)
        case ModelCallFailed():
            return evolve_turns.fail(state, fact)
        case AnswerRejected():
            return evolve_turns.reject(state, fact)
        case InterruptRaised():
            return evolve_control.raise_interrupt(state, fact)
        case InterruptResolved():
            return evolve_control.resolve(state, fact)
        case CommandApplied():
            return evolve_control.command(state, fact)
        case CommandRejected():
            return conversation.came_too_late(state, fact) if fact.unheard else state
        case Paused():
            return evolve_control.pause(state, fact)
        case Resumed():
            return evolve_control.resume(state)
        case Steered():
            return evolve_control.steer(state, fact)
        case BoundsAdjusted():
            return evolve_control.adjust(state, fact)
        case TimerFired():
            return evolve_control.timer(state, fact)
        case Noticed():
            return evolve_control.notice(state, fact)
        case Consulted():
            return evolve_turns.consult(state, fact)
        case Reflected():
            return evolve_progress.reflect(state, fact)
        case Grounded():
            return evolve_progress.ground(state, fact)
        case HistoryRepaired():
            return evolve_history.repair(state, fact)
        case Compacted():
            return evolve_history.compact(state, fact)
        case MessagesAppended():
            return conversation.turn_came(state, fact)
        case ChildStarted():
            return evolve_children.start(state, fact)
        case ChildFinished():
            return evolve_children.finish(state, fact)
        case RuleFired():
            return evolve_supervision.fire(state, fact)
        case JudgeReturned():
            return evolve_supervision.judged(state, fact)
        case _:
            assert_never(fact)


# --- run and step ------------------------------------------------------------------------------


def _recover(state: RunState, fact: RunRecovered) -> RunState:
    crashed = fact.cause is RecoveryCause.CRASH
    state = change(
        state,
        epoch=fact.epoch,
        recoveries=state.recoveries + crashed,
        lull=None if crashed else _lull(state),
        suspended=False,
        calls={name: evolve_calls.cut(call) for name, call in state.calls.items()},
    )
    if state.visit is None:
        return state
    if state.visit.model_call is not None:
        state = evolve_turns.settle_lost(state, state.visit.model_call)
    visit = current(state)
    return change(state, visit=change(visit, crashes=visit.crashes + crashed))


def _lull(state: RunState) -> tuple[int, int]:
    """The last fact that moved the run, and this one, which does not."""
    before = state.sequence - 1
    since = state.lull[0] if state.lull is not None and state.lull[1] == before else before
    return since, state.sequence


def _enter(state: RunState, fact: StepStarted) -> RunState:
    if state.visit is not None:
        raise CorruptLog("a step starts inside another")
    step = state.plan.step(fact.step_id)
    opening = transcript.opened(state, step) if isinstance(step, ModelStep) else None
    visit = Visit(
        step_id=fact.step_id,
        number=fact.visit,
        started_active_ms=state.active_ms,
        prompt=opening,
        history=History(opening=opening),
        supervision=evolve_supervision.begun(step),
    )
    return change(
        state,
        visit=visit,
        visits={**state.visits, fact.step_id: fact.visit},
        ledger=state.ledger.enter_step(),
        talk=None if state.talk is None else conversation.entered(state, step),
    )


def _leave(state: RunState, fact: StepFinished) -> RunState:
    visit = current(state)
    context = {**state.context, **json_text.parse_object(fact.writes_json)}
    if is_abnormal(fact.signal):
        context[LAST_ERROR] = fact.error
        context[LAST_ERROR_TYPE] = fact.signal
    summary = summary_of(visit, signal=fact.signal, finished_active_ms=state.active_ms)
    return change(
        state,
        visit=None,
        context=context,
        next_step=fact.next_step,
        summaries=(*state.summaries, summary),
        last_exit=_exit_of(fact),
        oversight=_begin_cleanup(state, fact),
        talk=None if state.talk is None else conversation.left(state, visit, fact),
        gates=None if state.gates is None else evolve_gates.left(state.gates),
    )


def summary_of(visit: Visit, *, signal: str, finished_active_ms: int | None) -> StepSummary:
    """A visit as those who read the run see it."""
    return StepSummary(
        step_id=visit.step_id,
        visit=visit.number,
        signal=signal,
        ledger=visit.ledger,
        started_active_ms=visit.started_active_ms,
        finished_active_ms=finished_active_ms,
    )


def _exit_of(fact: StepFinished) -> Exit:
    return Exit(
        signal=fact.signal,
        reason=fact.stop_reason,
        leaf=fact.stop_leaf,
        result=None if fact.result_json is None else json_text.parse(fact.result_json),
        has_result=fact.result_json is not None,
        partial=fact.partial,
        error=fact.error,
    )


def _begin_cleanup(state: RunState, fact: StepFinished) -> Oversight:
    overtaken = state.oversight.expired | frozenset(state.oversight.interrupts)
    oversight = change(state.oversight, interrupts={}, expired=overtaken)
    if fact.signal == ABORTED and fact.next_step and oversight.cleanup is None:
        cleanup = Cleanup(
            since_steps=state.ledger.steps, since_active_ms=state.active_ms, left=_exit_of(fact)
        )
        return change(oversight, cleanup=cleanup)
    return oversight
