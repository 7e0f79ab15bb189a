"""What a run does next: the whole policy of the loop as one pure function.

`decide` is a short list of questions in a fixed order, each answered by the module that owns it:

     1  finished already                                    -> Finish
     -  a child run lives                                   -> Wait
     2  abort applied, or the run keeps crashing            -> leave, end
     3  a deadline passed                                   -> leave, end
     4  paused, delayed, a question open, or not its turn    -> Wait
     -  between steps                                       -> gatekeeping, the next step, or the end
     -  a step around which somebody is asked               -> gatekeeping, before and after what follows
     -  a judge that watches the step at work               -> oversight.under_way
     5  tool calls still to do                              -> calls, oversight, then approvals.before_calls
     6  (a steer waiting is settled by `control` at the same boundary)
     7  a call of `finish`, or a reply without tool calls   -> finishing.judge, grounding.check, judging.judge
     -  an answer that its judge has not seen               -> oversight.before_leaving
     8  a stop condition true, at the top of a turn         -> stopping.ask
     9  a rule of the supervisor holds, its judge is due    -> oversight.after_turn
     9  turns repeated, a look back due                     -> turns.look_back
     -  a conversation too long, or not sound               -> compaction.due
    10  a limit reached                                     -> turns.at_limit
    11                                                      -> CallModel

The same state and moment always give the same answer.
"""

from typing import assert_never

from jackline_server.core import exits
from jackline_server.core.bounds import Limit
from jackline_server.core.calling import approvals, calls
from jackline_server.core.deciding import (
    batches,
    call_endings,
    compaction,
    finishing,
    grounding,
    judging,
    leaving,
    partial,
    routing,
    stopping,
    turns,
)
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    CallStatus,
    NoticeCode,
    Noticed,
    StepStarted,
    StopReason,
)
from jackline_server.core.gating import gatekeeping
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import ModelStep, RouterStep, ToolStep
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import CallTools, Finish, Moment, Record, Step, Wait
from jackline_server.core.supervising import oversight

MAX_CRASHES = 3
"""Crash recoveries that one visit of a step survives."""


def decide(state: RunState, *, now: Moment, instruments: Instruments) -> Step:
    """The next step of the run at this moment."""
    if state.finished is not None:
        return Finish()
    if state.has_children:
        return Wait(until_active_ms=None)
    stopped = _stopped(state, now)
    if stopped is not None:
        return stopped
    outside = state.oversight
    if outside.warnings_told < len(state.plan.warnings):
        text = state.plan.warnings[outside.warnings_told]
        return Record(facts=(Noticed(code=NoticeCode.FILE_MISSING, text=text),))
    held = outside.paused and not outside.deadline_passed
    if held or outside.interrupts or state.waits_for_turn or state.is_delayed:
        return Wait(until_active_ms=None)
    if state.visit is None:
        asked = gatekeeping.at_start(state, now, instruments) if state.gates is not None else None
        return asked or _between(state, now)
    return _within(state, state.visit, now=now, instruments=instruments)


# --- 2, 3: what ends a run from outside its loop -----------------------------------------------


def _stopped(state: RunState, now: Moment) -> Step | None:
    if state.oversight.abort is not None:
        return _aborting(state, now)
    visit = state.visit
    if visit is not None and visit.crashes > MAX_CRASHES:
        error = f"the worker went away {visit.crashes} times during this step"
        end = exits.abnormal(StopReason.CRASH_LOOP, leaf=visit.step_id, error=error)
        return leaving.leave(state, visit, partial.with_best(end, state, visit), routed=False)
    if visit is None and not state.next_step:
        return None
    limit = timing.passed(state, now.active_ms) or _log_full(state)
    if limit is None:
        return None
    end = exits.abnormal(limit.reason, leaf=limit.leaf, error=f"{limit.leaf} has passed")
    if visit is None:
        return gatekeeping.at_end(state, now, _as_left(state, end))
    return _cut_short(state, visit, end)


def _log_full(state: RunState) -> Limit | None:
    if state.sequence < state.bounds.events:
        return None
    return Limit(reason=StopReason.STEP_BUDGET, leaf="run.events")


def _cut_short(state: RunState, visit: Visit, end: Exit) -> Record:
    return leaving.leave(state, visit, partial.with_best(end, state, visit))


def _aborting(state: RunState, now: Moment) -> Step | None:
    """Leave the step, take an explicitly routed cleanup path within its caps, and end as aborted."""
    visit, cleanup, abort = state.visit, state.oversight.cleanup, state.oversight.abort
    end = leaving.aborted(state)
    skip = abort is not None and abort.skip_routes
    if cleanup is None:
        if visit is not None:
            return leaving.leave(state, visit, partial.with_best(end, state, visit), routed=not skip)
        return leaving.end_run(_as_left(state, end))
    over = skip or now.active_ms - cleanup.since_active_ms >= timing.CLEANUP_MS
    if visit is not None:
        over = over or visit.crashes > MAX_CRASHES
        return leaving.leave(state, visit, end, routed=False) if over else None
    most = min(cleanup.since_steps + timing.CLEANUP_STEPS, state.bounds.steps)
    model_next = isinstance(state.plan.steps.get(state.next_step), ModelStep)
    if over or not state.next_step or model_next or state.ledger.steps >= most:
        return leaving.end_run(cleanup.left)
    return None


def _as_left(state: RunState, end: Exit) -> Exit:
    """The exit with which the last step was left if that was for the same reason, else with its result."""
    last = state.last_exit
    if last is None or (last.reason, last.leaf) == (end.reason, end.leaf):
        return last or end
    return partial.after(end, last)


# --- between and within steps ------------------------------------------------------------------


def _between(state: RunState, now: Moment) -> Step:
    if not state.next_step:
        last = state.last_exit or Exit(signal=exits.DEFAULT, reason=StopReason.DEFAULT)
        return gatekeeping.at_end(state, now, last)
    if state.ledger.steps >= state.bounds.steps:
        end = exits.abnormal(StopReason.STEP_BUDGET, leaf="run.steps", error="run.steps is reached")
        return gatekeeping.at_end(state, now, _as_left(state, end))
    started = StepStarted(
        step_id=state.next_step,
        visit=state.visits.get(state.next_step, 0) + 1,
        steps=state.ledger.steps + 1,
    )
    return Record(facts=(started,))


def _within(state: RunState, visit: Visit, *, now: Moment, instruments: Instruments) -> Step:
    decided = _of_step(state, visit, now=now, instruments=instruments)
    return approvals.before_calls(state, visit, decided, now=now, instruments=instruments)


def _of_step(state: RunState, visit: Visit, *, now: Moment, instruments: Instruments) -> Step:
    step = state.plan.step(visit.step_id)
    match step:
        case ModelStep() | ToolStep() if step.gates is not None:
            return _gated(state, visit, step, now=now, instruments=instruments)
        case ModelStep():
            return _model_step(state, visit, step, now=now, instruments=instruments)
        case ToolStep():
            return _tool_step(state, visit, step, now=now, instruments=instruments)
        case RouterStep():
            return routing.choose(state, visit, step, instruments.expressions)
        case _:
            assert_never(step)


def _gated(
    state: RunState, visit: Visit, step: ModelStep | ToolStep, *, now: Moment, instruments: Instruments
) -> Step:
    """What the loop decides, but for what somebody at a gate has to say first."""
    held = gatekeeping.first(state, visit, step, now=now, instruments=instruments)
    if held is not None:
        return held
    calm, seen = gatekeeping.undisturbed(state, visit)
    if isinstance(step, ModelStep):
        decided = _model_step(calm, seen, step, now=now, instruments=instruments)
    else:
        decided = _tool_step(calm, seen, step, now=now, instruments=instruments)
    return gatekeeping.let_pass(state, visit, step, decided, now=now, instruments=instruments)


def _model_step(
    state: RunState, visit: Visit, step: ModelStep, *, now: Moment, instruments: Instruments
) -> Step:
    if step.supervisor is None:
        return _loop(state, visit, step, now=now, instruments=instruments)
    held = oversight.under_way(state, visit, step, now=now)
    if held is not None:
        return held
    decided = _loop(state, visit, step, now=now, instruments=instruments)
    return oversight.before_leaving(state, visit, step, decided, now=now)


def _loop(state: RunState, visit: Visit, step: ModelStep, *, now: Moment, instruments: Instruments) -> Step:
    failure = call_endings.fatal(state, visit, step)
    if failure is not None:
        return leaving.leave(state, visit, partial.with_best(failure, state, visit))
    finish = finishing.given(state, visit, step)
    if finish is not None:
        return finishing.judge(state, visit, step, finish, instruments.schemas)
    if visit.open_calls and visit.closing is None:
        batch = batches.open_batch(state, visit)
        left = timing.left_ms(state, now.active_ms)
        wave = turns.none_for_calls(batch, step) or calls.next_wave(
            batch, now, instruments.schemas, time_left_ms=left
        )
        if isinstance(wave, Limit):
            return turns.at_limit(state, visit, step, wave, now=now)
        if step.supervisor is None or not isinstance(wave, CallTools):
            return wave
        cel = instruments.expressions
        return oversight.before_calls(state, visit, step, wave, now=now, expressions=cel) or wave
    if visit.answer is not None:
        schemas, at_ms = instruments.schemas, now.active_ms
        check = grounding.check(state, visit, step, schemas, now_active_ms=at_ms)
        return check or judging.judge(state, visit, step, visit.answer, schemas, now_active_ms=at_ms)
    return (
        stopping.ask(state, visit, step, now=now, instruments=instruments)
        or oversight.after_turn(state, visit, step, now=now, expressions=instruments.expressions)
        or turns.look_back(state, visit, step, now=now)
        or compaction.due(state, visit, step, now_active_ms=now.active_ms)
        or turns.next_turn(state, visit, step, now=now)
    )


def _tool_step(
    state: RunState, visit: Visit, step: ToolStep, *, now: Moment, instruments: Instruments
) -> Step:
    if visit.open_calls:
        batch = batches.open_batch(state, visit)
        left = timing.left_ms(state, now.active_ms)
        wave = calls.next_wave(batch, now, instruments.schemas, time_left_ms=left)
        if isinstance(wave, Limit):
            raise TypeError("a tool step of the flow has no cap on its calls")
        return wave
    own = calls.of_visit(state, visit)
    if own is None:
        return calls.own_call(state, step)
    if own.status is CallStatus.COMPLETED:
        return leaving.leave(state, visit, calls.output_exit(step, own))
    end = exits.abnormal(StopReason.TOOL_ERROR, leaf=step.step_id, error=own.error or own.status.value)
    return leaving.leave(state, visit, end)
