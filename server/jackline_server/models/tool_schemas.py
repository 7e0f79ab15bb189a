"""The parameters of a tool as a provider takes them.

Owns the rewriting of a JSON Schema for the declaration of a tool: what no provider or not every one takes is
said otherwise, and what can't be said at all goes into a description. Pure. A call is checked against the
tool's own schema, so a rewritten one may be wider. It is narrower in one thing, for the model's sake: a
property that only some alternatives of the whole name is declared as they say it, though the others leave it
open.

Every provider: references stand where they pointed, `true` is a schema without demands, a property that is
`false` is none, and the whole is an object without alternatives beside its properties. Gemini's models take a
part of OpenAPI 3.0 only: one type a schema, choices of texts, and few other keywords.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.models.schema_merging import folded, merged

MOST_PARTS = 5_000
"""The most schemas that one comes to with its references written out; what is more is left open."""

MOST_CHARS = 256 * 1024
"""The most text that one comes to with its references written out, near enough; as above."""

_MOST_LEVELS = 32
_KEPT_TEXTS = 512
_LEFT_OUT = frozenset({"$schema", "$id", "$comment", "$defs", "definitions", "$anchor", "nullable"})
_WHOLES = ("allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else")
"""What may not stand beside the properties of the whole."""

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_TABLES = ("properties", "patternProperties", "dependentSchemas")
_GEMINI = frozenset({"format", "description", "title", "minItems", "maxItems", "minimum", "maximum"})
"""Keywords that Gemini's models take as they are."""

_REWRITTEN = frozenset(
    {"type", "enum", "const", "items", "properties", "required", "anyOf", "oneOf", "nullable"}
)
"""Those that are said otherwise."""

_GEMINI_FORMATS = frozenset({"enum", "date-time", "int32", "int64", "float", "double"})
_SILENT = frozenset({"additionalProperties", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""What needs no words where it can't be said: a call is checked anyway."""


class Dialect(Enum):
    """What a provider takes of JSON Schema."""

    PLAIN = "plain"
    GEMINI = "gemini"


def dialect_of(model: str) -> Dialect:
    """By a model's name, whoever serves it."""
    return Dialect.GEMINI if "gemini" in model.lower() else Dialect.PLAIN


@lru_cache(maxsize=_KEPT_TEXTS)
def declared(parameters_json: str, dialect: Dialect) -> str:
    """The parameters as they are declared, as JSON; the same text if nothing has to change."""
    schema = json_text.parse_object(parameters_json)
    made = _object(_Inlining(root=schema).schema(schema, levels=0))
    if dialect is Dialect.GEMINI:
        made = _as_gemini(made)
    return parameters_json if made == schema else json_text.write(made)


# --- for every provider ------------------------------------------------------------------------


@dataclass(slots=True)
class _Inlining:
    """One schema while its references are written out."""

    root: JsonObject
    parts: int = 0
    chars: int = 0

    def schema(self, node: JsonValue, *, levels: int) -> JsonObject:
        """The schema without references and without booleans in the place of schemas."""
        self.parts += 1
        is_over = levels > _MOST_LEVELS or self.parts > MOST_PARTS or self.chars > MOST_CHARS
        if not isinstance(node, dict) or is_over:
            return {"not": {}} if node is False else {}
        reference = node.get("$ref")
        if isinstance(reference, str):
            rest: JsonObject = {key: value for key, value in node.items() if key != "$ref"}
            target = self.schema(self._target(reference), levels=levels + 1)
            return merged(target, self.schema(rest, levels=levels + 1)) if rest else target
        return {
            key: self._within(key, value, levels=levels + 1)
            for key, value in node.items()
            if key not in _LEFT_OUT
        }

    def _within(self, key: str, value: JsonValue, *, levels: int) -> JsonValue:
        """What a keyword has, with the schemas in it."""
        self.chars += len(key)
        if isinstance(value, list) and key in _LISTS:
            return [self.schema(one, levels=levels) for one in value]
        if isinstance(value, dict) and key in _TABLES:
            self.chars += sum(map(len, value))
            return {name: self.schema(one, levels=levels) for name, one in value.items() if one is not False}
        if key == "items" or (isinstance(value, dict) and key in _SINGLES):
            return self.schema(value, levels=levels)
        self.chars += len(json_text.write(value))
        return value

    def _target(self, reference: str) -> JsonValue:
        if reference == "#" or not reference.startswith("#/"):
            return {}
        place: JsonValue = self.root
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(place, dict) and key in place:
                place = place[key]
            elif isinstance(place, list) and key.isascii() and key.isdigit() and int(key[:6]) < len(place):
                place = place[int(key[:6])]
            else:
                return {}
        return place


def _object(schema: JsonObject) -> JsonObject:
    """The whole as an object: alternatives beside its properties become more properties, and words."""
    if schema.get("type") == "object" and "properties" in schema and not schema.keys() & set(_WHOLES):
        return schema
    schema = folded(schema)
    told: JsonObject = {key: schema[key] for key in _WHOLES if key in schema}
    made: JsonObject = {key: value for key, value in schema.items() if key not in told}
    several = {**_offered(told.get("anyOf")), **_offered(told.get("oneOf"))}
    own = {name: one for name, one in _table_of(schema, "properties").items() if one is not False}
    made |= {"type": "object", "properties": {**several, **own}}
    return _with_words(made, told)


def _offered(alternatives: JsonValue) -> JsonObject:
    """The properties of alternatives: of one that several have, all that they say of it."""
    # By their text: lists would take long to look through, and hold `true` for 1.
    found: dict[str, dict[str, JsonValue]] = {}
    for part in _objects(alternatives):
        for name, one in _table_of(folded(part), "properties").items():
            said = found.setdefault(name, {})
            if one is not False:
                said.setdefault(json_text.write(one), one)
    several = {name: list(said.values()) for name, said in found.items() if said}
    return {name: said[0] if len(said) == 1 else {"anyOf": said} for name, said in several.items()}


def _objects(several: JsonValue) -> Iterable[JsonObject]:
    return [one for one in several if isinstance(one, dict)] if isinstance(several, list) else ()


def _table_of(schema: JsonObject, key: str) -> Mapping[str, JsonValue]:
    table = schema.get(key)
    return table if isinstance(table, dict) else {}


def _names_of(schema: JsonObject) -> list[str]:
    required = schema.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


# --- for Gemini --------------------------------------------------------------------------------


def _as_gemini(node: JsonObject) -> JsonObject:
    """The schema in the part of OpenAPI 3.0 that Gemini's models take."""
    node = folded(node)
    made: JsonObject = {key: value for key, value in node.items() if key in _GEMINI}
    told: JsonObject = {
        key: value
        for key, value in node.items()
        if key not in _GEMINI and key not in _REWRITTEN and key not in _SILENT
    }
    if "format" in made and made["format"] not in _GEMINI_FORMATS:
        told["format"] = made.pop("format")
    made |= _one_type(node)
    _choices(node, made, told)
    several = [*_objects(node.get("anyOf")), *_objects(node.get("oneOf"))]
    if several:
        made = _alternatives(made, several)
    if isinstance(node.get("properties"), dict):
        table = {name: _as_gemini(one) for name, one in _tables(node)}
        required: list[JsonValue] = [name for name in _names_of(node) if name in table]
        made |= {"properties": {**table}, **({"required": required} if required else {})}
    if made.get("type") == "array":
        items = node.get("items")
        made["items"] = _as_gemini(items) if isinstance(items, dict) and items else {"type": "string"}
    return _with_words(made, told)


def _one_type(node: JsonObject) -> JsonObject:
    """Its type; several become alternatives, and `null` a flag."""
    types = node.get("type")
    if not isinstance(types, list):
        return _guessed(node) if types is None else {"type": types}
    others: list[JsonValue] = [one for one in types if one != "null"]
    made: JsonObject = {"nullable": True} if len(others) < len(types) else {}
    if len(others) == 1:
        return {**made, "type": others[0]}
    return {**made, "anyOf": _each(others)} if others else {**made, "type": "string"}


def _each(types: list[JsonValue]) -> list[JsonValue]:
    return [_as_gemini({"type": one}) for one in types]


def _guessed(node: JsonObject) -> JsonObject:
    """The type of one that says none, where its other words show it."""
    if "properties" in node:
        return {"type": "object"}
    if "items" in node:
        return {"type": "array"}
    choices = node.get("enum")
    if isinstance(choices, list) and choices and all(isinstance(one, str) for one in choices):
        return {"type": "string"}
    return {"type": "string"} if isinstance(node.get("const"), str) else {}


def _choices(node: JsonObject, made: JsonObject, told: JsonObject) -> None:
    """Choices are texts; others are told."""
    choices: JsonValue = [node["const"]] if "const" in node else node.get("enum")
    told.pop("const", None)
    made.pop("enum", None)
    if not isinstance(choices, list):
        return
    texts: list[JsonValue] = [one for one in choices if isinstance(one, str) and one]
    if None in choices:
        made["nullable"] = True
    if texts and len(texts) == len([one for one in choices if one is not None]):
        made["type"], made["enum"] = "string", texts
    else:
        told["enum"] = choices


def _alternatives(made: JsonObject, several: list[JsonObject]) -> JsonObject:
    """`anyOf` stands alone: beside it only what describes it. One that is `null` is a flag."""
    kept = {key: made[key] for key in ("description", "title", "nullable", "properties") if key in made}
    others = [one for one in several if one.get("type") != "null"]
    if len(others) < len(several):
        kept["nullable"] = True
    if not others:
        return {**kept, "type": "string"}
    if len(others) == 1:
        return {**_as_gemini(others[0]), **kept}
    return {**kept, "anyOf": [_as_gemini(one) for one in others]}


def _tables(node: JsonObject) -> Iterable[tuple[str, JsonObject]]:
    for name, one in _table_of(node, "properties").items():
        if one is not False:
            yield name, one if isinstance(one, dict) else {}


def _with_words(made: JsonObject, told: JsonObject) -> JsonObject:
    """The schema with what can't be said otherwise in its description."""
    if not told:
        return made
    description = made.get("description")
    text = description if isinstance(description, str) else ""
    return {**made, "description": f"{text} Has to hold: {json_text.write(told)}".strip()}
