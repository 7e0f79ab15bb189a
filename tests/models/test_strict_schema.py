"""What is asked of a provider's schema mode: enforced where it can be, and never more than was meant."""

import json
from typing import Any

import pytest

from jackline_server.core.plan import JsonObject
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.models import strict_schema
from jackline_server.models.strict_schema import strict
from jackline_server.models.translate import wire_reply_format

SCHEMAS = JsonSchemas()


def closed(**properties: Any) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def answer(result: Any, **more: Any) -> JsonObject:
    return {**closed(outcome={"type": "string", "enum": ["good", "bad"]}, result=result), **more}


TEXT = {"type": "string"}
STRICT: dict[str, tuple[JsonObject, Any]] = {
    "closed objects stay": (answer(closed(a=TEXT)), closed(a=TEXT)),
    "open objects are closed": (
        answer({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}),
        closed(a=TEXT),
    ),
    "objects inside arrays are closed": (
        answer({"type": "array", "items": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}}),
        {"type": "array", "items": closed(a=TEXT)},
    ),
    "choices are looked into": (
        answer(
            {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}]}
        ),
        {"anyOf": [{"type": "null"}, closed(a=TEXT)]},
    ),
    "null beside a type": (answer({"type": ["string", "null"]}), {"type": ["string", "null"]}),
    "an enum and a constant": (
        answer(closed(a={"enum": [1, 2]}, b={"const": "x"})),
        closed(a={"enum": [1, 2]}, b={"const": "x"}),
    ),
    "limits go into the description": (
        answer({"type": "string", "description": "A name.", "minLength": 2, "pattern": "^a"}),
        {"type": "string", "description": 'A name. Has to hold: {"minLength":2,"pattern":"^a"}'},
    ),
    "the words beside a reference count": (
        answer(
            {"$ref": "#/$defs/name", "description": "Own."},
            **{"$defs": {"name": {**TEXT, "description": "N."}}},
        ),
        {**TEXT, "description": "Own."},
    ),
    "a limit without a description": (
        answer({"type": "integer", "minimum": 1}),
        {"type": "integer", "description": 'Has to hold: {"minimum":1}'},
    ),
    "titles, defaults and examples go": (
        answer({"type": "string", "title": "T", "default": "x", "examples": ["y"], "$comment": "c"}),
        TEXT,
    ),
    "references are followed": (
        answer(closed(a={"$ref": "#/$defs/t"}), **{"$defs": {"t": {"$ref": "#/$defs/u"}, "u": TEXT}}),
        closed(a=TEXT),
    ),
    "references into the answer": (
        answer(closed(a=TEXT, b={"$ref": "#/properties/result/properties/a"})),
        closed(a=TEXT, b=TEXT),
    ),
}


@pytest.mark.parametrize(("schema", "result"), STRICT.values(), ids=STRICT.keys())
def test_a_schema_that_can_be_enforced_is(schema: JsonObject, result: Any) -> None:
    made = strict(schema)
    assert made is not None
    assert made == answer(result)
    assert wire_reply_format(json.dumps(schema)) == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": made, "strict": True},
    }


def nested(levels: int) -> Any:
    schema: Any = TEXT
    for _ in range(levels):
        schema = closed(a=schema)
    return schema


LOOSE: dict[str, Any] = {
    "a part that may be left out": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT},
        "required": ["a"],
    },
    "nothing required": {"type": "object", "properties": {"a": TEXT}},
    "an object without properties": {"type": "object"},
    "an object that is open by its own word": {**closed(a=TEXT), "additionalProperties": True},
    "an object with further parts of a kind": {**closed(a=TEXT), "additionalProperties": TEXT},
    "anything": {},
    "anything, described": {"description": "Your result."},
    "true": True,
    "an array of anything": {"type": "array"},
    "a tuple": {"type": "array", "prefixItems": [TEXT]},
    "all of": {"allOf": [TEXT]},
    "one of": {"oneOf": [TEXT, {"type": "null"}]},
    "not": {"type": "string", "not": {"const": "x"}},
    "if": {"type": "string", "if": {"minLength": 3}, "then": {"maxLength": 5}},
    "names by pattern": {"type": "object", "patternProperties": {"^a": TEXT}},
    "a reference with a word of its own": {"$ref": "#/$defs/t", "minLength": 3},
    "a reference to nothing": {"$ref": "#/$defs/none"},
    "a reference elsewhere": {"$ref": "https://example.com/s"},
    "a keyword that nobody knows": {"type": "string", "x-widget": "big"},
    "too many levels": nested(strict_schema.MOST_LEVELS),
    "too many properties": closed(**{f"p{number}": TEXT for number in range(strict_schema.MOST_PROPERTIES)}),
    "too many choices": {"enum": [str(number) for number in range(strict_schema.MOST_CHOICES)]},
    "too long": {"type": "string", "description": "x" * strict_schema.MOST_CHARACTERS},
}


@pytest.mark.parametrize("result", LOOSE.values(), ids=LOOSE.keys())
def test_a_schema_that_can_not_be_enforced_goes_out_as_it_is(result: Any) -> None:
    schema = answer(result, **{"$defs": {"t": TEXT}})
    assert strict(schema) is None
    assert wire_reply_format(json.dumps(schema)) == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": False},
    }


def test_the_limits_are_those_up_to_which_it_is_enforced() -> None:
    assert strict(answer(nested(strict_schema.MOST_LEVELS - 1))) is not None
    most = {f"p{number}": TEXT for number in range(strict_schema.MOST_PROPERTIES - 2)}
    assert strict(answer(closed(**most))) is not None


def test_references_that_come_back_to_themselves_end() -> None:
    """No plan holds any; the end must not depend on that."""
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    assert strict(answer({"$ref": "#/$defs/a"}, **{"$defs": circle})) is None
    growing = {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}
    assert strict(answer({"$ref": "#/$defs/a"}, **{"$defs": growing})) is None


@pytest.mark.parametrize("schema", [schema for schema, _ in STRICT.values()], ids=STRICT.keys())
def test_what_the_enforced_schema_lets_through_is_an_answer_but_for_what_its_words_say(
    schema: JsonObject,
) -> None:
    made = json.dumps(strict(schema))
    for result in ("abc", 1, None, {"a": "x"}, {"a": 1, "b": "x"}, {"a": "x", "b": "y"}, [{"a": "x"}], {}):
        value: Any = {"outcome": "good", "result": result}
        if SCHEMAS.problem(made, value) is None:
            assert SCHEMAS.problem(json.dumps(schema), value) is None
