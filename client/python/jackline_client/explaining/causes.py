"""What led to a run's end, from the end inwards.

Owns the chain: which events of the log are said to have caused which. The reason of an exit names what to
follow; a step that was entered because an earlier one went wrong has that one as its cause. Everything stands
before what it led to.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.event_pb2 import ModelCallPurpose, NoticeCode, RecoveryCause, StepEvent, TimerKind
from jackline.v1.run_pb2 import RunState, StopReason, ToolCallStatus
from jackline_client.explaining.findings import cycles
from jackline_client.explaining.history import OPEN, Call, History, Turn, Visit, is_turn, word
from jackline_client.explaining.telling import (
    TOLD_BY_WHAT_FOLLOWS,
    Cause,
    counted,
    ending,
    said,
    tell,
    tell_call,
)

_FEW = 3
_LONG_MS = 1_000
_DEEPEST = 10
"""So many steps are followed back, each of which was entered because the one before went wrong."""

_ORDINARY = frozenset({StopReason.STOP_REASON_OUTCOME, StopReason.STOP_REASON_DEFAULT})
_OF_TOOLS = frozenset(
    {
        StopReason.STOP_REASON_TOOL_ERROR,
        StopReason.STOP_REASON_UNKNOWN_OUTCOME,
        StopReason.STOP_REASON_REVIEW,
        StopReason.STOP_REASON_NO_TOOL_SUCCEEDED,
    }
)
_OF_SPENDING = frozenset(
    {
        StopReason.STOP_REASON_MAX_ITERATIONS,
        StopReason.STOP_REASON_TOKEN_BUDGET,
        StopReason.STOP_REASON_COST_BUDGET,
        StopReason.STOP_REASON_REQUEST_BUDGET,
        StopReason.STOP_REASON_TOOL_CALL_BUDGET,
    }
)
BY_COMMAND = frozenset(
    {
        StopReason.STOP_REASON_OPERATOR,
        StopReason.STOP_REASON_REPLACED,
        StopReason.STOP_REASON_PARENT,
        StopReason.STOP_REASON_KILL_SWITCH,
        StopReason.STOP_REASON_CLIENT_GONE,
    }
)
"""Ends that a command of the log says the reason of."""
_OF_TIME = frozenset({StopReason.STOP_REASON_TIME_BUDGET, StopReason.STOP_REASON_DEADLINE})
_FACTS_OF: Mapping[StopReason.ValueType, tuple[str, ...]] = {
    StopReason.STOP_REASON_INVALID_OUTPUT: ("answer_rejected",),
    StopReason.STOP_REASON_NO_TOOL_SUCCEEDED: ("answer_rejected",),
    StopReason.STOP_REASON_GROUNDING_FAILED: ("grounded",),
    StopReason.STOP_REASON_GUARDRAIL: ("consulted", "answer_rejected"),
    StopReason.STOP_REASON_POLICY_DENIED: ("consulted",),
    StopReason.STOP_REASON_HOOK_VETO: ("consulted",),
    StopReason.STOP_REASON_MODEL_ERROR: ("model_call_failed", "answer_rejected"),
    StopReason.STOP_REASON_UNKNOWN_OUTCOME: ("interrupt_raised", "interrupt_resolved"),
    StopReason.STOP_REASON_REVIEW: ("interrupt_raised", "interrupt_resolved"),
    StopReason.STOP_REASON_SUPERVISOR: ("rule_fired", "interrupt_raised", "interrupt_resolved"),
    StopReason.STOP_REASON_JUDGE: ("judge_returned", "interrupt_raised", "interrupt_resolved"),
}
"""The facts of a visit that an exit follows from."""


def standing(history: History) -> str:
    """Where the run stands, in one line."""
    if history.end is not None:
        found = history.end.run_finished
        state, how = word(RunState.Name, found.state, "RUN_STATE_"), _exit(history.end)
        return how if how == state or how.startswith(f"{state} (") else f"{state}: {how}"
    if not history.events:
        return "nothing was seen of this run"
    return f"not ended, as of event {history.events[-1].sequence}: {_open(history).text}"


def living(history: History) -> tuple[str, ...]:
    """The runs that it started and that had not ended as of the last event."""
    ended = {event.child_finished.child_run_id for event in history.of("child_finished")}
    begun = (event.child_started.child_run_id for event in history.of("child_started"))
    return tuple(run_id for run_id in begun if run_id not in ended)


def chain(history: History) -> Cause | None:
    """The end with what led to it; of a run that goes on, what it does or waits for. None for no events."""
    end = history.end
    if end is None:
        return _open(history) if history.events else None
    partial = ", with a partial result" if end.run_finished.partial else ""
    last = next((visit for visit in reversed(history.visits) if visit.end is not None), None)
    if last is not None and _left_for(last, end):
        causes, words = [_step(history, last)], ""
    else:
        causes, words = list(_outside(history, end)), end.content.result.error
    return Cause(
        sequence=end.sequence,
        kind="run_finished",
        text=f"the run ended: {standing(history)}{partial}{said(words)}",
        causes=tuple(causes),
    )


def on_the_way(history: History) -> Iterator[Cause]:
    """What happened beside the plain course: failures, refusals, retries, commands, recoveries, questions."""
    found: list[Cause] = []
    reason_of, reason = 0, ""
    for event in history.events:
        if event.WhichOneof("fact") == "command_applied" and (
            event.command_applied.kind in TOLD_BY_WHAT_FOLLOWS
        ):
            reason_of, reason = event.sequence + 1, event.content.text
            continue
        cause = tell(event)
        if cause is not None:
            why = f" ({reason})" if reason and event.sequence == reason_of else ""
            found.append(replace(cause, text=cause.text + why))
    found += [tell_call(call) for call in history.calls.values() if _went_wrong(call)]
    yield from sorted(found, key=lambda cause: cause.sequence)


def _went_wrong(call: Call) -> bool:
    return call.attempts > 1 or (call.status not in OPEN and not call.completed)


# --- a run that goes on ------------------------------------------------------------------------


def _open(history: History) -> Cause:
    """What a run that has not ended does, or waits for."""
    answered = {event.interrupt_resolved.interrupt_id for event in history.of("interrupt_resolved")}
    asked = [
        event
        for event in history.of("interrupt_raised")
        if event.interrupt_raised.interrupt_id not in answered
    ]
    held = history.last("paused", "resumed")
    if held is not None and held.HasField("paused"):
        begins = _delayed(history)
        later = f"; {begins.text} at the earliest" if begins is not None else ""
        return Cause(sequence=held.sequence, kind="paused", text=f"held by {held.paused.principal}{later}")
    if asked:
        last = asked[-1]
        causes = (history.calls.get(last.interrupt_raised.call_id),)
        return Cause(
            sequence=last.sequence,
            kind="interrupt_raised",
            text=f"it waits for an answer{said(last.content.text or last.content.question.text)}",
            causes=tuple(tell_call(call) for call in causes if call is not None),
        )
    below = living(history)
    if below:
        started = history.of("child_started")[-1]
        them = f"the run {below[0]}" if len(below) == 1 else f"{len(below)} runs"
        text = f"it waits for {them} that it started in step {started.step_id}"
        return Cause(sequence=started.sequence, kind="child_started", text=text)
    if (delayed := _delayed(history)) is not None:
        return delayed
    newest = history.events[-1]
    place = f" in step {newest.step_id}" if newest.step_id else ""
    match newest.WhichOneof("fact"):
        case "model_call_started":
            text = f"the model {newest.model_call_started.model} is at work{place}"
        case "tool_call_started":
            text = f"{newest.tool_call_started.tool} is at work{place}"
        case "run_started":
            text = "it waits for a worker"
        case fact:
            text = f"after {fact or 'a fact of a newer version'}{place}"
    return Cause(sequence=newest.sequence, kind="open", text=text)


def _delayed(history: History) -> Cause | None:
    """That a run waits for the time at which it is to begin."""
    begun = history.events[0]
    if not begun.run_started.HasField("start_time") or any(
        event.timer_fired.kind == TimerKind.TIMER_KIND_START for event in history.of("timer_fired")
    ):
        return None
    when = begun.run_started.start_time.ToDatetime()
    return Cause(
        sequence=begun.sequence, kind="run_started", text=f"it begins at {when:%Y-%m-%d %H:%M:%S} UTC"
    )


# --- why a run ended ---------------------------------------------------------------------------


def _exit(end: StepEvent) -> str:
    found = end.run_finished if end.HasField("run_finished") else end.step_finished
    return ending(found.signal, found.stop_reason, found.stop_leaf)


def _left_for(visit: Visit, end: StepEvent) -> bool:
    """True if the run ended for what its last step ended for."""
    if visit.end is None:
        return False
    step, run = visit.end.step_finished, end.run_finished
    return (step.stop_reason, step.stop_leaf) == (run.stop_reason, run.stop_leaf)


def _outside(history: History, end: StepEvent) -> Iterator[Cause]:
    """What ended a run or step from outside its loop."""
    found = end.run_finished if end.HasField("run_finished") else end.step_finished
    wanted: list[StepEvent] = []
    match found.stop_reason:
        case found.stop_reason if found.stop_reason in BY_COMMAND:
            wanted = [
                event
                for event in history.of("command_applied")
                if event.command_applied.kind == CommandKind.COMMAND_KIND_ABORT
            ]
        case StopReason.STOP_REASON_DEADLINE:
            wanted = _fired(history, TimerKind.TIMER_KIND_DEADLINE)
        case StopReason.STOP_REASON_PAUSE_EXPIRED:
            wanted = _fired(history, TimerKind.TIMER_KIND_PAUSE)
        case StopReason.STOP_REASON_CRASH_LOOP:
            wanted = [
                event
                for event in history.of("run_recovered")
                if event.run_recovered.cause == RecoveryCause.RECOVERY_CAUSE_CRASH
            ]
        case StopReason.STOP_REASON_STEP_BUDGET:
            yield Cause(
                sequence=history.events[-1].sequence,
                kind="steps",
                text=f"{counted(len(history.of('step_started')), 'step')} were visited, and "
                f"{counted(len(history.events), 'event')} recorded",
            )
        case StopReason.STOP_REASON_HOOK_VETO | StopReason.STOP_REASON_GUARDRAIL if not history.visits:
            wanted = list(history.of("consulted"))
        case _:
            pass
    yield from _told(event for event in wanted if event.sequence < end.sequence)


def _fired(history: History, kind: TimerKind.ValueType) -> list[StepEvent]:
    return [event for event in history.of("timer_fired") if event.timer_fired.kind == kind]


# --- why a step ended --------------------------------------------------------------------------


def _step(history: History, visit: Visit, *, depth: int = 0) -> Cause:
    """The end of a visit with what led to it."""
    assert visit.end is not None  # noqa: S101 - who calls has looked
    nth = f" (visit {visit.number})" if visit.number > 1 else ""
    causes = [
        *_outside(history, visit.end),
        *_inside(history, visit, visit.end.step_finished.stop_reason),
        *_routed(history, visit, depth=depth),
    ]
    return Cause(
        sequence=visit.end.sequence,
        kind="step_finished",
        text=f"step {visit.step_id}{nth} ended with {_exit(visit.end)}{said(visit.end.content.result.error)}",
        causes=tuple(sorted(causes, key=lambda cause: cause.sequence)),
    )


def _inside(history: History, visit: Visit, reason: StopReason.ValueType) -> Iterator[Cause]:
    if reason in _ORDINARY:
        yield from _answer(visit)
        return
    yield from _told(visit.of("model_call_started", *_FACTS_OF.get(reason, ())))
    if reason in _OF_TOOLS:
        yield from (_wrong(history, call) for call in visit.calls if _went_wrong(call))
    elif reason in _OF_SPENDING:
        yield from _spending(visit)
    elif reason in _OF_TIME:
        yield from _slowest(visit)
    elif reason == StopReason.STOP_REASON_TOOL_LOOP:
        yield from _loop(history, visit)


def _wrong(history: History, call: Call) -> Cause:
    """A call that went wrong, with the crash that cut it off, if one did."""
    crash = next(
        (
            event
            for event in reversed(history.of("run_recovered"))
            if call.sequence < event.sequence < call.ended
            and event.run_recovered.cause == RecoveryCause.RECOVERY_CAUSE_CRASH
        ),
        None,
    )
    return replace(tell_call(call), causes=tuple(_told([crash] if crash is not None else [])))


def _told(events: Iterable[StepEvent]) -> Iterator[Cause]:
    return (cause for event in events if (cause := tell(event)) is not None)


def _routed(history: History, visit: Visit, *, depth: int) -> Iterator[Cause]:
    """The step before, where this one was entered because that one went wrong."""
    place = next(index for index, one in enumerate(history.visits) if one is visit)
    before = history.visits[place - 1] if place else None
    if before is None or before.end is None or before.end.step_finished.stop_reason in _ORDINARY:
        return
    if before.end.step_finished.next_step == visit.step_id and depth < _DEEPEST:
        yield Cause(
            sequence=visit.events[0].sequence,
            kind="routed",
            text=f"step {visit.step_id} was entered because of how {before.step_id} ended",
            causes=(_step(history, before, depth=depth + 1),),
        )


def _answer(visit: Visit) -> Iterator[Cause]:
    """What an ordinary end rests on: the answer with what came before it, or the call of a tool step."""
    replies = [turn for turn in visit.turns if not turn.calls and not _is_judge(turn)]
    if not replies:
        yield from (tell_call(call) for call in visit.calls[-1:])
        return
    completed = [call for call in visit.calls if call.completed]
    answer = replies[-1]
    judged = list(_told(visit.of("answer_rejected", "grounded", "rule_fired", "judge_returned")))
    yield from (cause for cause in judged if cause.sequence > answer.sequence)
    behind = [cause for cause in judged if cause.sequence < answer.sequence]
    if completed:
        names = ", ".join(dict.fromkeys(call.tool for call in completed))
        text = f"{counted(len(completed), 'tool call')} had completed ({names})"
        behind.append(Cause(sequence=completed[-1].ended, kind="tool_calls", text=text))
    yield Cause(
        sequence=answer.sequence,
        kind="answer",
        text=f"the model answered in turn {answer.event.iteration}",
        causes=tuple(sorted(behind, key=lambda cause: cause.sequence)),
    )


def _is_judge(turn: Turn) -> bool:
    return turn.purpose in (
        ModelCallPurpose.MODEL_CALL_PURPOSE_GROUND,
        ModelCallPurpose.MODEL_CALL_PURPOSE_JUDGE,
        ModelCallPurpose.MODEL_CALL_PURPOSE_SUPERVISE,
    )


def _loop(history: History, visit: Visit) -> Iterator[Cause]:
    yield from _told(
        event for event in visit.of("noticed") if event.noticed.code == NoticeCode.NOTICE_CODE_REPETITION
    )
    own = {turn.sequence for turn in visit.turns}
    for found in cycles(history):
        if own.issuperset(found.sequences):
            yield Cause(sequence=found.sequences[-1], kind="cycle", text=found.text)


def _spending(visit: Visit) -> Iterator[Cause]:
    """The turns of a visit in numbers, and the few that cost most."""
    turns = [turn for turn in visit.turns if is_turn(turn)]
    others = len(visit.of("model_call_started")) - len(turns)
    beside = f" and {counted(others, 'other call')} of the model" if others else ""
    calls = sum(call.attempts for call in visit.calls)
    yield Cause(
        sequence=0,
        kind="turns",
        text=f"there had been {counted(len(turns), 'turn')}{beside}, {counted(calls, 'attempt')} at tools",
        causes=tuple(sorted(_dearest(visit.turns), key=lambda cause: cause.sequence)),
    )


def _dearest(turns: list[Turn]) -> Iterator[Cause]:
    def tokens(turn: Turn) -> int:
        usage = turn.event.model_replied.usage
        return usage.prompt_tokens + usage.completion_tokens

    for turn in sorted(turns, key=tokens, reverse=True)[:_FEW]:
        about = " (estimated)" if turn.event.model_replied.usage.estimated else ""
        yield Cause(
            sequence=turn.sequence,
            kind="model_replied",
            text=f"turn {turn.event.iteration} used {counted(tokens(turn), 'token')}{about}",
        )


def _slowest(visit: Visit) -> Iterator[Cause]:
    """The few calls of a visit that took longest, if they took long."""
    took = [
        (turn.event.model_replied.latency_ms, turn.sequence, f"the model in turn {turn.event.iteration}")
        for turn in visit.turns
    ]
    took += [
        (event.tool_call_finished.duration_ms, event.sequence, f"the call of {event.tool_call_finished.tool}")
        for event in visit.of("tool_call_finished")
    ]
    for ms, sequence, what in sorted(took, reverse=True)[:_FEW]:
        if ms >= _LONG_MS:
            yield Cause(sequence=sequence, kind="slow", text=f"{what} took {ms / 1000:,.1f} s")
    open_ones = [call for call in visit.calls if call.status == ToolCallStatus.TOOL_CALL_STATUS_CANCELLED]
    yield from (tell_call(call) for call in open_ones)
