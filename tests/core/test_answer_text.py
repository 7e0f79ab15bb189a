"""The JSON of an answer: fences come off, and nothing that is not there is made up."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.deciding import answer_text
from jackline_server.core.plan import JsonValue

FENCED = {
    "backticks": '```json\n{"a":1}\n```',
    "no language": '```\n{"a":1}\n```',
    "tildes": '~~~json\n{"a":1}\n~~~',
    "more of them": '`````json\n{"a":1}\n`````',
    "a language with signs": '``` json-5.x \n{"a":1}\n```',
    "indented a little": '   ```json\n{"a":1}\n   ```',
    "line ends of another kind": '```json\r\n{"a":1}\r\n```\r\n',
    "closed behind the value": '```json\n{"a":1}```',
    "never closed": '```json\n{"a":1}\n',
    "space around": '\n\n ```json\n\n{"a":1}\n\n```\n\n',
}
AROUND = {
    "words before": 'Here it is:\n```json\n{"a":1}\n```',
    "words behind": '```json\n{"a":1}\n```\nDoes that help?',
    "words on both sides": 'Sure!\n\n~~~\n{"a":1}\n~~~\n\nBye.',
    "a fence inside a longer one": '````\n{"a":\n1}\n````\nsee above',
}
NONE = {
    "among words": 'It is {"a":1} then.',
    "two objects": '{"a":1}{"a":2}',
    "two blocks": '```json\n{"a":1}\n```\nor\n```json\n{"a":2}\n```',
    "two blocks of which one is no JSON": '```\nhello\n```\n```json\n{"a":1}\n```',
    "inline code": 'It is `{"a":1}`.',
    "an empty block": "```json\n```",
    "a block of words": "```\nhello\n```",
    "a trailing comma": '```json\n{"a":1,}\n```',
    "a comment": '{"a":1} // done',
    "single quotes": "{'a':1}",
    "a block of both kinds": '```json\n{"a":1}\n~~~',
}
HOSTILE = {
    "NaN": '{"a":NaN}',
    "infinity": '{"a":-Infinity}',
    "a number past every double": '{"a":1e999}',
    "a whole number past every double": '{"a":1' + "0" * 400 + "}",
    "a whole number of ten thousand digits": '{"a":' + "9" * 10_000 + "}",
    "a key twice": '{"a":1,"a":2}',
    "a key twice once its surrogates are gone": '{"\\ud800":1,"\\udfff":2}',
    "nested too deep": "[" * 101 + "]" * 101,
    "nested beyond the stack": "[" * 200_000 + "]" * 200_000,
    "cut off": '{"a":"b',
    "a bare control sign": '{"a":"\x00"}',
}


@pytest.mark.parametrize("text", FENCED.values(), ids=FENCED.keys())
@pytest.mark.parametrize("words_around", [True, False])
def test_a_fence_around_the_whole_answer_comes_off(text: str, words_around: bool) -> None:
    assert answer_text.parse(text, words_around=words_around) == {"a": 1}


@pytest.mark.parametrize("text", AROUND.values(), ids=AROUND.keys())
def test_words_around_a_fence_are_dropped_only_where_the_answer_has_to_be_json(text: str) -> None:
    assert answer_text.parse(text, words_around=True) == {"a": 1}
    with pytest.raises(json_text.JsonError):
        answer_text.parse(text, words_around=False)


@pytest.mark.parametrize("text", [*NONE.values(), *HOSTILE.values()], ids=[*NONE.keys(), *HOSTILE.keys()])
@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
def test_what_is_not_one_sound_value_is_not_made_to_be_one(text: str, fence: str) -> None:
    with pytest.raises(json_text.JsonError):
        answer_text.parse(fence.replace("{}", text), words_around=True)


def test_lone_surrogates_are_replaced_and_pairs_are_joined() -> None:
    value = answer_text.parse('{"a":"\\ud800","b":"\\ud83d\\ude00"}', words_around=True)
    assert isinstance(value, dict)
    assert set(str(value["a"])) == {"\ufffd"}
    assert value["b"] == "\N{GRINNING FACE}"


def test_a_fence_inside_a_text_is_part_of_the_text() -> None:
    value: JsonValue = {"code": "```json\n{}\n```", "line": "a\u2028b"}
    text = json_text.write(value)
    assert answer_text.parse(text, words_around=True) == value
    assert answer_text.parse(f"So:\n```json\n{text}\n```", words_around=True) == value


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, fence=st.sampled_from(["```", "~~~", "`````"]), words=st.sampled_from(["", "So.\n"]))
def test_any_value_is_found_in_its_fence(value: JsonValue, fence: str, words: str) -> None:
    text = f"{words}{fence}json\n{json_text.write(value)}\n{fence}\n{words}"
    assert answer_text.parse(text, words_around=True) == json_text.parse(json_text.write(value))


@given(st.text(alphabet='`~{}[]":,1a \n\r', max_size=60))
@example("```\n```\n```")
@example("~~~")
def test_whatever_a_model_writes_gives_a_value_or_no_value(text: str) -> None:
    try:
        value = answer_text.parse(text, words_around=True)
    except json_text.JsonError:
        return
    assert json_text.parse(json_text.write(value)) == value
