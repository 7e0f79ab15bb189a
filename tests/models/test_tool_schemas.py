"""The parameters of tools as providers take them: looser at most, and in the words that each knows."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.models.tool_schemas import MOST_CHARS, Dialect, declared, dialect_of

Schema = dict[str, Any]
TEXT = {"type": "string"}
TAKEN_BY_GEMINI = {
    *("type", "format", "description", "title", "nullable", "enum", "items", "properties", "required"),
    *("anyOf", "minItems", "maxItems", "minimum", "maximum"),
}


def told(schema: Schema, dialect: Dialect = Dialect.PLAIN) -> Schema:
    return cast("Schema", json_text.parse_object(declared(json_text.write(schema), dialect)))


def of(one: Schema, dialect: Dialect = Dialect.PLAIN, **more: object) -> Schema:
    """What becomes of the one property of an object."""
    return told({"type": "object", "properties": {"x": one}, **more}, dialect)["properties"]["x"]


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
    ),
    max_leaves=12,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, 0, 1, 2.5, "", "a", "abc", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
SHARED = {"Shared": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CHECKS = JsonSchemas()


@given(SCHEMAS, VALUES)
def test_no_call_that_a_tool_takes_is_refused_by_what_a_provider_is_told(one: Any, value: JsonValue) -> None:
    schema: Schema = {"type": "object", "properties": {"x": one}, "$defs": SHARED}
    if CHECKS.problem(json_text.write(schema), {"x": value}) is None:
        assert CHECKS.problem(declared(json_text.write(schema), Dialect.PLAIN), {"x": value}) is None


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
