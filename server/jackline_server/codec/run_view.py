"""A run's state as a `jackline.v1.Run`.

Owns what each view shows. Labels are the store row's and are merged by whoever has it.
"""

from jackline.v1 import run_pb2
from jackline_server.codec import question_times
from jackline_server.codec.children import child_messages
from jackline_server.codec.enums import CALL_STATUS, EFFECT, INTERRUPT_KIND, ON_EXPIRY, PHASE, STOP_REASON
from jackline_server.codec.values import (
    set_bounds,
    set_ledger,
    set_origin,
    set_subject,
    set_time,
    set_usage,
    set_visit_bounds,
)
from jackline_server.core.evolve import summary_of
from jackline_server.core.exits import RUNNING, is_abnormal
from jackline_server.core.facts import CallStatus, RunFinished
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading.given_arguments import given_arguments
from jackline_server.core.reading.transcript import shown
from jackline_server.core.state import Interrupt, RunState, StepSummary, ToolCall, bounds_of


def encode_summary(state: RunState, *, created_unix_ms: int, finished_unix_ms: int | None) -> bytes:
    """The bytes of the view that lists show."""
    return run_summary(
        state, created_unix_ms=created_unix_ms, finished_unix_ms=finished_unix_ms
    ).SerializeToString()


def run_summary(state: RunState, *, created_unix_ms: int, finished_unix_ms: int | None) -> run_pb2.Run:
    """The run in view METADATA, without its steps and interrupts."""
    started, finished = state.started, state.finished
    run = run_pb2.Run(
        run_id=state.run_id,
        workflow=started.workflow,
        plan_digest=started.plan_digest,
        state=PHASE.wire[state.phase],
        signal=state.signal,
        head_sequence=state.sequence,
        recoveries=state.recoveries,
        step_id=_step_id(state),
    )
    if finished is not None:
        _set_end(run, finished)
    set_usage(run.usage, state.usage)
    set_ledger(run.ledger, state.ledger)
    set_bounds(run.bounds, state.bounds)
    set_time(run.created_at, created_unix_ms)
    set_time(run.active_time, state.active_ms)
    if finished_unix_ms is not None:
        set_time(run.finished_at, finished_unix_ms)
    if started.deadline_unix_ms is not None:
        set_time(run.deadline, started.deadline_unix_ms)
    if started.start_unix_ms is not None:
        set_time(run.start_time, started.start_unix_ms)
    if started.forked_from is not None:
        set_origin(run.forked_from, started.forked_from)
    if started.thread is not None:
        run.thread_id = started.thread.thread_id
    if started.parent is not None:
        run.parent_run_id = started.parent.run_id
        run.root_run_id = started.parent.root_run_id
    return run


def run_message(
    state: RunState, *, created_unix_ms: int, finished_unix_ms: int | None, full: bool
) -> run_pb2.Run:
    """The run with its steps and interrupts, in view FULL or METADATA."""
    run = run_summary(state, created_unix_ms=created_unix_ms, finished_unix_ms=finished_unix_ms)
    summaries = state.summaries
    if state.visit is not None:
        set_ledger(run.visit_ledger, state.visit.ledger)
        step = state.plan.step(state.visit.step_id)
        if isinstance(step, ModelStep):
            set_visit_bounds(run.visit_bounds, bounds_of(state.visit, step))
        summaries = (*summaries, summary_of(state.visit, signal=RUNNING, finished_active_ms=None))
    run.steps.extend(_step_message(summary) for summary in summaries)
    run.interrupts.extend(interrupt_messages(state, full=full))
    run.children.extend(child_messages(state.family))
    if full:
        _set_content(run, state)
    return run


def interrupt_messages(state: RunState, *, full: bool) -> list[run_pb2.Interrupt]:
    """The open interrupts of the run, oldest first."""
    return [
        _interrupt_message(state, interrupt, full=full) for interrupt in state.oversight.interrupts.values()
    ]


def tool_call_messages(state: RunState, *, full: bool) -> list[run_pb2.ToolCall]:
    """The registry in the order in which the calls were asked for.

    In view FULL, `tool` is the name as the model wrote it and `result` what it saw: the output, or the error.
    `arguments_json` has what the workflow bound as well.
    """
    messages: list[run_pb2.ToolCall] = []
    for call in sorted(state.calls.values(), key=lambda call: call.ordinal):
        message = run_pb2.ToolCall(
            call_id=call.call_id,
            tool=call.name if full else call.tool,
            step_id=call.step_id,
            visit=call.visit,
            iteration=call.iteration,
            status=CALL_STATUS.wire[call.status],
            attempts=call.attempts,
            call_key=call.call_key,
            requested_sequence=call.requested_sequence,
            reused_from=call.reused_from,
            cut_from_bytes=call.cut_from_bytes,
            stored=bool(call.blob),
            media=len(call.media),
        )
        if call.effect is not None:
            message.effect = EFFECT.wire[call.effect]
        set_time(message.duration, call.duration_ms)
        if call.waited_ms:
            set_time(message.waited, call.waited_ms)
        if full:
            message.arguments_json = given_arguments(call).encode()
            completed = call.status is CallStatus.COMPLETED
            message.result = shown(call, state.plan) if completed else call.error
        messages.append(message)
    return messages


def _step_id(state: RunState) -> str:
    if state.visit is not None:
        return state.visit.step_id
    return state.summaries[-1].step_id if state.summaries else ""


def _set_end(run: run_pb2.Run, finished: RunFinished) -> None:
    run.stop_reason = STOP_REASON.wire[finished.stop_reason]
    run.stop_leaf = finished.stop_leaf
    run.outcome.signal = finished.signal
    run.outcome.partial = finished.partial


def _set_content(run: run_pb2.Run, state: RunState) -> None:
    run.input_json = state.started.input_json.encode()
    set_subject(run.subject, state.started.subject_json)
    if state.gates is not None:
        run.metadata.update(state.gates.metadata)
    finished = state.finished
    if finished is not None:
        if finished.result_json is not None:
            run.outcome.result_json = finished.result_json.encode()
        run.outcome.error = finished.error


def _step_message(summary: StepSummary) -> run_pb2.StepSummary:
    message = run_pb2.StepSummary(
        step_id=summary.step_id,
        visit=summary.visit,
        status=_status(summary),
        signal=summary.signal,
    )
    set_ledger(message.ledger, summary.ledger)
    set_time(message.started_active, summary.started_active_ms)
    if summary.finished_active_ms is not None:
        set_time(message.finished_active, summary.finished_active_ms)
    return message


def _status(summary: StepSummary) -> run_pb2.StepStatus.ValueType:
    if summary.finished_active_ms is None:
        return run_pb2.STEP_STATUS_RUNNING
    if is_abnormal(summary.signal):
        return run_pb2.STEP_STATUS_FAILED
    return run_pb2.STEP_STATUS_SUCCEEDED


def _interrupt_message(state: RunState, interrupt: Interrupt, *, full: bool) -> run_pb2.Interrupt:
    message = run_pb2.Interrupt(
        interrupt_id=interrupt.interrupt_id,
        run_id=state.run_id,
        kind=INTERRUPT_KIND.wire[interrupt.kind],
        step_id=interrupt.step_id,
        call_id=interrupt.call_id,
        options=interrupt.options,
        limit_leaf=interrupt.limit_leaf,
        raise_to=interrupt.raise_to,
    )
    if state.started.parent is not None:
        message.parent_run_id = state.started.parent.run_id
    call = state.calls.get(interrupt.call_id)
    if call is not None:
        message.tool = call.tool
    _set_times(message, state, interrupt, call)
    if interrupt.on_expiry is not None:
        message.on_expiry = ON_EXPIRY.wire[interrupt.on_expiry]
        message.arguments_digest = interrupt.digest
        message.started_by = state.started.principal
    if full:
        message.question = interrupt.question
        message.schema_json = interrupt.schema_json.encode()
        given = "" if call is None else given_arguments(call)
        message.arguments_json = (interrupt.arguments_json or given).encode()
    return message


def _set_times(
    message: run_pb2.Interrupt, state: RunState, interrupt: Interrupt, call: ToolCall | None
) -> None:
    if interrupt.expires_unix_ms is None:
        return
    set_time(message.expires_at, interrupt.expires_unix_ms)
    open_ms = question_times.open_ms(state, interrupt, call)
    if open_ms is not None:
        set_time(message.raised_at, interrupt.expires_unix_ms - open_ms)
