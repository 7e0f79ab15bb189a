"""A fact survives the bytes, and the bytes are what the contract says."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline.v1 import event_pb2
from jackline_server.codec.facts import FACT_CODERS
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import (
    OTHER_TOOL,
    Fact,
    FinishReason,
    ModelCallStarted,
    ModelReplied,
    Paused,
    Purpose,
    RunStarted,
    StepStarted,
    ToolCallRequested,
    Usage,
)
from jackline_server.core.plan import OnQuestion, RunBounds
from jackline_server.runtime.ports.codec import Codec, Envelope, Record, UnknownFact
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.store_errors import StoreDamaged
from tests.codec.examples import FACT_TYPES, FEW, records

CODEC: Codec = ProtoCodec()
ENVELOPE = Envelope(
    run_id="run_01k0000000000000000000000a",
    sequence=7,
    unix_ms=1_790_000_000_123,
    active_ms=1234,
    step_id="handle",
    visit=2,
    iteration=3,
    signal="running",
)


def test_every_fact_has_exactly_one_member_of_the_contract_and_every_member_a_fact() -> None:
    oneof = event_pb2.StepEvent.DESCRIPTOR.oneofs_by_name["fact"]
    assert sorted(coder.field for coder in FACT_CODERS) == sorted(field.name for field in oneof.fields)
    assert {coder.fact for coder in FACT_CODERS} == set(get_args(Fact))
    assert len({coder.fact for coder in FACT_CODERS}) == len(FACT_CODERS)


@pytest.mark.parametrize("shape", FACT_TYPES, ids=lambda shape: shape.__name__)
@FEW
@given(data=st.data())
def test_a_fact_comes_back_as_it_was(shape: type[Fact], data: st.DataObject) -> None:
    record = data.draw(records(shape))
    assert CODEC.decode(CODEC.encode(record)) == record


@pytest.mark.parametrize("shape", FACT_TYPES, ids=lambda shape: shape.__name__)
@FEW
@given(data=st.data())
def test_metadata_and_content_together_are_the_event_byte_by_byte(
    shape: type[Fact], data: st.DataObject
) -> None:
    stored = CODEC.encode(data.draw(records(shape)))
    whole = event_pb2.StepEvent.FromString(stored.meta + stored.content)
    assert whole.SerializeToString(deterministic=True) == stored.meta + stored.content
    meta = event_pb2.StepEvent.FromString(stored.meta)
    assert not meta.HasField("content")
    whole.ClearField("content")
    assert whole == meta
    rest = event_pb2.StepEvent.FromString(stored.content)
    rest.ClearField("content")
    assert not rest.ListFields()


def test_what_a_model_or_person_wrote_is_not_in_the_metadata() -> None:
    secret = "the-words-of-somebody"
    written: list[Fact] = [
        ToolCallRequested(call_id="c", ordinal=1, tool=OTHER_TOOL, name=secret, arguments=secret),
        ModelReplied(
            usage=Usage(),
            cost_micros=0,
            finish=FinishReason.STOP,
            tool_calls=0,
            tokens_used=0,
            latency_ms=0,
            first_token_ms=0,
            text=secret,
            reasoning=secret,
        ),
    ]
    for fact in written:
        stored = CODEC.encode(Record(envelope=ENVELOPE, fact=fact))
        assert secret.encode() not in stored.meta
        assert secret.encode() in stored.content


def test_a_step_and_a_turn_are_named_by_the_envelope() -> None:
    started = StepStarted(step_id="handle", visit=2, steps=5)
    event = event_pb2.StepEvent.FromString(CODEC.encode(Record(envelope=ENVELOPE, fact=started)).meta)
    assert (event.step_id, event.visit, event.step_started.steps) == ("handle", 2, 5)
    call = ModelCallStarted(
        iteration=3,
        purpose=Purpose.TURN,
        attempt=1,
        model="fast",
        prompt_tokens=100,
        max_output_tokens=50,
        reserved_cost_micros=1,
    )
    event = event_pb2.StepEvent.FromString(CODEC.encode(Record(envelope=ENVELOPE, fact=call)).meta)
    assert (event.iteration, event.model_call_started.reserved_tokens) == (3, 150)
    assert event.time.ToJsonString() == "2026-09-21T14:13:20.123Z"


def test_a_fact_of_a_newer_version_is_unknown() -> None:
    newer = event_pb2.StepEvent(run_id="r", sequence=3).SerializeToString() + b"\xfa\x03\x00"  # field 63
    with pytest.raises(UnknownFact):
        CODEC.decode(StoredEvent(3, newer, b""))


def test_a_value_of_a_newer_version_is_unknown() -> None:
    event = event_pb2.StepEvent(run_id="r", sequence=3)
    event.noticed.code = 77  # pyright: ignore[reportAttributeAccessIssue]  # no value of this version
    with pytest.raises(UnknownFact):
        CODEC.decode(StoredEvent(3, event.SerializeToString(), b""))


def test_bytes_that_are_no_event_are_damage() -> None:
    with pytest.raises(StoreDamaged):
        CODEC.decode(StoredEvent(1, b"\xff\xff\xff", b""))


@pytest.mark.parametrize("depth", [1, 16])
def test_a_subject_as_deep_as_the_doors_allow_comes_back(depth: int) -> None:
    subject = '{"a":' * depth + "1" + "}" * depth
    fact = RunStarted(
        workflow="w",
        plan_digest="d",
        epoch=1,
        principal="p",
        deadline_unix_ms=None,
        bounds=RunBounds(run_timeout_ms=None, token_budget=None, cost_budget_micros=None, steps=1, events=1),
        on_question=OnQuestion.WAIT,
        input_json="{}",
        subject_json=subject,
    )
    record = Record(envelope=ENVELOPE, fact=fact)
    assert CODEC.decode(CODEC.encode(record)) == record


def test_a_fact_without_words_has_no_content() -> None:
    stored = CODEC.encode(Record(envelope=ENVELOPE, fact=Paused(principal="local")))
    assert stored.content == b""


def test_the_tables_coders_do_not_share_functions() -> None:
    packs: list[Any] = [coder.pack for coder in FACT_CODERS]
    assert len(set(packs)) == len(packs)
