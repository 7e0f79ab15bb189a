"""How a fact changes a run: the fold behind replay, recovery, and every live run.

Owns `begin`, `evolve` and `replay`. Total over the union of facts; a fact that can't follow means that the
log is not one of ours.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import assert_never

from jackline_server.core import evolve_calls, json_text
from jackline_server.core.bounds import Hold, Limit
from jackline_server.core.context import LAST_ERROR, LAST_ERROR_TYPE
from jackline_server.core.errors import CorruptLog
from jackline_server.core.exits import ABORTED, Exit, is_reserved
from jackline_server.core.facts import (
    AnswerProblem,
    AnswerRejected,
    CommandApplied,
    CommandKind,
    CommandRejected,
    Fact,
    FailureClass,
    InterruptRaised,
    InterruptResolved,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    NoticeCode,
    Noticed,
    Paused,
    Purpose,
    RecoveryCause,
    Resumed,
    RunFinished,
    RunRecovered,
    RunStarted,
    RunSuspended,
    Steered,
    StepFinished,
    StepStarted,
    TimerFired,
    TimerKind,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.plan import Plan
from jackline_server.core.state import (
    AbortRequest,
    Attempts,
    Cleanup,
    Interrupt,
    ModelCall,
    Note,
    Oversight,
    Reply,
    RunState,
    StepSummary,
    Visit,
)


def begin(run_id: str, plan: Plan, started: RunStarted, *, active_ms: int = 0) -> RunState:
    """The state after the first fact."""
    return RunState(
        run_id=run_id,
        plan=plan,
        started=started,
        sequence=1,
        active_ms=active_ms,
        epoch=started.epoch,
        context={"input": json_text.parse(started.input_json)},
        next_step=plan.flow[0],
        oversight=Oversight(interrupts={}),
        visits={},
        calls={},
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
    moved = replace(state, sequence=state.sequence + 1, active_ms=max(active_ms, state.active_ms))
    return _apply(moved, fact)


def _apply(state: RunState, fact: Fact) -> RunState:  # noqa: C901, PLR0911, PLR0912 - one case a fact
    match fact:
        case RunStarted():
            raise CorruptLog("a run starts once")
        case RunRecovered():
            return _recover(state, fact)
        case RunSuspended():
            return replace(state, suspended=True)
        case RunFinished():
            return replace(state, finished=fact)
        case StepStarted():
            return _enter(state, fact)
        case StepFinished():
            return _leave(state, fact)
        case ModelCallStarted():
            return _reserve(state, fact)
        case ModelReplied():
            return _reply(state, fact)
        case ModelCallFailed():
            return _fail(state, fact)
        case ToolCallRequested():
            return evolve_calls.request(state, fact)
        case ToolCallStarted():
            return evolve_calls.start(state, fact)
        case ToolCallFinished():
            return evolve_calls.finish(state, fact)
        case AnswerRejected():
            return _in_visit(state, lambda visit: _reject(visit, fact))
        case InterruptRaised():
            return _raise(state, fact)
        case InterruptResolved():
            return _resolve(state, fact)
        case CommandApplied():
            return _command(state, fact)
        case CommandRejected():
            return state
        case Paused():
            return _oversee(state, paused=True)
        case Resumed():
            return _oversee(state, paused=False)
        case Steered():
            return _in_visit(state, lambda visit: _steer(visit, fact))
        case TimerFired():
            return _timer(state, fact)
        case Noticed():
            return _notice(state, fact)
        case _:
            assert_never(fact)


def current(state: RunState) -> Visit:
    """The visit under way. Raises CorruptLog if there is none."""
    if state.visit is None:
        raise CorruptLog("a fact of a step stands outside one")
    return state.visit


def _in_visit(state: RunState, change: Callable[[Visit], Visit]) -> RunState:
    return replace(state, visit=change(current(state)))


def _oversee(state: RunState, *, paused: bool) -> RunState:
    return replace(state, oversight=replace(state.oversight, paused=paused))


# --- run and step ------------------------------------------------------------------------------


def _recover(state: RunState, fact: RunRecovered) -> RunState:
    crashed = fact.cause is RecoveryCause.CRASH
    state = replace(
        state,
        epoch=fact.epoch,
        recoveries=state.recoveries + crashed,
        suspended=False,
        calls={name: evolve_calls.cut(call) for name, call in state.calls.items()},
    )
    if state.visit is None:
        return state
    if state.visit.model_call is not None:
        state = _settle_lost_call(state, state.visit.model_call)
    return _in_visit(state, lambda visit: replace(visit, crashes=visit.crashes + crashed))


def _settle_lost_call(state: RunState, call: ModelCall) -> RunState:
    """Charge a call that nobody will answer at its full estimate, and let it be tried again at once."""
    tokens, cost = call.hold.tokens, call.hold.cost_micros
    usage = Usage(
        prompt_tokens=call.started.prompt_tokens,
        completion_tokens=call.started.max_output_tokens,
        estimated=True,
    )
    visit = current(state)
    return replace(
        state,
        usage=_add(state.usage, usage),
        ledger=state.ledger.settle(call.hold, tokens=tokens, cost_micros=cost),
        visit=replace(
            visit,
            ledger=visit.ledger.settle(call.hold, tokens=tokens, cost_micros=cost),
            model_call=None,
            request_since_ms=None,
            attempts=Attempts(
                failed=call.started.attempt,
                last=FailureClass.CANCELLED,
                error="the worker went away during the call",
                retry_at_active_ms=state.active_ms,
            ),
        ),
    )


def _enter(state: RunState, fact: StepStarted) -> RunState:
    if state.visit is not None:
        raise CorruptLog("a step starts inside another")
    visit = Visit(step_id=fact.step_id, number=fact.visit, started_active_ms=state.active_ms)
    return replace(
        state,
        visit=visit,
        visits={**state.visits, fact.step_id: fact.visit},
        ledger=state.ledger.enter_step(),
    )


def _leave(state: RunState, fact: StepFinished) -> RunState:
    visit = current(state)
    context = {**state.context, **json_text.parse_object(fact.writes_json)}
    if is_reserved(fact.signal):
        context[LAST_ERROR] = fact.error
        context[LAST_ERROR_TYPE] = fact.signal
    summary = summary_of(visit, signal=fact.signal, finished_active_ms=state.active_ms)
    return replace(
        state,
        visit=None,
        context=context,
        next_step=fact.next_step,
        summaries=(*state.summaries, summary),
        last_exit=_exit_of(fact),
        oversight=_begin_cleanup(state, fact),
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
    oversight = replace(state.oversight, interrupts={}, expired=overtaken)
    if fact.signal == ABORTED and fact.next_step and oversight.cleanup is None:
        cleanup = Cleanup(since_steps=state.ledger.steps, since_active_ms=state.active_ms)
        return replace(oversight, cleanup=cleanup)
    return oversight


# --- turn --------------------------------------------------------------------------------------


def _reserve(state: RunState, fact: ModelCallStarted) -> RunState:
    visit = current(state)
    hold = Hold(tokens=fact.reserved_tokens, cost_micros=fact.reserved_cost_micros)
    since, closing = visit.request_since_ms, visit.closing
    if fact.limit is not None:
        closing = Limit(reason=fact.limit, leaf=fact.limit_leaf)
    return replace(
        state,
        ledger=state.ledger.reserve(tokens=hold.tokens, cost_micros=hold.cost_micros),
        visit=replace(
            visit,
            ledger=visit.ledger.reserve(tokens=hold.tokens, cost_micros=hold.cost_micros),
            iteration=fact.iteration,
            model_call=ModelCall(sequence=state.sequence, started=fact, hold=hold),
            request_since_ms=state.active_ms if since is None else since,
            answer=None,
            closing=closing,
        ),
    )


def _in_flight(visit: Visit) -> ModelCall:
    if visit.model_call is None:
        raise CorruptLog("a reply without a call")
    return visit.model_call


def _reply(state: RunState, fact: ModelReplied) -> RunState:
    visit = current(state)
    call = _in_flight(visit)
    turns = int(call.started.purpose is Purpose.TURN)
    reply = Reply(text=fact.text, finish=fact.finish)
    return replace(
        state,
        usage=_add(state.usage, fact.usage),
        ledger=state.ledger.settle(
            call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros, turns=turns
        ),
        visit=replace(
            visit,
            ledger=visit.ledger.settle(
                call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros, turns=turns
            ),
            entries=(*visit.entries, reply),
            model_call=None,
            attempts=None,
            request_since_ms=None,
            repairing=False,
            answer=reply,
        ),
    )


def _fail(state: RunState, fact: ModelCallFailed) -> RunState:
    visit = current(state)
    call = _in_flight(visit)
    retry_at = None if fact.retry_in_ms is None else state.active_ms + fact.retry_in_ms
    attempts = Attempts(
        failed=call.started.attempt,
        last=fact.failure,
        error=fact.error,
        retry_at_active_ms=retry_at,
    )
    ledger = visit.ledger.settle(call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros)
    return replace(
        state,
        usage=_add(state.usage, fact.usage),
        ledger=state.ledger.settle(call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros),
        visit=replace(visit, ledger=ledger, model_call=None, attempts=attempts),
    )


def _add(total: Usage, usage: Usage) -> Usage:
    return Usage(
        prompt_tokens=total.prompt_tokens + usage.prompt_tokens,
        completion_tokens=total.completion_tokens + usage.completion_tokens,
        cached_tokens=total.cached_tokens + usage.cached_tokens,
        reasoning_tokens=total.reasoning_tokens + usage.reasoning_tokens,
        estimated=total.estimated or usage.estimated,
    )


def _reject(visit: Visit, fact: AnswerRejected) -> Visit:
    empty = fact.problem is AnswerProblem.EMPTY
    note = Note(text=fact.explanation, provenance="notice")
    return replace(
        visit,
        answer=None,
        entries=(*visit.entries, note),
        repairing=fact.repair > 0,
        repairs=visit.repairs + (not empty),
        empty_replies=visit.empty_replies + empty,
    )


# --- people and control ------------------------------------------------------------------------


def _raise(state: RunState, fact: InterruptRaised) -> RunState:
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
    )
    interrupts = {**state.oversight.interrupts, fact.interrupt_id: interrupt}
    return replace(state, oversight=replace(state.oversight, interrupts=interrupts))


def _resolve(state: RunState, fact: InterruptResolved) -> RunState:
    interrupts = dict(state.oversight.interrupts)
    interrupt = interrupts.pop(fact.interrupt_id, None)
    if interrupt is None:
        raise CorruptLog("an interrupt is resolved that is not open")
    oversight = state.oversight
    if fact.option:
        oversight = replace(oversight, decided=oversight.decided | {fact.interrupt_id})
    else:
        oversight = replace(oversight, expired=oversight.expired | {fact.interrupt_id})
    state = replace(state, oversight=replace(oversight, interrupts=interrupts))
    return evolve_calls.resolve(state, interrupt, fact)


def _command(state: RunState, fact: CommandApplied) -> RunState:
    if fact.kind is not CommandKind.ABORT or fact.abort_mode is None:
        return state
    abort = AbortRequest(
        mode=fact.abort_mode,
        skip_routes=fact.skip_routes,
        principal=fact.principal,
        reason=fact.reason,
    )
    return replace(state, oversight=replace(state.oversight, abort=abort, paused=False))


def _steer(visit: Visit, fact: Steered) -> Visit:
    note = Note(text=fact.text, provenance=f"steer:{fact.principal}")
    return replace(visit, entries=(*visit.entries, note), answer=None)


def _timer(state: RunState, fact: TimerFired) -> RunState:
    if fact.kind is TimerKind.DEADLINE:
        return replace(state, oversight=replace(state.oversight, deadline_passed=True))
    return state


def _notice(state: RunState, fact: Noticed) -> RunState:
    oversight = state.oversight
    match fact.code:
        case NoticeCode.BUDGET_NEARLY_USED:
            state = replace(state, oversight=replace(oversight, budget_told=True))
            note = Note(text=fact.text, provenance="notice")
            return _in_visit(state, lambda visit: replace(visit, entries=(*visit.entries, note)))
        case NoticeCode.FILE_MISSING:
            told = oversight.warnings_told + 1
            return replace(state, oversight=replace(oversight, warnings_told=told))
        case NoticeCode.CONDITION_FAILED:
            return state
