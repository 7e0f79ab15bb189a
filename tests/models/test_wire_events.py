"""Streams cut into documents, wherever the network cuts them."""

import contextlib
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.models.wire_caps import MAX_LINE_BYTES
from jackline_server.models.wire_events import EventReader, whole_as_chunk
from jackline_server.runtime.ports.models import ModelFailure

DOCUMENTS: list[object] = [{"n": 1, "text": "ä\u2028\r\n:"}, [], "data: x", {"n": 2}]
LINES = [
    "\ufeffdata: " + json.dumps(DOCUMENTS[0], ensure_ascii=False),
    "",
    ": comment",
    "data:" + json.dumps(DOCUMENTS[1]),
    "id: 1",
    "",
    "",
    "event: message",
    "data: " + json.dumps(DOCUMENTS[2]),
    "",
    'data: {"n":',
    "data: 2}",
    "",
    "data: [DONE]",
    "",
    "data: {not read",
    "",
]


def read(parts: list[bytes]) -> tuple[list[object], bool]:
    reader = EventReader()
    found: list[object] = []
    for part in parts:
        found += reader.feed(part)
        if reader.is_done:
            return found, True
    return found + reader.end(), reader.is_done


@given(
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(min_value=1, max_value=200), max_size=30),
)
def test_documents_are_the_same_wherever_the_stream_is_cut(ends: str, cuts: list[int]) -> None:
    data = "".join(line + ends for line in LINES).encode()
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    parts = [data[start:end] for start, end in pairwise(places)]
    assert read(parts) == (DOCUMENTS, True)


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=10))
def test_whatever_comes_is_documents_or_a_failure(parts: list[bytes]) -> None:
    with contextlib.suppress(ModelFailure):
        read(parts)


@pytest.mark.parametrize("part", [b"x" * 1_000, b"data: x\n" * 100], ids=["a line", "an event"])
def test_what_has_no_end_is_given_up_at_the_cap(part: bytes) -> None:
    with pytest.raises(ModelFailure):
        read([part] * (11 * MAX_LINE_BYTES // len(part)))


def test_a_named_error_without_a_document_is_an_error() -> None:
    assert read([b'event: error\ndata: "busy"\n\ndata: {"a": 1}\n\n']) == (
        [{"error": "busy"}, {"a": 1}],
        False,
    )


@pytest.mark.parametrize(
    "document", [None, 5, [], {}, {"choices": None}, {"choices": [None, 3, {}, {"message": 7}]}]
)
def test_a_whole_reply_of_any_shape_is_taken_as_it_is(document: object) -> None:
    assert whole_as_chunk(document) == document
