"""Facts of the run and of its steps, in protobuf."""

from jackline.v1 import event_pb2
from jackline_server.codec.children import read_parent, set_parent
from jackline_server.codec.conversation import read_thread, set_messages, set_thread
from jackline_server.codec.enums import ON_QUESTION, PHASE, RECOVERY_CAUSE, STOP_REASON
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.codec.values import (
    milliseconds,
    optional_json,
    read_bounds,
    read_origin,
    set_bounds,
    set_origin,
    set_subject,
    set_time,
    subject_text,
)
from jackline_server.core.facts import (
    RunFinished,
    RunRecovered,
    RunStarted,
    RunSuspended,
    StepFinished,
    StepStarted,
)

_NO_SUBJECT = "{}"
_NO_WRITES = "{}"


def _pack_run_started(fact: RunStarted, event: event_pb2.StepEvent) -> None:
    into = event.run_started
    into.workflow = fact.workflow
    into.plan_digest = fact.plan_digest
    into.epoch = fact.epoch
    into.principal = fact.principal
    if fact.deadline_unix_ms is not None:
        set_time(into.deadline, fact.deadline_unix_ms)
    set_bounds(into.bounds, fact.bounds)
    into.on_question = ON_QUESTION.wire[fact.on_question]
    if fact.forked_from is not None:
        set_origin(into.forked_from, fact.forked_from)
    if fact.thread is not None:
        set_thread(into.thread, fact.thread)
    if fact.parent is not None:
        set_parent(into.parent, fact.parent)
    if fact.start_unix_ms is not None:
        set_time(into.start_time, fact.start_unix_ms)


def _fill_run_started(fact: RunStarted, content: event_pb2.Content) -> None:
    into = content.run_input
    into.input_json = fact.input_json.encode()
    if fact.subject_json != _NO_SUBJECT:
        set_subject(into.subject, fact.subject_json)
    if fact.thread is not None and fact.thread.messages:
        set_messages(into.thread, fact.thread.messages)


def _unpack_run_started(event: event_pb2.StepEvent) -> RunStarted:
    found, content = event.run_started, event.content.run_input
    return RunStarted(
        workflow=found.workflow,
        plan_digest=found.plan_digest,
        epoch=found.epoch,
        principal=found.principal,
        deadline_unix_ms=milliseconds(found.deadline) if found.HasField("deadline") else None,
        bounds=read_bounds(found.bounds),
        on_question=ON_QUESTION.read(found.on_question),
        input_json=content.input_json.decode(),
        subject_json=subject_text(content.subject) if content.HasField("subject") else _NO_SUBJECT,
        forked_from=read_origin(found.forked_from) if found.HasField("forked_from") else None,
        thread=read_thread(found.thread, content.thread) if found.HasField("thread") else None,
        parent=read_parent(found.parent) if found.HasField("parent") else None,
        start_unix_ms=milliseconds(found.start_time) if found.HasField("start_time") else None,
    )


def _pack_run_recovered(fact: RunRecovered, event: event_pb2.StepEvent) -> None:
    into = event.run_recovered
    into.epoch = fact.epoch
    into.cause = RECOVERY_CAUSE.wire[fact.cause]


def _unpack_run_recovered(event: event_pb2.StepEvent) -> RunRecovered:
    found = event.run_recovered
    return RunRecovered(epoch=found.epoch, cause=RECOVERY_CAUSE.read(found.cause))


def _pack_run_suspended(fact: RunSuspended, event: event_pb2.StepEvent) -> None:
    event.run_suspended.epoch = fact.epoch


def _unpack_run_suspended(event: event_pb2.StepEvent) -> RunSuspended:
    return RunSuspended(epoch=event.run_suspended.epoch)


def _pack_run_finished(fact: RunFinished, event: event_pb2.StepEvent) -> None:
    into = event.run_finished
    into.state = PHASE.wire[fact.phase]
    into.signal = fact.signal
    into.stop_reason = STOP_REASON.wire[fact.stop_reason]
    into.stop_leaf = fact.stop_leaf
    into.partial = fact.partial


def _fill_run_finished(fact: RunFinished, content: event_pb2.Content) -> None:
    if fact.result_json is not None:
        content.result.result_json = fact.result_json.encode()
    if fact.error:
        content.result.error = fact.error


def _unpack_run_finished(event: event_pb2.StepEvent) -> RunFinished:
    found, content = event.run_finished, event.content.result
    return RunFinished(
        phase=PHASE.read(found.state),
        signal=found.signal,
        stop_reason=STOP_REASON.read(found.stop_reason),
        stop_leaf=found.stop_leaf,
        partial=found.partial,
        result_json=optional_json(content.result_json),
        error=content.error,
    )


def _pack_step_started(fact: StepStarted, event: event_pb2.StepEvent) -> None:
    event.step_started.steps = fact.steps


def _unpack_step_started(event: event_pb2.StepEvent) -> StepStarted:
    return StepStarted(step_id=event.step_id, visit=event.visit, steps=event.step_started.steps)


def _pack_step_finished(fact: StepFinished, event: event_pb2.StepEvent) -> None:
    into = event.step_finished
    into.signal = fact.signal
    into.stop_reason = STOP_REASON.wire[fact.stop_reason]
    into.stop_leaf = fact.stop_leaf
    into.writes.extend(fact.writes)
    into.partial = fact.partial
    into.next_step = fact.next_step


def _fill_step_finished(fact: StepFinished, content: event_pb2.Content) -> None:
    if fact.result_json is not None:
        content.result.result_json = fact.result_json.encode()
    if fact.writes_json != _NO_WRITES:
        content.result.writes_json = fact.writes_json.encode()
    if fact.error:
        content.result.error = fact.error


def _unpack_step_finished(event: event_pb2.StepEvent) -> StepFinished:
    found, content = event.step_finished, event.content.result
    return StepFinished(
        signal=found.signal,
        stop_reason=STOP_REASON.read(found.stop_reason),
        stop_leaf=found.stop_leaf,
        partial=found.partial,
        next_step=found.next_step,
        writes=tuple(found.writes),
        writes_json=optional_json(content.writes_json) or _NO_WRITES,
        result_json=optional_json(content.result_json),
        error=content.error,
    )


RUN_FACTS = (
    FactCoder(
        fact=RunStarted,
        field="run_started",
        holds_map=True,
        pack=_pack_run_started,
        fill=_fill_run_started,
        unpack=_unpack_run_started,
    ),
    FactCoder(
        fact=RunRecovered,
        field="run_recovered",
        pack=_pack_run_recovered,
        unpack=_unpack_run_recovered,
    ),
    FactCoder(
        fact=RunSuspended,
        field="run_suspended",
        pack=_pack_run_suspended,
        unpack=_unpack_run_suspended,
    ),
    FactCoder(
        fact=RunFinished,
        field="run_finished",
        pack=_pack_run_finished,
        fill=_fill_run_finished,
        unpack=_unpack_run_finished,
    ),
    FactCoder(
        fact=StepStarted,
        field="step_started",
        pack=_pack_step_started,
        unpack=_unpack_step_started,
    ),
    FactCoder(
        fact=StepFinished,
        field="step_finished",
        pack=_pack_step_finished,
        fill=_fill_step_finished,
        unpack=_unpack_step_finished,
    ),
)
