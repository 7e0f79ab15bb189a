"""Facts of people, commands, timers, notices and those who were asked, in protobuf."""

from jackline.v1 import event_pb2
from jackline_server.codec.enums import (
    ABORT_MODE,
    COMMAND_KIND,
    CONSULT_ANSWER,
    CONSULT_KIND,
    GATE_POINT,
    INTERRUPT_KIND,
    NOTICE_CODE,
    ON_EXPIRY,
    REJECTION,
    STOP_REASON,
    TIMER_KIND,
)
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.codec.values import (
    milliseconds,
    optional_json,
    read_new_bounds,
    read_visit_bounds,
    set_new_bounds,
    set_time,
    set_visit_bounds,
)
from jackline_server.core.facts import (
    BoundsAdjusted,
    CommandApplied,
    CommandRejected,
    Consulted,
    InterruptRaised,
    InterruptResolved,
    Noticed,
    Paused,
    Resumed,
    Steered,
    TimerFired,
)


def _pack_interrupt_raised(fact: InterruptRaised, event: event_pb2.StepEvent) -> None:
    into = event.interrupt_raised
    into.interrupt_id = fact.interrupt_id
    into.kind = INTERRUPT_KIND.wire[fact.kind]
    into.call_id = fact.call_id
    into.options.extend(fact.options)
    if fact.expires_unix_ms is not None:
        set_time(into.expires_at, fact.expires_unix_ms)
    if fact.limit is not None:
        into.limit = STOP_REASON.wire[fact.limit]
    into.limit_leaf = fact.limit_leaf
    into.raise_to = fact.raise_to
    into.arguments_digest = fact.digest
    if fact.on_expiry is not None:
        into.on_expiry = ON_EXPIRY.wire[fact.on_expiry]


def _fill_interrupt_raised(fact: InterruptRaised, content: event_pb2.Content) -> None:
    if fact.schema_json or fact.arguments_json:
        content.question.text = fact.question
        content.question.schema_json = fact.schema_json.encode()
        content.question.arguments_json = fact.arguments_json.encode()
    elif fact.question:
        content.text = fact.question


def _unpack_interrupt_raised(event: event_pb2.StepEvent) -> InterruptRaised:
    found = event.interrupt_raised
    return InterruptRaised(
        interrupt_id=found.interrupt_id,
        kind=INTERRUPT_KIND.read(found.kind),
        call_id=found.call_id,
        options=tuple(found.options),
        expires_unix_ms=milliseconds(found.expires_at) if found.HasField("expires_at") else None,
        question=event.content.text or event.content.question.text,
        schema_json=event.content.question.schema_json.decode(),
        limit=STOP_REASON.read_optional(found.limit),
        limit_leaf=found.limit_leaf,
        raise_to=found.raise_to,
        arguments_json=event.content.question.arguments_json.decode(),
        digest=found.arguments_digest,
        on_expiry=ON_EXPIRY.read_optional(found.on_expiry),
    )


def _pack_interrupt_resolved(fact: InterruptResolved, event: event_pb2.StepEvent) -> None:
    into = event.interrupt_resolved
    into.interrupt_id = fact.interrupt_id
    into.option = fact.option
    into.principal = fact.principal
    into.arguments_digest = fact.digest


def _fill_interrupt_resolved(fact: InterruptResolved, content: event_pb2.Content) -> None:
    if fact.text:
        content.answer.text = fact.text
    if fact.output_json is not None:
        content.answer.output_json = fact.output_json.encode()


def _unpack_interrupt_resolved(event: event_pb2.StepEvent) -> InterruptResolved:
    found, content = event.interrupt_resolved, event.content.answer
    return InterruptResolved(
        interrupt_id=found.interrupt_id,
        option=found.option,
        principal=found.principal,
        text=content.text,
        output_json=optional_json(content.output_json),
        digest=found.arguments_digest,
    )


def _pack_command_applied(fact: CommandApplied, event: event_pb2.StepEvent) -> None:
    into = event.command_applied
    into.command_id = fact.command_id
    into.kind = COMMAND_KIND.wire[fact.kind]
    into.principal = fact.principal
    if fact.abort_mode is not None:
        into.abort_mode = ABORT_MODE.wire[fact.abort_mode]
    into.skip_routes = fact.skip_routes
    if fact.abort_cause is not None:
        into.abort_cause = STOP_REASON.wire[fact.abort_cause]


def _fill_command_applied(fact: CommandApplied, content: event_pb2.Content) -> None:
    if fact.reason:
        content.text = fact.reason


def _unpack_command_applied(event: event_pb2.StepEvent) -> CommandApplied:
    found = event.command_applied
    return CommandApplied(
        command_id=found.command_id,
        kind=COMMAND_KIND.read(found.kind),
        principal=found.principal,
        abort_mode=ABORT_MODE.read_optional(found.abort_mode),
        skip_routes=found.skip_routes,
        abort_cause=STOP_REASON.read_optional(found.abort_cause),
        reason=event.content.text,
    )


def _pack_command_rejected(fact: CommandRejected, event: event_pb2.StepEvent) -> None:
    into = event.command_rejected
    into.command_id = fact.command_id
    into.kind = COMMAND_KIND.wire[fact.kind]
    into.principal = fact.principal
    into.reason = REJECTION.wire[fact.rejection]


def _fill_command_rejected(fact: CommandRejected, content: event_pb2.Content) -> None:
    if fact.unheard:
        content.text = fact.unheard


def _unpack_command_rejected(event: event_pb2.StepEvent) -> CommandRejected:
    found = event.command_rejected
    return CommandRejected(
        command_id=found.command_id,
        kind=COMMAND_KIND.read(found.kind),
        principal=found.principal,
        rejection=REJECTION.read(found.reason),
        unheard=event.content.text,
    )


def _pack_paused(fact: Paused, event: event_pb2.StepEvent) -> None:
    into = event.paused
    into.principal = fact.principal
    if fact.expires_unix_ms is not None:
        set_time(into.expires_at, fact.expires_unix_ms)


def _unpack_paused(event: event_pb2.StepEvent) -> Paused:
    found = event.paused
    expires = milliseconds(found.expires_at) if found.HasField("expires_at") else None
    return Paused(principal=found.principal, expires_unix_ms=expires)


def _pack_resumed(fact: Resumed, event: event_pb2.StepEvent) -> None:
    event.resumed.principal = fact.principal


def _unpack_resumed(event: event_pb2.StepEvent) -> Resumed:
    return Resumed(principal=event.resumed.principal)


def _pack_steered(fact: Steered, event: event_pb2.StepEvent) -> None:
    into = event.steered
    into.principal = fact.principal
    into.bytes = len(fact.text.encode())


def _fill_steered(fact: Steered, content: event_pb2.Content) -> None:
    if fact.text:
        content.text = fact.text


def _unpack_steered(event: event_pb2.StepEvent) -> Steered:
    return Steered(principal=event.steered.principal, text=event.content.text)


def _pack_bounds_adjusted(fact: BoundsAdjusted, event: event_pb2.StepEvent) -> None:
    into = event.bounds_adjusted
    into.principal = fact.principal
    into.SetInParent()
    set_new_bounds(into.run, fact.run)
    set_visit_bounds(into.visit, fact.visit)


def _unpack_bounds_adjusted(event: event_pb2.StepEvent) -> BoundsAdjusted:
    found = event.bounds_adjusted
    return BoundsAdjusted(
        principal=found.principal, run=read_new_bounds(found.run), visit=read_visit_bounds(found.visit)
    )


def _pack_timer_fired(fact: TimerFired, event: event_pb2.StepEvent) -> None:
    into = event.timer_fired
    into.kind = TIMER_KIND.wire[fact.kind]
    into.subject = fact.subject


def _unpack_timer_fired(event: event_pb2.StepEvent) -> TimerFired:
    found = event.timer_fired
    return TimerFired(kind=TIMER_KIND.read(found.kind), subject=found.subject)


def _pack_noticed(fact: Noticed, event: event_pb2.StepEvent) -> None:
    event.noticed.code = NOTICE_CODE.wire[fact.code]
    if fact.subject:
        event.noticed.subject = fact.subject


def _fill_noticed(fact: Noticed, content: event_pb2.Content) -> None:
    if fact.text:
        content.text = fact.text


def _unpack_noticed(event: event_pb2.StepEvent) -> Noticed:
    found = event.noticed
    return Noticed(code=NOTICE_CODE.read(found.code), text=event.content.text, subject=found.subject)


def _pack_consulted(fact: Consulted, event: event_pb2.StepEvent) -> None:
    into = event.consulted
    into.kind = CONSULT_KIND.wire[fact.kind]
    into.who = fact.who
    into.answer = CONSULT_ANSWER.wire[fact.answer]
    into.duration_ms = fact.duration_ms
    if fact.point is not None:
        into.point = GATE_POINT.wire[fact.point]
    into.call_id = fact.subject


def _fill_consulted(fact: Consulted, content: event_pb2.Content) -> None:
    if fact.error:
        content.consult.error = fact.error
    if fact.reason:
        content.consult.reason = fact.reason
    if fact.metadata_json:
        content.consult.metadata_json = fact.metadata_json.encode()


def _unpack_consulted(event: event_pb2.StepEvent) -> Consulted:
    found = event.consulted
    return Consulted(
        kind=CONSULT_KIND.read(found.kind),
        who=found.who,
        answer=CONSULT_ANSWER.read(found.answer),
        duration_ms=found.duration_ms,
        error=event.content.consult.error,
        point=GATE_POINT.read_optional(found.point),
        subject=found.call_id,
        reason=event.content.consult.reason,
        metadata_json=event.content.consult.metadata_json.decode(),
    )


CONTROL_FACTS = (
    FactCoder(
        fact=InterruptRaised,
        field="interrupt_raised",
        pack=_pack_interrupt_raised,
        fill=_fill_interrupt_raised,
        unpack=_unpack_interrupt_raised,
    ),
    FactCoder(
        fact=InterruptResolved,
        field="interrupt_resolved",
        pack=_pack_interrupt_resolved,
        fill=_fill_interrupt_resolved,
        unpack=_unpack_interrupt_resolved,
    ),
    FactCoder(
        fact=CommandApplied,
        field="command_applied",
        pack=_pack_command_applied,
        fill=_fill_command_applied,
        unpack=_unpack_command_applied,
    ),
    FactCoder(
        fact=CommandRejected,
        field="command_rejected",
        pack=_pack_command_rejected,
        fill=_fill_command_rejected,
        unpack=_unpack_command_rejected,
    ),
    FactCoder(fact=Paused, field="paused", pack=_pack_paused, unpack=_unpack_paused),
    FactCoder(fact=Resumed, field="resumed", pack=_pack_resumed, unpack=_unpack_resumed),
    FactCoder(
        fact=Steered,
        field="steered",
        pack=_pack_steered,
        fill=_fill_steered,
        unpack=_unpack_steered,
    ),
    FactCoder(
        fact=BoundsAdjusted,
        field="bounds_adjusted",
        pack=_pack_bounds_adjusted,
        unpack=_unpack_bounds_adjusted,
    ),
    FactCoder(fact=TimerFired, field="timer_fired", pack=_pack_timer_fired, unpack=_unpack_timer_fired),
    FactCoder(
        fact=Noticed,
        field="noticed",
        pack=_pack_noticed,
        fill=_fill_noticed,
        unpack=_unpack_noticed,
    ),
    FactCoder(
        fact=Consulted,
        field="consulted",
        pack=_pack_consulted,
        fill=_fill_consulted,
        unpack=_unpack_consulted,
    ),
)
