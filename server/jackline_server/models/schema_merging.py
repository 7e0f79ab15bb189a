"""Two JSON Schemas that both hold, said as one: what stands beside a reference, and the parts of `allOf`.

Owns what becomes of each keyword that both have. Pure. What is merged asks for no more than the two together,
and for less only where one schema can't say it: choices or types that exclude each other, and the names that
patterns of one and the rest of the other speak of. Knows no references.
"""

from collections.abc import Mapping
from typing import TypeGuard

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue

_WORDS = frozenset(
    {"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format"}
)
"""Those that ask for nothing: the nearer word counts."""

_LEAST = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
_MOST = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
_OF_OBJECTS = frozenset({"properties", "patternProperties", "additionalProperties"})
_TOGETHER = (
    frozenset({"if", "then", "else"}),
    frozenset({"prefixItems", "items"}),
    frozenset({"contains", "minContains", "maxContains"}),
)
"""Keywords that mean something only beside each other."""


def merged(further: JsonObject, nearer: JsonObject) -> JsonObject:
    """A schema that asks for what both do. The words of `nearer` count where both have some."""
    made: JsonObject = dict(further)
    apart = _together(further, nearer)
    if _OF_OBJECTS & further.keys() and _OF_OBJECTS & nearer.keys():
        made |= _object_parts(further, nearer)
    for key, value in nearer.items():
        if key in apart or (key in _OF_OBJECTS and key in made):
            continue
        if key not in made or key in _WORDS:
            made[key] = value
        elif made[key] != value or _kind(made[key]) != _kind(value):
            _into(made, apart, key, value)
    return {**made, "allOf": [*_list(made.get("allOf")), apart]} if apart else made


def _together(further: JsonObject, nearer: JsonObject) -> JsonObject:
    """Of the keywords that need each other, those of `nearer` that would come to mean something else."""
    apart: JsonObject = {}
    for group in _TOGETHER:
        if _differ(further, nearer, group) and not _both_only_items(further, nearer, group):
            apart |= {key: nearer[key] for key in group if key in nearer}
    return apart


def folded(schema: JsonObject) -> JsonObject:
    """The schema with the parts of its `allOf` in it, as far as one schema can say them."""
    parts = [part for part in _list(schema.get("allOf")) if isinstance(part, dict)]
    if not parts:
        return schema
    made: JsonObject = {}
    for part in parts:
        made = merged(made, folded(part))
    return merged(made, {key: value for key, value in schema.items() if key != "allOf"})


def _into(made: JsonObject, apart: JsonObject, key: str, value: JsonValue) -> None:
    """Merge one keyword that both have and say differently; what can't be merged is to stand apart."""
    have = made[key]
    if key == "required" and isinstance(have, list) and isinstance(value, list):
        made[key] = [*have, *(name for name in value if name not in have)]
    elif key == "allOf":
        made[key] = [*_list(have), *_list(value)]
    elif key == "items":
        made[key] = both(have, value)
    elif key == "type":
        made[key] = _types(have, value)
    elif key == "enum" and isinstance(have, list) and isinstance(value, list):
        known = {json_text.write(one) for one in value}
        made[key] = [one for one in have if json_text.write(one) in known] or have
    elif key in _LEAST | _MOST and _is_number(have) and _is_number(value):
        made[key] = min(have, value) if key in _LEAST else max(have, value)
    else:
        apart[key] = value


def both(one: JsonValue, other: JsonValue) -> JsonValue:
    """Two schemas as one, booleans among them."""
    if one is False or other is False:
        return False
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other if isinstance(other, dict) else one
    return merged(one, other)


def _object_parts(further: JsonObject, nearer: JsonObject) -> JsonObject:
    """The keywords on what an object holds: each side also speaks of the names that only the other has."""
    made: JsonObject = {}
    names = dict.fromkeys((*_table(further, "properties"), *_table(nearer, "properties")))
    if names:
        said = {name: both(_said_of(name, further), _said_of(name, nearer)) for name in names}
        made["properties"] = {name: one for name, one in said.items() if one is not False}
    patterns = _table(nearer, "patternProperties")
    if patterns or _table(further, "patternProperties"):
        table: JsonObject = dict(_table(further, "patternProperties"))
        for pattern, value in patterns.items():
            table[pattern] = both(table.get(pattern, True), value)
        made["patternProperties"] = table
    rest = both(further.get("additionalProperties", True), nearer.get("additionalProperties", True))
    if "additionalProperties" in further or "additionalProperties" in nearer:
        made["additionalProperties"] = rest
    return made


def _said_of(name: str, schema: JsonObject) -> JsonValue:
    """What a schema says of a property; of one that its patterns may mean, nothing."""
    table = _table(schema, "properties")
    if name in table:
        return table[name]
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)


def _types(one: JsonValue, other: JsonValue) -> JsonValue:
    """The types that both allow; those of the first if that is none."""
    have, want = _list(one) or [one], _list(other) or [other]
    found: list[JsonValue] = [
        kind for kind in have if kind in want or (kind == "integer" and "number" in want)
    ]
    if "number" in have and "integer" in want and "integer" not in found:
        found.append("integer")
    if not found:
        return one
    return found[0] if len(found) == 1 else found


def _differ(further: JsonObject, nearer: JsonObject, group: frozenset[str]) -> bool:
    ours, theirs = group & further.keys(), group & nearer.keys()
    return bool(ours and theirs) and any(further.get(key) != nearer.get(key) for key in group)


def _both_only_items(further: JsonObject, nearer: JsonObject, group: frozenset[str]) -> bool:
    return "items" in group and "prefixItems" not in further and "prefixItems" not in nearer


def _table(schema: JsonObject, key: str) -> Mapping[str, JsonValue]:
    table = schema.get(key)
    return table if isinstance(table, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _kind(value: JsonValue) -> type:
    """Tells true from 1."""
    return type(value) if isinstance(value, bool) else object


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
