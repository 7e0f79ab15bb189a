"""A fact with its envelope as the bytes of a `StepEvent`, and back.

Owns the split of an event: metadata first, then content, so that the metadata view is a prefix of the
full event. The tables of the kinds of facts are in `run_facts`, `turn_facts`, `control_facts`,
`progress`, `history`, `conversation`, `children` and `supervising`.
"""

from typing import Any

from google.protobuf.message import DecodeError

from jackline.v1 import event_pb2
from jackline_server.codec.children import CHILD_FACTS
from jackline_server.codec.control_facts import CONTROL_FACTS
from jackline_server.codec.conversation import THREAD_FACTS
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.codec.history import HISTORY_FACTS
from jackline_server.codec.progress import PROGRESS_FACTS
from jackline_server.codec.run_facts import RUN_FACTS
from jackline_server.codec.supervising import SUPERVISOR_FACTS
from jackline_server.codec.turn_facts import TURN_FACTS
from jackline_server.codec.values import milliseconds
from jackline_server.core.facts import Fact
from jackline_server.runtime.ports.codec import Envelope, Record, UnknownFact
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.store_errors import StoreDamaged

FACT_CODERS: tuple[FactCoder[Any], ...] = (
    *RUN_FACTS,
    *TURN_FACTS,
    *CONTROL_FACTS,
    *PROGRESS_FACTS,
    *HISTORY_FACTS,
    *THREAD_FACTS,
    *CHILD_FACTS,
    *SUPERVISOR_FACTS,
)
_BY_TYPE: dict[type[Fact], FactCoder[Any]] = {coder.fact: coder for coder in FACT_CODERS}
_new_event = event_pb2.StepEvent
_BY_FIELD: dict[str, FactCoder[Any]] = {coder.field: coder for coder in FACT_CODERS}


def encode_fact(record: Record) -> StoredEvent:
    """The event's bytes, metadata and content apart; `meta + content` is the full event."""
    envelope, fact = record.envelope, record.fact
    coder = _BY_TYPE[type(fact)]
    event = _new_event()  # fields are set one by one: arguments by name cost twice as much
    event.run_id = envelope.run_id
    event.sequence = envelope.sequence
    event.step_id = envelope.step_id
    event.iteration = envelope.iteration
    event.signal = envelope.signal
    event.active_ms = envelope.active_ms
    event.visit = envelope.visit
    if envelope.parent_run_id:
        event.parent_run_id = envelope.parent_run_id
    time = event.time
    time.seconds = envelope.unix_ms // 1000
    time.nanos = envelope.unix_ms % 1000 * 1_000_000
    coder.pack(fact, event)
    return StoredEvent(envelope.sequence, event.SerializeToString(), _content(coder, fact))


def _content(coder: FactCoder[Any], fact: Fact) -> bytes:
    """The second part of the event; empty for a kind of fact without content."""
    if coder.fill is None:
        return b""
    rest = _new_event()
    coder.fill(fact, rest.content)
    if coder.holds_map:
        return rest.SerializeToString(deterministic=True)
    return rest.SerializeToString()


def decode_fact(stored: StoredEvent) -> Record:
    """The record back.

    Raises:
        UnknownFact: a newer version wrote it.
        StoreDamaged: the bytes are no event.
    """
    try:
        event = event_pb2.StepEvent.FromString(stored.meta + stored.content)
    except DecodeError:
        raise StoreDamaged(f"event {stored.sequence} can't be read") from None
    field = event.WhichOneof("fact")
    coder = None if field is None else _BY_FIELD.get(field)
    if coder is None:
        raise UnknownFact(f"event {event.sequence} holds a fact of a newer version")
    envelope = Envelope(
        run_id=event.run_id,
        sequence=event.sequence,
        unix_ms=milliseconds(event.time),
        active_ms=event.active_ms,
        step_id=event.step_id,
        visit=event.visit,
        iteration=event.iteration,
        signal=event.signal,
        parent_run_id=event.parent_run_id,
    )
    return Record(envelope=envelope, fact=coder.unpack(event))
