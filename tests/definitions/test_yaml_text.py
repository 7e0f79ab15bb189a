"""The YAML subset: scalars of YAML 1.2, places, and a loader that never raises."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.definitions import yaml_text
from jackline_server.definitions.yaml_nodes import MapNode, plain
from jackline_server.runtime.ports.definitions import Compilation
from tests.definitions.workflows import RIGHT, compile_text


def value_of(written: str) -> object:
    parsed = yaml_text.parse(f"a: {written}\n")
    assert parsed.root is not None, parsed.problems
    assert not parsed.problems
    value = plain(parsed.root)
    assert isinstance(value, dict)
    return value["a"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("on", "on"),
        ("Yes", "Yes"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("0b1", "0b1"),
        ("1_000", "1_000"),
        ("=", "="),
        ("0o17", 15),
        ("0x1F", 31),
        ("017", 17),
        ("+7", 7),
        ("-0", 0),
        ("1e3", Decimal(1000)),
        (".5", Decimal("0.5")),
        ("5.", Decimal(5)),
        ("0.1", Decimal("0.1")),
        ("true", True),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("~", None),
        ("", None),
        ("Null", None),
        ('"5"', "5"),
        ("'null'", "null"),
    ],
)
def test_plain_scalars_follow_the_core_schema(written: str, meant: object):
    assert (type(value_of(written)), value_of(written)) == (type(meant), meant)


@pytest.mark.parametrize("text", ["a: .nan\n", "a: 1e999\n", "a: " + "9" * 5000 + "\n"])
def test_numbers_that_json_does_not_have_are_problems(text: str):
    assert [one.code for one in yaml_text.parse(text).problems] == ["bad_number"]


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\u2028", "\ud800", "\uffff"])
def test_a_character_that_is_read_in_two_ways_has_its_place(character: str):
    (problem,) = yaml_text.parse(f"a: 1\nbc: {character}\n").problems

    assert (problem.code, problem.mark.line, problem.mark.column) == ("bad_character", 2, 5)


def test_an_alias_bomb_ends_at_the_first_alias():
    bomb = "a: &a [x,x]\n" + "".join(
        f"{c}: &{c} [*{p},*{p}]\n" for p, c in zip("abcdefg", "bcdefgh", strict=True)
    )

    assert [one.code for one in yaml_text.parse(bomb).problems] == ["anchor", "anchor", "alias"]


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_gives_a_result(text: str):
    assert isinstance(compile_text(text), Compilation)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damage_to_a_right_workflow_gives_a_result(data: st.DataObject):
    start = data.draw(st.integers(0, len(RIGHT)))
    end = data.draw(st.integers(start, min(len(RIGHT), start + 40)))
    inserted = data.draw(
        st.text(st.sampled_from("{}[]:,&*!|>'\"%@`#-? \n\t<0123456789abc\x00\r$~/"), max_size=12)
    )

    done = compile_text(RIGHT[:start] + inserted + RIGHT[end:])

    assert all(finding.line >= 0 and finding.code for finding in done.findings)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path inside a document."""
    match value:
        case dict():
            keys: list[Any] = list(cast("dict[str, Any]", value))
        case list():
            keys = list(range(len(cast("list[Any]", value))))
        case _:
            return
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def right_document() -> dict[str, Any]:
    root = yaml_text.parse(RIGHT).root
    assert isinstance(root, MapNode)
    return json.loads(json.dumps(plain(root), default=float))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(places(right_document()))), JSON)
def test_any_value_in_any_place_gives_a_result(path: tuple[Any, ...], value: Any):
    document: Any = right_document()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value

    assert isinstance(compile_text(json.dumps(document, ensure_ascii=False)), Compilation)
