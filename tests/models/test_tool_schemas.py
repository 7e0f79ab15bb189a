"""The parameters of tools as providers take them: looser at most, and in the words that each knows."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.models.schema_merging import folded
from jackline_server.models.tool_schemas import MOST_CHARS, Dialect, declared, dialect_of

Schema = dict[str, Any]
TEXT = {"type": "string"}
TAKEN_BY_GEMINI = {
    *("type", "format", "description", "title", "nullable", "enum", "items", "properties", "required"),
    *("anyOf", "minItems", "maxItems", "minimum", "maximum"),
}


def told(schema: Schema, dialect: Dialect = Dialect.PLAIN) -> Schema:
    return cast("Schema", json_text.parse_object(declared(json_text.write(schema), dialect)))


def of(one: Schema, dialect: Dialect = Dialect.PLAIN, base: Schema | None = None) -> Schema:
    """What becomes of the one property of an object, with a base to refer to."""
    whole: Schema = {"type": "object", "properties": {"x": one}, "$defs": {"Base": base or {}}}
    return told(whole, dialect)["properties"]["x"]


def parts(node: object) -> Iterator[Schema]:
    """Every schema within one."""
    if not isinstance(node, dict):
        return
    schema = cast("Schema", node)
    yield schema
    for one in [*schema.get("properties", {}).values(), *schema.get("anyOf", []), schema.get("items")]:
        yield from parts(one)


def test_what_every_provider_takes_stays_word_for_word() -> None:
    text = '{"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}'
    assert declared(text, Dialect.PLAIN) is text


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_references_are_written_out_and_what_they_pointed_to_goes(dialect: Dialect, place: str) -> None:
    schema: Schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": f"#/{place}/Deep"},
            "b": {"$ref": f"#/{place}/a~1b", "description": "Own."},
        },
        place: {
            "Deep": {"type": "object", "properties": {"leaf": {"$ref": f"#/{place}/a~1b"}}},
            "a/b": {"type": "string", "description": "Theirs."},
        },
    }
    made = told(schema, dialect)
    assert made["properties"]["a"]["properties"]["leaf"] == {"type": "string", "description": "Theirs."}
    assert made["properties"]["b"] == {"type": "string", "description": "Own."}
    assert "$ref" not in json_text.write(made)
    assert place not in made


@pytest.mark.parametrize("dialect", Dialect)
def test_a_schema_that_leads_back_to_itself_ends(dialect: Dialect) -> None:
    tree: Schema = {
        "type": "object",
        "properties": {
            "left": {"$ref": "#/$defs/Tree"},
            "right": {"$ref": "#/$defs/Tree"},
            "all": {"$ref": "#"},
        },
    }
    made = declared(json_text.write({**tree, "$defs": {"Tree": tree}}), dialect)
    assert "$ref" not in made
    assert len(made) < 2_000_000


@pytest.mark.parametrize("dialect", Dialect)
def test_true_makes_no_demands_and_false_is_no_property(dialect: Dialect) -> None:
    made = told({"type": "object", "properties": {"any": True, "none": False}, "required": ["any"]}, dialect)
    assert made == {"type": "object", "properties": {"any": {}}, "required": ["any"]}


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_alternatives_beside_the_properties_of_the_whole_become_properties(
    dialect: Dialect, key: str
) -> None:
    one: Schema = {"properties": {"b": TEXT}, "required": ["b"]}
    made = told({"type": "object", "properties": {"a": TEXT}, key: [one]}, dialect)
    assert made["properties"] == {"a": TEXT, "b": TEXT}
    assert made.get("required", []) == (["b"] if key == "allOf" else [])
    assert key not in made
    assert key == "allOf" or f'"{key}"' in made["description"]


@pytest.mark.parametrize(
    ("one", "made"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["integer", "string"]}, {"anyOf": [{"type": "integer"}, TEXT]}),
        (
            {"anyOf": [TEXT, {"type": "null"}], "title": "T"},
            {"type": "string", "title": "T", "nullable": True},
        ),
        ({"oneOf": [TEXT, {"type": "integer"}]}, {"anyOf": [TEXT, {"type": "integer"}]}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", None]}, {"type": "string", "enum": ["a"], "nullable": True}),
        (
            {"type": "integer", "enum": [1, 2]},
            {"type": "integer", "description": 'Has to hold: {"enum":[1,2]}'},
        ),
        ({"type": "array"}, {"type": "array", "items": TEXT}),
        ({"type": "array", "items": True}, {"type": "array", "items": TEXT}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        (
            {"type": "string", "format": "uri", "pattern": "^h", "description": "A link."},
            {"type": "string", "description": 'A link. Has to hold: {"pattern":"^h","format":"uri"}'},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
            {"type": "number", "maximum": 9, "description": 'Has to hold: {"exclusiveMinimum":0}'},
        ),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        (
            {"type": "object", "properties": {"a": TEXT}, "required": ["a", "gone"]},
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
        ),
        ({"properties": {"a": TEXT}}, {"type": "object", "properties": {"a": TEXT}}),
    ],
)
def test_gemini_gets_one_type_choices_of_texts_and_words_for_the_rest(one: Schema, made: Schema) -> None:
    assert of(one, Dialect.GEMINI) == made
    assert of(one) in (one, {**one, "items": {}})


BASE: Schema = {
    "type": "object",
    "description": "Theirs.",
    "properties": {"a": {"type": "integer", "minimum": 1}, "b": TEXT},
    "required": ["a"],
}
CLOSED: Schema = {**BASE, "additionalProperties": False}


@pytest.mark.parametrize(
    ("base", "beside", "made"),
    [
        (
            BASE,
            {"properties": {"c": TEXT}, "required": ["c"]},
            {**BASE, "properties": {**BASE["properties"], "c": TEXT}, "required": ["a", "c"]},
        ),
        (
            BASE,
            {"properties": {"a": {"minimum": 5, "maximum": 9, "description": "Own."}}},
            {
                **BASE,
                "properties": {
                    "a": {"type": "integer", "minimum": 5, "maximum": 9, "description": "Own."},
                    "b": TEXT,
                },
            },
        ),
        (CLOSED, {"properties": {"c": TEXT}}, CLOSED),
        (
            BASE,
            {"properties": {"a": {}}, "additionalProperties": False},
            {
                **BASE,
                "properties": {"a": {"type": "integer", "minimum": 1}},
                "additionalProperties": False,
            },
        ),
        (BASE, {"description": "Own.", "default": {"a": 1}},
         {**BASE, "description": "Own.", "default": {"a": 1}}),
        ({"type": ["string", "null"], "minLength": 2}, {"type": "string", "minLength": 1},
         {"type": "string", "minLength": 2}),
        ({"type": "number", "maximum": 3}, {"type": "integer", "maximum": 7},
         {"type": "integer", "maximum": 3}),
        ({"enum": ["a", "b", 1]}, {"enum": ["b", True, "c"]}, {"enum": ["b"]}),
        ({"type": "string", "pattern": "^a"}, {"pattern": "b$"},
         {"type": "string", "pattern": "^a", "allOf": [{"pattern": "b$"}]}),
        ({"anyOf": [TEXT]}, {"anyOf": [{"type": "null"}]},
         {"anyOf": [TEXT], "allOf": [{"anyOf": [{"type": "null"}]}]}),
        ({"type": "array", "items": TEXT}, {"items": {"minLength": 1}, "minItems": 1},
         {"type": "array", "items": {**TEXT, "minLength": 1}, "minItems": 1}),
    ],
)  # fmt: skip
def test_what_stands_beside_a_reference_holds_together_with_what_it_points_to(
    base: Schema, beside: Schema, made: Schema
) -> None:
    assert of({"$ref": "#/$defs/Base", **beside}, base=base) == made


def test_the_one_part_of_a_reference_with_words_is_plain_for_gemini() -> None:
    one = {"allOf": [{"$ref": "#/$defs/Base"}], "description": "Own."}
    made = of(one, Dialect.GEMINI, base=BASE)
    assert made == {**BASE, "description": "Own."}


@pytest.mark.parametrize("dialect", Dialect)
def test_a_property_that_alternatives_see_differently_is_all_that_they_say(dialect: Dialect) -> None:
    alternatives: list[Schema] = [{"properties": {"a": TEXT}}, {"properties": {"a": {"type": "integer"}}}]
    made = told({"type": "object", "oneOf": alternatives}, dialect)
    assert made["properties"]["a"] == {"anyOf": [TEXT, {"type": "integer"}]}


def test_true_and_1_are_two_things_that_alternatives_say_of_a_property() -> None:
    sides: list[Any] = [{"properties": {"a": {"const": one}}} for one in (1, True, 1)]
    made = told({"type": "object", "anyOf": sides}, Dialect.PLAIN)
    assert repr(made["properties"]) == repr({"a": {"anyOf": [{"const": 1}, {"const": True}]}})


@pytest.mark.parametrize("dialect", Dialect)
def test_a_reference_into_a_list_is_written_out(dialect: Dialect) -> None:
    assert of({"$ref": "#/$defs/Base/anyOf/0"}, dialect, base={"anyOf": [TEXT]}) == TEXT


def test_a_model_is_of_its_family_whoever_serves_it() -> None:
    family = {
        name: dialect_of(name) for name in ("gemini/gemini-3-pro", "vertex_ai/Gemini-2.5", "openai/gpt-5")
    }
    assert list(family.values()) == [Dialect.GEMINI, Dialect.GEMINI, Dialect.PLAIN]


# --- whatever the schema -----------------------------------------------------------------------

LEAVES = st.sampled_from(
    [
        True,
        {},
        TEXT,
        {"type": ["integer", "null"], "minimum": 1},
        {"type": "number", "exclusiveMaximum": 3},
        {"enum": ["a", 1, None]},
        {"const": 1},
        {"type": "string", "minLength": 2, "format": "uuid"},
        {"$ref": "#/$defs/Shared"},
    ]
)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: (
        st.fixed_dictionaries(
            {
                "type": st.just("object"),
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            },
            optional={"required": st.just(["a"]), "additionalProperties": st.booleans()},
        )
        | st.fixed_dictionaries({"type": st.just("array"), "items": inner})
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries(
            {"oneOf": st.lists(inner, min_size=1, max_size=2), "description": st.just("D")}
        )
        | st.fixed_dictionaries(
            {"$ref": st.sampled_from(["#/$defs/Shared", "#/$defs/Closed", "#/$defs/List"])},
            optional={
                "type": st.sampled_from(["object", "array", "string"]),
                "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
                "additionalProperties": st.booleans() | inner,
                "items": inner,
                "enum": st.lists(st.sampled_from(["a", 1, True, None]), min_size=1, max_size=3),
                "anyOf": st.lists(inner, min_size=1, max_size=2),
                "required": st.just(["b"]),
                "minItems": st.integers(0, 2),
            },
        )
        | st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=3)})
    ),
    max_leaves=12,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, 1, 2.5, "", "a", "abc", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
SHARED: Schema = {
    "Shared": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "Closed": {
        "properties": {"a": {"minimum": 1}},
        "patternProperties": {"^b": TEXT},
        "additionalProperties": False,
        "anyOf": [{"type": "object"}, {"minLength": 2}],
    },
    "List": {"items": {"type": ["integer", "string"]}, "minItems": 1, "enum": [[], ["a"], "a", 1, None]},
}
CHECKS = JsonSchemas()


@given(SCHEMAS, VALUES)
def test_no_call_that_a_tool_takes_is_refused_by_what_a_provider_is_told(one: Any, value: JsonValue) -> None:
    schema: Schema = {"type": "object", "properties": {"x": one}, "$defs": SHARED}
    if CHECKS.problem(json_text.write(schema), {"x": value}) is None:
        assert CHECKS.problem(declared(json_text.write(schema), Dialect.PLAIN), {"x": value}) is None


@given(st.lists(SCHEMAS, min_size=2, max_size=3), VALUES)
def test_schemas_that_are_said_as_one_refuse_nothing_that_they_take_together(
    several: list[Any], value: JsonValue
) -> None:
    parts: list[JsonValue] = [one for one in several if isinstance(one, dict)]
    if CHECKS.problem(json_text.write({"allOf": parts, "$defs": SHARED}), value) is None:
        one: JsonObject = {**folded({"allOf": parts}), "$defs": SHARED}
        assert CHECKS.problem(json_text.write(one), value) is None


@given(SCHEMAS)
def test_gemini_gets_no_word_that_it_does_not_know(one: Any) -> None:
    made = told({"type": "object", "properties": {"x": one}, "$defs": SHARED}, Dialect.GEMINI)
    for part in parts(made):
        assert set(part) <= TAKEN_BY_GEMINI
        assert isinstance(part.get("type", ""), str)
        assert all(isinstance(choice, str) for choice in part.get("enum", []))
        assert part.get("type") != "array" or "items" in part
        assert set(part.get("required", [])) <= set(part.get("properties", {}))
        assert "anyOf" not in part or "type" not in part


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("large", [{"enum": ["x" * 900] * 30}, {"properties": {"y" * 27_000: TEXT}}])
def test_what_is_pointed_to_often_is_written_out_while_there_is_room(dialect: Dialect, large: Schema) -> None:
    fields = {f"p{number}": {"$ref": "#/$defs/large"} for number in range(1_000)}
    schema = {"type": "object", "$defs": {"large": large}, "properties": fields}
    made = told(schema, dialect)
    assert len(made["properties"]) == len(fields)
    assert MOST_CHARS < len(json_text.write(made)) < 2 * MOST_CHARS


@pytest.mark.parametrize("key", ["anyOf", "oneOf"])
def test_alternatives_that_are_all_null_are_no_empty_list_for_gemini(key: str) -> None:
    assert of({key: [{"type": "null"}]}, Dialect.GEMINI) == {"type": "string", "nullable": True}
