from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core.facts import FailureClass, FinishReason, Usage
from jackline_server.models.chunks import ChunkReader
from jackline_server.runtime.driving.replies import Reply, fold
from jackline_server.runtime.ports.models import EndChunk, ModelChunk, ModelFailure, TextChunk

Json = dict[str, Any]

STOP: Json = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def delta(**fields: object) -> Json:
    return {"choices": [{"index": 0, "delta": fields}]}


def call(index: object, call_id: object = None, name: object = None, arguments: object = "") -> Json:
    fragment: Json = {"function": {"name": name, "arguments": arguments}}
    if index != "none":
        fragment["index"] = index
    if call_id is not None:
        fragment["id"] = call_id
    return delta(tool_calls=[fragment])


def read(*chunks: object) -> list[ModelChunk]:
    reader = ChunkReader()
    pieces = [piece for chunk in chunks for piece in reader.read(chunk)]
    return [*pieces, *reader.end()]


def reply(*chunks: object) -> Reply:
    return fold(read(*chunks, STOP))


def calls(*chunks: object) -> list[tuple[str, str, str]]:
    return [(found.call_id, found.name, found.arguments) for found in reply(*chunks).calls]


A, B = ("a", "look", '{"x":1}'), ("b", "look", '{"y":2}')


@pytest.mark.parametrize(
    "chunks",
    [
        [
            call(0, "a", "look"),
            call(1, "b", "look"),
            call(1, None, None, '{"y":2}'),
            call(0, None, None, '{"x":1}'),
        ],
        [call(0, "a", "look", '{"x":1}'), call(0, "b", "look", '{"y":2}')],
        [call(0, "a", "look", '{"x"'), call(0, "a", "look", ":1}"), call(0, "b", "look", '{"y":2}')],
        [
            call("none", "a", "look", '{"x"'),
            call("none", None, None, ":1}"),
            call("none", "b", "look", '{"y":2}'),
        ],
        [
            call(None, "a", "look"),
            call(None, "b", "look"),
            call(None, "a", None, '{"x":1}'),
            call(None, "b", None, '{"y":2}'),
        ],
        [
            call(0, "a", "look"),
            call(0, "b", "look"),
            call(0, "a", None, '{"x":1}'),
            call(0, "b", None, '{"y":2}'),
        ],
        [
            call(0, "a", "look"),
            call(0, "r1", None, '{"x"'),
            call(0, "r2", None, ":1}"),
            call(1, "b", "look", '{"y":2}'),
        ],
        [call(7, "a", "look", {"x": 1}), call(3, "b", "look", {"y": 2})],
        [call("0", "a", "look", '{"x":1}'), call(True, "b", "look", '{"y":2}')],
        [call(-1, "a", "look", '{"x":1}'), call(10**12, "b", "look", '{"y":2}')],
    ],
    ids=[
        "by index",
        "index always 0",
        "id and name repeated",
        "no index",
        "null index, by id",
        "index 0, by id",
        "a made-up id for each fragment",
        "holes and objects",
        "index of a wrong type",
        "absurd index",
    ],
)
def test_parallel_calls_are_told_apart(chunks: Sequence[object]) -> None:
    assert calls(*chunks) == [A, B]


def test_calls_without_ids_at_one_index_are_told_apart_by_name_or_by_completeness() -> None:
    assert calls(call(0, None, "look", '{"x":1}'), call(0, None, "send", "{}")) == [
        ("", "look", '{"x":1}'),
        ("", "send", "{}"),
    ]
    assert calls(call(0, "", "look", '{"x":1}'), call(0, "", "look", '{"y":2}')) == [
        ("", "look", '{"x":1}'),
        ("", "look", '{"y":2}'),
    ]
    assert calls(call(0, None, "look", '{"x"'), call(0, None, "look", ":1}")) == [("", "look", '{"x":1}')]


def test_one_id_at_two_indexes_stays_two_calls() -> None:
    assert calls(call(0, "a", "look", "{}"), call(1, "a", "look", "{}")) == [("a", "look", "{}")] * 2


def test_a_thousand_calls_are_a_thousand_calls() -> None:
    assert len(calls(*(call(number, f"c{number}", "look", "{}") for number in range(1_000)))) == 1_000


def test_hostile_names_and_arguments_pass_as_text() -> None:
    found = calls(call(0, "a\x00", "look\n\x00", "{\ud800"), call(1, 5, {"no": "name"}, 10**400))
    assert found == [("a\x00", "look\n\x00", "{\ufffd"), ("", "", "")]


def test_the_old_function_call_field_is_a_call() -> None:
    chunks = (
        delta(function_call={"name": "look", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
    )
    assert calls(*chunks) == [("", "look", "{}")]


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None]},
        {"choices": "x"},
        7,
        "text",
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 1, "delta": {"content": "second"}}]},
        {"choices": [{"delta": {"content": 5, "tool_calls": [None, 3], "reasoning": []}}]},
    ],
)
def test_a_chunk_that_holds_nothing_says_nothing(chunk: object) -> None:
    assert reply(delta(content="first"), chunk).text == "first"


def test_only_the_first_of_five_choices_counts() -> None:
    choices = [{"index": index, "delta": {"content": str(index)}} for index in range(5)]
    assert reply({"choices": choices}).text == "0"


def test_an_emoji_cut_in_two_is_joined() -> None:
    assert read(delta(content="a\ud83d"), delta(content="\ude00b"), STOP)[:2] == [
        TextChunk("a"),
        TextChunk("😀b"),
    ]
    assert reply(delta(content="a\ud83d")).text == "a\ufffd"


def test_a_refusal_is_no_answer() -> None:
    found = reply(delta(refusal="I can't."))
    assert (found.text, found.reasoning) == ("", "I can't.")


@pytest.mark.parametrize("chunks", [[], [delta(content="half")], [{"choices": []}]])
def test_a_stream_without_a_finish_reason_is_malformed(chunks: Sequence[object]) -> None:
    with pytest.raises(ModelFailure) as caught:
        read(*chunks)
    assert (caught.value.failure, caught.value.usage) == (FailureClass.MALFORMED, None)


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"message": "x", "code": "rate_limit_exceeded"}, FailureClass.RATE_LIMITED),
        ({"message": "x", "type": "overloaded_error"}, FailureClass.UNAVAILABLE),
        ({"message": "x", "code": 502}, FailureClass.UNAVAILABLE),
        ({"message": "x", "code": "429"}, FailureClass.RATE_LIMITED),
        ({"message": "the prompt is too long"}, FailureClass.CONTEXT_OVERFLOW),
        ("just words", FailureClass.MALFORMED),
        (7, FailureClass.MALFORMED),
    ],
)
def test_an_error_object_in_the_stream_has_a_class(error: object, failure: FailureClass) -> None:
    with pytest.raises(ModelFailure) as caught:
        read(delta(content="x"), {"error": error})
    assert (caught.value.failure, caught.value.usage) == (failure, None)


# --- usage -------------------------------------------------------------------------------------


def usage_of(*reports: object) -> Usage | None:
    end = read(delta(content="x"), *(Json(choices=(), usage=report) for report in reports), STOP)[-1]
    assert isinstance(end, EndChunk)
    return end.usage


GOOD = {"prompt_tokens": 10, "completion_tokens": 5}


def test_usage_is_read_with_its_details() -> None:
    report = {
        **GOOD,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert usage_of(report) == Usage(
        prompt_tokens=10, completion_tokens=5, cached_tokens=4, reasoning_tokens=3
    )


def test_cumulative_usage_counts_once() -> None:
    reports = [{"prompt_tokens": 10, "completion_tokens": count} for count in (1, 3, 5)]
    assert usage_of(*reports, None, {"prompt_tokens": 10, "completion_tokens": 2}) == Usage(
        prompt_tokens=10, completion_tokens=5
    )


@pytest.mark.parametrize(
    "report",
    [
        None,
        {},
        "12",
        12,
        [],
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": 10, "completion_tokens": 0},
        {"prompt_tokens": 10},
        {**GOOD, "prompt_tokens": -1},
        {**GOOD, "prompt_tokens": 0},
        {**GOOD, "completion_tokens": 10**30},
        {**GOOD, "prompt_tokens": "10"},
        {**GOOD, "completion_tokens": 5.5},
        {**GOOD, "prompt_tokens": True},
        {**GOOD, "completion_tokens": float("nan")},
        {**GOOD, "prompt_tokens": None},
    ],
)
def test_usage_that_can_not_be_believed_is_none(report: object) -> None:
    assert usage_of(report) is None


def test_one_unbelievable_report_spoils_the_good_one() -> None:
    assert usage_of(GOOD, {**GOOD, "prompt_tokens": -1}) is None


def test_details_that_are_no_counts_are_zero() -> None:
    report = {**GOOD, "prompt_tokens_details": {"cached_tokens": -1}, "completion_tokens_details": "x"}
    assert usage_of(report) == Usage(prompt_tokens=10, completion_tokens=5)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("who_knows", FinishReason.OTHER),
    ],
)
def test_finish_reasons_are_mapped(said: str, meant: FinishReason) -> None:
    choice: Json = {"delta": {}, "finish_reason": said}
    assert read({"choices": [choice]})[-1] == EndChunk(meant, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "index",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "finish_reason",
                    "refusal",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=30,
)


@given(st.lists(JSON, max_size=6))
def test_no_chunk_breaks_the_reader_and_all_its_text_can_be_encoded(chunks: list[object]) -> None:
    found = reply(*chunks)
    for text in (
        found.text,
        found.reasoning,
        *(part for one in found.calls for part in (one.name, one.arguments)),
    ):
        text.encode("utf-8")
