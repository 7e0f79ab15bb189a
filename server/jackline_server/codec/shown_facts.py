"""A fact by itself as people and programs are shown it: as its member of `StepEvent` in JSON.

Owns leaving its content out unless it is asked for.
"""

from typing import Any

from google.protobuf.json_format import MessageToDict

from jackline.v1 import event_pb2
from jackline_server.codec.facts import encode_fact
from jackline_server.core.fact_names import fact_name
from jackline_server.core.facts import Fact, ModelCallStarted, StepStarted
from jackline_server.runtime.ports.codec import Envelope, Record


def shown_fact(fact: Fact, *, full: bool) -> dict[str, Any]:
    """The fact's name and its fields; with its content if `full`."""
    step_id, visit = (fact.step_id, fact.visit) if isinstance(fact, StepStarted) else ("", 0)
    envelope = Envelope(
        run_id="",
        sequence=0,
        unix_ms=0,
        active_ms=0,
        step_id=step_id,
        visit=visit,
        iteration=fact.iteration if isinstance(fact, ModelCallStarted) else 0,
        signal="",
    )
    stored = encode_fact(Record(envelope=envelope, fact=fact))
    event = event_pb2.StepEvent.FromString(stored.meta + (stored.content if full else b""))
    event.ClearField("time")
    return {"fact": fact_name(fact), **MessageToDict(event, preserving_proto_field_name=True)}
