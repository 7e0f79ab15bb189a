"""JSON Schema: hostile schemas are refused when a plan is made, hostile values in linear time."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.expressions.schemas import JsonSchemas

SCHEMAS = JsonSchemas()


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


def fan_out(levels: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"items": {"$ref": "#/$defs/a"}}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"next": {"$ref": "#/$defs/a"}}}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"$ref": "#/nowhere"},
        {"$ref": "#anchor"},
        {"$ref": 5},
        {"$ref": "http://127.0.0.1/x"},
        {"$ref": "file:///etc/passwd"},
        {"items": {"$ref": "other.json"}},
        {"$dynamicRef": "#a"},
        {"properties": {"a": {"$id": "http://x/y"}}},
        {"$schema": "http://example.com/mine"},
        {"$schema": 5},
        fan_out(18),
        {"pattern": "(?=a)b"},
        {"pattern": r"(a)\1"},
        {"pattern": "("},
        {"pattern": "(a{1000}){1000}"},
        {"patternProperties": {"(?<!a)b": {}}},
        {"pattern": "a" * 501},
        nested(200),
        {"enum": list(range(100_000))},
        {"enum": []},
        {"maxLength": -1},
        {"type": "strin"},
        {"minLength": 5, "maxLength": 4},
        {"minimum": 2, "maximum": 1},
        {"required": ["a"], "properties": {"a": False}},
        {"description": "x" * 5_000_000},
        False,
        5,
        [],
        "x",
    ],
)
def test_a_schema_over_its_budget_or_out_of_reach_is_refused(schema: Any):
    started = time.perf_counter()
    refused = SCHEMAS.check(json.dumps(schema))

    assert refused
    assert "\n" not in refused
    assert time.perf_counter() - started < 1
    assert SCHEMAS.problem(json.dumps(schema), {})


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, '{"minimum": 1e999}']
)
def test_a_schema_that_is_no_json_is_refused(text: str):
    assert SCHEMAS.check(text)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]},
        {"properties": {"$ref": {"type": "string"}, "id": {"type": "string"}, "enum": {"type": "array"}}},
        {
            "$defs": {"a": {"type": "string"}},
            "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/a"}},
        },
        {"pattern": "^(a+)+$"},
        {"const": {"$ref": "http://x"}},
        nested(15),
    ],
)
def test_an_honest_schema_is_accepted(schema: Any):
    assert SCHEMAS.check(json.dumps(schema)) is None


def test_a_pattern_runs_in_linear_time():
    started = time.perf_counter()

    assert SCHEMAS.problem('{"pattern":"^(a+)+$"}', "a" * 100_000 + "b")

    assert time.perf_counter() - started < 0.5


def test_a_problem_is_one_short_line_with_its_place():
    schema = '{"properties":{"order":{"properties":{"id":{"type":"integer"}}}}}'

    problem = SCHEMAS.problem(schema, {"order": {"id": "x" * 10_000}})

    assert problem is not None
    assert problem.startswith("/order/id")
    assert "\n" not in problem
    assert len(problem) < 600
    assert SCHEMAS.problem(schema, {"order": {"id": 5}}) is None


def test_values_that_strict_json_does_not_have_raise_nothing():
    deep: Any = 1
    for _ in range(2_000):
        deep = [deep]

    for value in (deep, "\ud800", float("nan"), 2**80):
        SCHEMAS.problem('{"type":"object"}', value)
    assert SCHEMAS.problem('{"items":{"not":{"type":"array"}}}', deep)


def test_booleans_are_no_integers_and_texts_no_numbers():
    assert SCHEMAS.problem('{"type":"integer"}', True)
    assert SCHEMAS.problem('{"type":"integer"}', "5")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["$ref", "type", "items", "allOf", "properties", "pattern", "enum", "$id", "not", "required"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(JSON, JSON)
def test_any_schema_is_refused_or_usable(schema: Any, value: Any):
    text = json.dumps(schema)
    if SCHEMAS.check(text) is None:
        problem = SCHEMAS.problem(text, value)
        assert problem is None or problem


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": {"a": {"type": "strng"}}}, ("properties", "a", "type")),
        ({"anyOf": [{}, {"items": {"minLength": "3"}}]}, ("anyOf", 1, "items", "minLength")),
        ({"properties": {"a/b": {"pattern": "(?=a)"}}}, ("properties", "a/b", "pattern")),
        ({"patternProperties": {"(?=a)": {}}}, ("patternProperties", "(?=a)")),
        ({"$defs": {"d": {"enum": []}}}, ("$defs", "d", "enum")),
        ({"properties": {"a": {"$ref": "#/x"}}}, ("properties", "a", "$ref")),
    ],
)
def test_a_refusal_says_where_in_the_schema(schema: dict[str, Any], where: tuple[str | int, ...]):
    refused = SCHEMAS.refusal(json.dumps(schema))
    assert refused is not None
    assert refused[0] == where


LARGE_PATTERN = "[\\pL\\pN]{1,7}"


LARGE: list[dict[str, Any]] = [
    {"pattern": "[\\pL\\pN]{1,30}"},
    {"patternProperties": {f"{LARGE_PATTERN}{n}": {} for n in range(100)}},
    {"anyOf": [{"pattern": LARGE_PATTERN}] * 5},
]


@pytest.mark.parametrize("schema", LARGE)
def test_patterns_are_bounded_one_by_one_and_together(schema: dict[str, Any]):
    began = time.thread_time()
    assert SCHEMAS.check(json.dumps(schema))
    assert time.thread_time() - began < 1


def test_up_to_so_many_reasons_are_told_each_with_its_place():
    schema = json.dumps(
        {
            "properties": {"a": {"type": "string"}, "b": {"items": {"minimum": 3}}},
            "required": ["c", "d"],
            "additionalProperties": False,
        }
    )
    value: Any = {"a": 1, "b": [5, 2], "e": 1}
    found = SCHEMAS.problems(schema, value, most=5)
    assert {one.path for one in found} == {("a",), ("b", 1), ()}
    assert len(found) == 5
    assert len(SCHEMAS.problems(schema, value, most=2)) == 2
    assert SCHEMAS.problems('{"required":["c"]}', {"c": 1}, most=5) == ()
    assert SCHEMAS.problems('{"type":"strng"}', {}, most=5)


COSTLY: list[tuple[dict[str, Any], Any]] = [
    ({"items": {"anyOf": [{"type": "string", "minLength": n} for n in range(500)]}}, list(range(20_000))),
    ({"items": {"enum": ["x" * 50 + str(n) for n in range(1_000)]}}, list(range(20_000))),
    ({"allOf": [{"items": {"anyOf": [{"minimum": -n} for n in range(2_000)]}}]}, [0.5] * 100_000),
    ({"patternProperties": {f"^x{n}$": {} for n in range(700)}}, {f"x{n}": 0 for n in range(20_000)}),
]


@pytest.mark.parametrize(("schema", "value"), COSTLY)
def test_no_value_takes_long_to_be_checked_and_explained(schema: dict[str, Any], value: Any):
    text = json.dumps(schema)
    assert SCHEMAS.check(text) is None
    began = time.thread_time()
    SCHEMAS.problems(text, value, most=5)
    assert time.thread_time() - began < 1


def test_a_large_schema_takes_a_value_of_its_own_size():
    names = [f"p{n}" for n in range(1_500)]
    schema = json.dumps({"properties": {name: {"type": "integer"} for name in names}, "required": names})
    assert SCHEMAS.problem(schema, dict.fromkeys(names, 1)) is None


def test_what_is_kept_of_schemas_is_bounded_by_bytes():
    small = JsonSchemas(cache_bytes=1_000_000)
    for number in range(50):
        properties = {f"p{number}_{n}": {"type": "string"} for n in range(200)}
        assert small.check(json.dumps({"properties": properties})) is None
        assert small.kept_bytes <= 1_000_000
