"""YAML of the command, read back by a reader of others."""

import math
import tomllib

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import example, given, settings

from jackline_client.cli.quoting import quoted
from jackline_client.cli.yaml_text import yaml_text

WORDS = st.text(st.characters(codec="utf-8"), max_size=60)
TRICKY = st.sampled_from(
    [
        *(
            "",
            " ",
            "~",
            "null",
            "Yes",
            "NO",
            "on",
            "1",
            "1e3",
            "0x1",
            "1:30",
            "-",
            "- a",
            "a: b",
            "#",
            "a #b",
        ),
        *("---", "...", "<<", "=", "!x", "&a", "*a", "%d", "@a", "`", "|", ">", "{", "[a]", "2026-01-01"),
        *("a\nb", "a\nb\n", "a\nb\n\n", "\na", " a\nb", "a \nb", "a\n\n b\n", "a\tb\nc", "a\n\tb", "a\r\nb"),
        *(
            "\ud7ff",
            "\ue000",
            "\U0001f600",
            "\\ud83d",
            "\x7f",
            "\x85",
            "\u2028",
            "\ufeff",
            "\u202e",
            "'",
            '"',
        ),
    ]
)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | WORDS | TRICKY
)
LINES = st.lists(WORDS | TRICKY, max_size=4).map("\n".join)
VALUES = st.recursive(
    SCALARS | LINES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | TRICKY | LINES, inner, max_size=4),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES)
@example({"k" * 2_000: {"deep": [[], {}, [[1]]]}})
@example([[[{"a": [{"b": "c\nd\n"}]}]], "x\ny"])
@example(1e16)
@example(-1e-7)
def test_what_is_written_reads_back_as_it_was_and_is_printable_ascii(value: object) -> None:
    text = yaml_text(value)
    assert yaml.safe_load(text) == value
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


def test_numbers_that_are_none_are_written_as_yaml_has_them() -> None:
    assert math.isnan(yaml.safe_load(yaml_text(math.nan)))
    assert yaml.safe_load(yaml_text([math.inf, -math.inf])) == [math.inf, -math.inf]


def test_texts_of_several_lines_stay_readable() -> None:
    assert yaml_text({"yaml": "name: x\nflow: [a]\n"}) == "yaml: |\n  name: x\n  flow: [a]\n"


def test_what_json_can_not_hold_is_refused() -> None:
    with pytest.raises(TypeError):
        yaml_text({"a": object()})


@settings(deadline=None)
@given(WORDS | TRICKY)
def test_a_quoted_text_means_the_same_to_yaml_and_to_toml(text: str) -> None:
    assert tomllib.loads(f"a = {quoted(text)}") == {"a": text}
    assert yaml.safe_load(quoted(text)) == text
