"""Leaving a step and ending a run.

Owns the facts with which a visit ends (its open calls closed first, so that the registry stays whole) and
the one with which the run ends.
"""

from jackline_server.core import exits, json_text
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    Fact,
    Phase,
    RunFinished,
    StepFinished,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.plan import JsonObject, ModelStep, RouterStep, StepPlan, ToolStep
from jackline_server.core.reading import pauses
from jackline_server.core.state import RunState, ToolCall, Visit
from jackline_server.core.steps import Record

CUT_OFF = "the call was cut off"
"""What is said of a call that the end of its step overtook."""


def leave(state: RunState, visit: Visit, end: Exit, *, routed: bool = True) -> Record:
    """End the visit with `end` and go where its signal leads; nowhere if not `routed`."""
    step = state.plan.step(visit.step_id)
    closed: list[Fact] = [
        _closed(state.calls[call_id]) for call_id in visit.open_calls if _is_open(state, call_id)
    ]
    writes = _writes(step, end)
    finished = StepFinished(
        signal=end.signal,
        stop_reason=end.reason,
        stop_leaf=end.leaf,
        partial=end.partial,
        next_step=exits.next_step(step, end.signal) if routed else "",
        writes=tuple(writes),
        writes_json=json_text.write(writes),
        result_json=json_text.write(end.result) if end.has_result else None,
        error=end.error,
    )
    return Record(facts=(*closed, finished))


def _is_open(state: RunState, call_id: str) -> bool:
    return state.calls[call_id].status in (CallStatus.REQUESTED, CallStatus.STARTED, CallStatus.ASKING)


def _closed(call: ToolCall) -> ToolCallFinished:
    """A call that the end of its step overtakes: never started, or cut off."""
    if call.status is CallStatus.REQUESTED:
        return ToolCallFinished(
            call_id=call.call_id,
            tool=call.tool,
            status=CallStatus.DENIED,
            problem=CallProblem.STEP_ENDED,
            error="the step ended before this call could start",
        )
    repeatable = call.effect is not None and call.effect.repeatable
    return ToolCallFinished(
        call_id=call.call_id,
        tool=call.tool,
        status=CallStatus.CANCELLED if repeatable else CallStatus.UNKNOWN,
        error=CUT_OFF,
    )


def _writes(step: StepPlan, end: Exit) -> JsonObject:
    if exits.is_abnormal(end.signal) or not end.has_result:
        return {}
    match step:
        case ModelStep():
            return {step.outcome.output_key: end.result}
        case ToolStep():
            return {step.output_key: end.result}
        case RouterStep():
            return {}


def end_run(end: Exit, *, phase: Phase | None = None) -> Record:
    """End the run with the exit of its last step, or with one of the run's own."""
    return Record(
        facts=(
            RunFinished(
                phase=exits.phase_of(end.signal) if phase is None else phase,
                signal=end.signal,
                stop_reason=end.reason,
                stop_leaf=end.leaf,
                partial=end.partial,
                result_json=json_text.write(end.result) if end.has_result else None,
                error=end.error,
            ),
        )
    )


def aborted(state: RunState) -> Exit:
    """The exit of an aborted run."""
    abort = state.oversight.abort
    cause = StopReason.OPERATOR if abort is None else abort.cause
    if abort is not None and cause in (StopReason.SUPERVISOR, StopReason.JUDGE):
        return exits.abnormal(cause, leaf=abort.principal, error=abort.reason)
    leaf, words = _CAUSES.get(cause, _CAUSES[StopReason.OPERATOR])
    return exits.abnormal(cause, leaf=leaf, error=(abort.reason if abort is not None else "") or words)


_CAUSES = {
    StopReason.OPERATOR: ("control.abort", "aborted by an operator"),
    StopReason.REPLACED: ("thread.replace", "replaced by a newer run"),
    StopReason.PAUSE_EXPIRED: (pauses.LEAF, ""),
    StopReason.PARENT: ("parent.abort", "the run that started it ends"),
    StopReason.KILL_SWITCH: ("kill_switch", "the kill switch was engaged"),
    StopReason.CLIENT_GONE: ("owner.gone", "its owner was away for too long"),
}
"""Why a run is aborted: the leaf, and what is said where nobody gave a reason."""
