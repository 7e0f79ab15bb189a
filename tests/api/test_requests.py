"""What requests are read as: JSON in one form, fingerprints, page tokens."""

import json
import time
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from jackline.v1.run_pb2 import RUN_STATE_FAILED, RunBounds
from jackline.v1.run_service_pb2 import (
    InlineWorkflow,
    ListInterruptsRequest,
    ListRunsRequest,
    StartRunRequest,
)
from jackline_server.api.checks import Checks
from jackline_server.api.json_values import has_too_many_values, text_of_bytes, text_of_struct
from jackline_server.api.limits import LIMITS
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.api.run_requests import read_runs_query, read_start, wait_time
from jackline_server.codec.values import set_subject, subject_text
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.use_cases import Caller

TENANT = Tenant("default")
CALLER = Caller(tenant=TENANT, principal="p")
MIB = 1024 * 1024
A_MOMENT_S = 0.5
"""Ten times what it takes, and a tenth of what it took to go through such a request."""


def struct_text(struct: Struct, *, levels: int = 100) -> str | None:
    checks = Checks()
    text = text_of_struct(checks, "input", struct, limit=MIB, levels=levels)
    try:
        checks.finish()
    except DoorRefused:
        return None
    return text


@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.floats(allow_nan=False, allow_infinity=False, width=32).filter(lambda one: abs(one) < 2**53)
        | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
        ),
        max_leaves=10,
    )
)
def test_a_struct_is_read_exactly_and_survives_being_stored_as_a_subject(value: Any) -> None:
    struct = Struct()
    struct.update({"value": value})
    text = struct_text(struct)
    assert text is not None
    assert json.loads(text) == {"value": value}
    stored = Struct()
    set_subject(stored, text)
    assert subject_text(stored) == text


def nested(levels: int, *, lists: bool) -> Struct:
    """A struct so deep that no wire would carry it: it is built in place."""
    struct = Struct()
    inner = struct.fields["a"]
    for _ in range(levels - 1):
        inner = inner.list_value.values.add() if lists else inner.struct_value.fields["a"]
    inner.bool_value = True
    return struct


@pytest.mark.parametrize("lists", [True, False])
def test_a_struct_may_be_100_levels_deep_and_no_deeper(lists: bool) -> None:
    assert struct_text(nested(100, lists=lists)) is not None
    assert struct_text(nested(101, lists=lists)) is None


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (2.0**53, "9007199254740992"),
        (2.0**53 + 2, None),
        (1e300, None),
    ],
)
def test_whole_numbers_are_integers_up_to_2_to_the_53(number: float, text: str | None) -> None:
    found = struct_text(Struct(fields={"a": Value(number_value=number)}))
    assert found == (None if text is None else f'{{"a":{text}}}')


@given(data=st.binary(max_size=60))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    checks = Checks()
    text = text_of_bytes(checks, "input_json", data, MIB)
    try:
        checks.finish()
    except DoorRefused:
        return
    assert text.encode() == data
    json.loads(text)


def fingerprint(request: StartRunRequest) -> bytes:
    return read_start(request, caller=Caller(tenant=TENANT, principal="p"), now_unix_ms=0).fingerprint


def start() -> StartRunRequest:
    request = StartRunRequest(workflow="w", request_id="r1", labels={"b": "1", "a": "2"})
    request.input.update({"y": [1, {"k": 1}], "x": 1})
    return request


def test_a_fingerprint_is_of_what_is_asked_not_of_how_it_is_written() -> None:
    other = StartRunRequest(workflow="w", request_id="r2", labels={"a": "2", "b": "1"})
    other.input.update({"x": 1, "y": [1, {"k": 1}]})
    assert fingerprint(start()) == fingerprint(other)
    newer = StartRunRequest.FromString(start().SerializeToString() + b"\xfa\x01\x02hi")
    assert fingerprint(newer) == fingerprint(start())


@pytest.mark.parametrize(
    "changed",
    [
        StartRunRequest(workflow="v"),
        StartRunRequest(labels={"a": "3"}),
        StartRunRequest(input_json=b"{}"),
        StartRunRequest(input=Struct(fields={"x": Value(number_value=2)})),
        StartRunRequest(subject=Struct(fields={"x": Value(number_value=2)})),
        StartRunRequest(bounds=RunBounds(token_budget=7)),
        StartRunRequest(bounds=RunBounds(run_timeout=Duration(seconds=1))),
        StartRunRequest(on_question=2),  # pyright: ignore[reportArgumentType]  # a value by number
    ],
)
def test_every_field_counts_in_a_fingerprint(changed: StartRunRequest) -> None:
    other = start()
    other.MergeFrom(changed)
    assert fingerprint(other) != fingerprint(start())


def test_a_page_token_gives_its_position_back_for_the_same_query_alone() -> None:
    tokens = PageTokens(key=b"k" * 32)
    query = ListRunsRequest(states=[RUN_STATE_FAILED], labels={"a": "1", "b": "2"}, page_size=5)
    token = tokens.make(TENANT, query, [7, "run"])
    same = ListRunsRequest(
        states=[RUN_STATE_FAILED], labels={"b": "2", "a": "1"}, page_size=9, page_token=token
    )
    assert tokens.read(TENANT, same, token) == [7, "run"]
    for tenant, other, key in (
        (Tenant("other"), query, b"k" * 32),
        (TENANT, ListRunsRequest(labels={"a": "1"}), b"k" * 32),
        (TENANT, ListInterruptsRequest(), b"k" * 32),
        (TENANT, query, b"x" * 32),
    ):
        with pytest.raises(DoorRefused) as refused:
            PageTokens(key=key).read(tenant, other, token)
        assert refused.value.reason is DoorReason.BAD_PAGE_TOKEN


@given(token=st.text(max_size=80))
def test_no_text_that_we_did_not_make_is_a_page_token(token: str) -> None:
    with pytest.raises(DoorRefused) as refused:
        PageTokens(key=b"k" * 32).read(TENANT, ListRunsRequest(), token)
    assert refused.value.reason is DoorReason.BAD_PAGE_TOKEN


@pytest.mark.parametrize(
    ("remaining", "most", "wait"),
    [
        (None, 5000, 5000),
        (10_000, 5000, 5000),
        (10_000, 60_000, 9_500),
        (1000, 60_000, 750),
        (100, 60_000, 0),
    ],
)
def test_a_wait_leaves_time_for_its_answer(remaining: int | None, most: int, wait: int) -> None:
    assert wait_time(remaining, most) == wait


@given(
    value=st.recursive(
        st.text(max_size=4) | st.integers(),
        lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3),
    )
)
def test_marks_in_texts_are_not_counted_as_values(value: Any) -> None:
    texts = [",:[{" * 7_000, "\\", '\\"', '"', value]
    assert not has_too_many_values(json.dumps(texts).encode())


MANY = LIMITS.json_values_count + 1
WIDE: dict[str, StartRunRequest] = {
    "a list of text": StartRunRequest(workflow="w", input_json=b"[" + b"0," * MANY + b"0]"),
    "lists": StartRunRequest(workflow="w", input_json=b"[" + b"[]," * 300_000 + b"0]"),
    "keys": StartRunRequest(workflow="w", input_json=b"{" + b'"":0,' * 200_000 + b'"a":0}'),
    "no JSON": StartRunRequest(workflow="w", input_json=b"[" * 1_000_000),
    "a text that does not end": StartRunRequest(workflow="w", input_json=b'"\\"' * 300_000 + b"," * MANY),
    "a struct's list": StartRunRequest(
        workflow="w",
        input=Struct(fields={"a": Value(list_value=ListValue(values=[Value(bool_value=True)] * MANY))}),
    ),
    "a struct's keys": StartRunRequest(
        workflow="w", input=Struct(fields={str(n): Value(bool_value=True) for n in range(MANY)})
    ),
    "a subject": StartRunRequest(
        workflow="w", subject=Struct(fields={str(n): Value(bool_value=True) for n in range(MANY)})
    ),
    "labels": StartRunRequest(workflow="w", labels={f"k{n}": "" for n in range(MANY)}),
    "files": StartRunRequest(
        inline_workflow=InlineWorkflow(yaml="a: 1", files={f"f{n}": b"" for n in range(MANY)})
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_wide_request_is_refused_before_it_is_gone_through(name: str) -> None:
    began = time.thread_time()
    with pytest.raises(DoorRefused):
        fingerprint(WIDE[name])
    assert time.thread_time() - began < A_MOMENT_S


def test_millions_of_states_are_refused_before_they_are_gone_through() -> None:
    size = 1_000_000
    request = ListRunsRequest.FromString(b"\x0a" + b"\xc0\x84\x3d" + b"\x63" * size)
    assert len(request.states) == size
    began = time.thread_time()
    with pytest.raises(DoorRefused) as refused:
        read_runs_query(request, tenant=TENANT, before=None)
    assert [one.reason for one in refused.value.violations] == ["TOO_MANY"]
    assert time.thread_time() - began < A_MOMENT_S


def test_what_passes_the_limits_is_read_in_a_moment() -> None:
    most = LIMITS.json_values_count // 2 - 1
    request = StartRunRequest(workflow="w", input_json=b"[" + b"[]," * (most - 1) + b"[]]")
    began = time.thread_time()
    fingerprint(request)
    assert time.thread_time() - began < A_MOMENT_S


@pytest.mark.parametrize(
    ("bounds", "fields"),
    [
        (
            RunBounds(token_budget=0, steps=0, events=0),
            {"bounds.token_budget", "bounds.steps", "bounds.events"},
        ),
        (
            RunBounds(token_budget=10**18, cost_budget_micros=2**64 - 1),
            {"bounds.token_budget", "bounds.cost_budget_micros"},
        ),
        (RunBounds(run_timeout=Duration()), {"bounds.run_timeout"}),
    ],
)
def test_a_bound_of_nothing_or_beyond_all_reach_is_refused(bounds: RunBounds, fields: set[str]) -> None:
    caller = Caller(tenant=TENANT, principal="tester")
    with pytest.raises(DoorRefused) as refused:
        read_start(StartRunRequest(workflow="w", bounds=bounds), caller=caller, now_unix_ms=0)
    assert {violation.field for violation in refused.value.violations} == fields


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"start_delay": Duration(seconds=-1)}, "OUT_OF_RANGE"),
        ({"start_delay": Duration(seconds=10), "deadline": Timestamp(seconds=10)}, "OUT_OF_RANGE"),
        ({"start_delay": Duration(seconds=10), "thread_id": "talk"}, "WITH_THREAD"),
    ],
    ids=["before now", "not before the deadline", "in a thread"],
)
def test_a_delay_that_no_run_can_have_is_refused_by_its_field(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(DoorRefused) as refused:
        read_start(StartRunRequest(workflow="w", **given), caller=CALLER, now_unix_ms=0)
    assert [(one.field, one.reason) for one in refused.value.violations] == [("start_delay", reason)]


@pytest.mark.parametrize(("seconds", "read"), [(10, 10_000), (0, None)])
def test_a_delay_is_read_and_one_of_nothing_is_none(seconds: int, read: int | None) -> None:
    request = StartRunRequest(
        workflow="w", start_delay=Duration(seconds=seconds), deadline=Timestamp(seconds=11)
    )
    assert read_start(request, caller=CALLER, now_unix_ms=0).start_delay_ms == read
