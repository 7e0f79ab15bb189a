"""JSON from models, tools and callers: what is kept can be kept everywhere, the rest is refused in words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.json_text import MAX_DEPTH, JsonError
from jackline_server.core.plan import JsonValue

REFUSED = {
    "not a number": "NaN",
    "infinity": "[Infinity]",
    "negative infinity": '{"a":-Infinity}',
    "a float over the largest": "1e400",
    "a negative float over the largest": "-1e400",
    "a whole number over the largest float": "1" + "0" * 400,
    "a whole number of 5,000 digits": "9" * 5_000,
    "the same key twice": '{"a":1,"a":2}',
    "the same key twice, deep": '[{"x":{"a":1,"a":1}}]',
    "keys that are the same once cleaned": '{"\\ud800":1,"\\ud801":2}',
    "one level too deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "100,000 levels": "[" * 100_000,
    "nothing": "",
    "two values": "{} {}",
    "single quotes": "{'a': 1}",
    "a trailing comma": "[1,]",
    "a comment": "{} // no",
    "a cut text": '{"a": "b',
    "a byte order mark": "\ufeff{}",
    "bytes that are no text": b'"\xff\xfe\xfd"',
    "a control character": '"a\x00b"',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_text_that_can_not_be_kept_is_refused(text: str | bytes) -> None:
    with pytest.raises(JsonError):
        json_text.parse(text)


@pytest.mark.parametrize("text", ["[]", "1", "null", '"{}"', "true"])
def test_an_object_is_asked_for_and_another_kind_is_refused(text: str) -> None:
    with pytest.raises(JsonError):
        json_text.parse_object(text)


def test_the_deepest_text_allowed_is_kept() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json_text.write(json_text.parse(text)) == text


@pytest.mark.parametrize("inner", ['["é"]', "[1]", '{"a":"[[{{"}'])
def test_many_brackets_are_no_depth(inner: str) -> None:
    text = "[" + ",".join([inner] * (MAX_DEPTH + 1)) + "]"
    assert json_text.write(json_text.parse(text)) == text


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\udfff":["x\\udc00y"]}', '"\ud800"'])
def test_lone_surrogates_are_replaced_so_that_the_text_can_be_encoded(text: str) -> None:
    assert json_text.write(json_text.parse(text)).encode()


def test_a_surrogate_pair_stays_the_character_it_is() -> None:
    assert json_text.parse('"\\ud83d\\ude00"') == "\U0001f600"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
)


@given(VALUES)
@settings(deadline=None)
def test_what_was_written_is_read_back_the_same(value: JsonValue) -> None:
    assert json_text.parse(json_text.write(value)) == value


@given(st.text() | st.text(alphabet='[]{}",:\\u0d8eE+-.1 ntf'))
@settings(deadline=None)
def test_any_text_is_either_kept_or_refused_and_what_is_kept_is_stable(text: str) -> None:
    try:
        value = json_text.parse(text)
    except JsonError:
        return
    written = json_text.write(value)
    assert json_text.write(json_text.parse(written)) == written
    assert written.encode()
