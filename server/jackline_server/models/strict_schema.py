"""A JSON Schema inside the part of JSON Schema that providers hold a model to.

Owns the rewriting, and its refusal where the schema can't be said in that part. Pure. A rewritten schema is
narrower in that its objects are closed, and looser only in what is checked again when the answer is read:
lengths, ranges and patterns go into the description. No property becomes required that was not: a model would
make it up.
"""

from dataclasses import dataclass

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue

MOST_LEVELS = 5
MOST_PROPERTIES = 100
MOST_CHOICES = 500
MOST_CHARACTERS = 15_000
"""The tightest limits among the providers that have some."""

_MOST_HOPS = 32
_SAID = (
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
"""Keywords that some provider refuses: they are told in words."""
_LEFT_OUT = frozenset(
    {"$schema", "$id", "$comment", "$defs", "definitions", "title", "default", "examples", "deprecated"}
    | {"readOnly", "writeOnly"}
)
_KEPT = frozenset(
    {"type", "enum", "const", "anyOf", "items", "properties", "required", "additionalProperties"}
    | {"description"}
)
_KNOWN = _KEPT | _LEFT_OUT | frozenset(_SAID)


class _NotStrict(Exception):
    """The schema needs more than providers hold a model to."""


def strict(schema: JsonObject) -> JsonObject | None:
    """The schema as it can be enforced, without references; None if it can't be said so.

    `schema` has passed the checks of a plan: its references lead somewhere inside it and never in a circle.
    """
    try:
        made = _Rewriting(root=schema).schema(schema, levels=1, hops=0)
    except _NotStrict:
        return None
    return made if len(json_text.write(made)) <= MOST_CHARACTERS else None


@dataclass(slots=True)
class _Rewriting:
    """One schema while it is rewritten, with what it has come to so far."""

    root: JsonObject
    properties: int = 0
    choices: int = 0

    def schema(self, node: JsonValue, *, levels: int, hops: int) -> JsonObject:
        if not isinstance(node, dict) or hops > _MOST_HOPS:
            raise _NotStrict
        if "$ref" in node:
            return self._referenced(node, levels=levels, hops=hops)
        if node.keys() - _KNOWN or not node.keys() & {"type", "enum", "const", "anyOf"}:
            raise _NotStrict
        made: JsonObject = {key: node[key] for key in ("type", "enum", "const") if key in node}
        self._count_choices(node.get("enum"))
        types = node.get("type")
        kinds = types if isinstance(types, list) else [types]
        if "object" in kinds or "properties" in node:
            made |= self._object(node, levels=_inside(levels), hops=hops)
        if "array" in kinds or "items" in node:
            made["items"] = self.schema(node.get("items"), levels=_inside(levels), hops=hops)
        if "anyOf" in node:
            made["anyOf"] = self._each(node["anyOf"], levels=levels, hops=hops)
        words = _words(node)
        return {**made, "description": words} if words else made

    def _referenced(self, node: JsonObject, *, levels: int, hops: int) -> JsonObject:
        if node.keys() - _LEFT_OUT - {"$ref", "description"}:
            raise _NotStrict
        target = self._target(node["$ref"])
        if isinstance(target, dict) and "description" in node:
            target = {**target, "description": node["description"]}  # the nearer one counts
        return self.schema(target, levels=levels, hops=hops + 1)

    def _object(self, node: JsonObject, *, levels: int, hops: int) -> JsonObject:
        properties, required = node.get("properties"), node.get("required")
        if not isinstance(properties, dict) or not properties or not isinstance(required, list):
            raise _NotStrict
        if set(properties) != set(required) or node.get("additionalProperties", False) is not False:
            raise _NotStrict
        self.properties += len(properties)
        if self.properties > MOST_PROPERTIES:
            raise _NotStrict
        return {
            "properties": {
                name: self.schema(child, levels=levels, hops=hops) for name, child in properties.items()
            },
            "required": list(properties),
            "additionalProperties": False,
        }

    def _each(self, several: JsonValue, *, levels: int, hops: int) -> list[JsonValue]:
        if not isinstance(several, list):
            raise _NotStrict
        return [self.schema(one, levels=levels, hops=hops) for one in several]

    def _count_choices(self, enum: JsonValue) -> None:
        self.choices += len(enum) if isinstance(enum, list) else 0
        if self.choices > MOST_CHOICES:
            raise _NotStrict

    def _target(self, reference: JsonValue) -> JsonValue:
        place: JsonValue = self.root
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise _NotStrict
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(place, dict) or key not in place:
                raise _NotStrict
            place = place[key]
        return place


def _inside(levels: int) -> int:
    """The level of what an object or array at this one holds."""
    if levels > MOST_LEVELS:
        raise _NotStrict
    return levels + 1


def _words(node: JsonObject) -> str:
    """The description, with what can't be said otherwise."""
    description = node.get("description")
    text = description if isinstance(description, str) else ""
    said: JsonObject = {key: node[key] for key in _SAID if key in node}
    if not said:
        return text
    return f"{text} Has to hold: {json_text.write(said)}".strip()
