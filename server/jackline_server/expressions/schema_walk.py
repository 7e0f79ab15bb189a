"""What is refused in a JSON Schema before any library compiles it.

Owns the budgets of size, depth, enums and expansion, the refusal of references that leave the document or
come back to themselves, and of patterns that don't run in linear time. Does not own validation.
"""

from collections.abc import Iterator

from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.expressions import linear_regex

MAX_BYTES = 128 * 1024
MAX_DEPTH = 32
MAX_EXPANDED = 10_000
MAX_ENUM = 1_000

DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)

_ONE = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_LISTS = (
    "allOf",
    "anyOf",
    "oneOf",
    "prefixItems",
    "items",
)
_MAPS = (
    "properties",
    "patternProperties",
    "dependentSchemas",
    "definitions",
    "$defs",
    "dependencies",
)
_REFUSED = (
    "$dynamicRef",
    "$recursiveRef",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$anchor",
    "$vocabulary",
    "id",
)
_RANGES = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)


class SchemaRefused(Exception):
    """The schema can't be used; the message says why in one line."""


def check_schema(root: JsonValue) -> None:
    """Pass if a schema is inside the budgets. The caller has bounded the nesting of `root`.

    Raises:
        SchemaRefused: the first reason found.
    """
    if root is False:
        raise SchemaRefused("nothing can satisfy the schema `false`")
    if not isinstance(root, dict | bool):
        raise SchemaRefused("a schema is an object")
    _Walk(root).size(root, depth=0, where="")


class _Walk:
    """One pass over a schema: counts what it expands to, each reference counted where it is used."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._active: set[str] = set()
        self._sizes: dict[str, int] = {}

    def size(self, schema: JsonValue, *, depth: int, where: str) -> int:
        if depth > MAX_DEPTH:
            raise SchemaRefused(f"the schema is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(schema, dict):
            return 1
        self._check_keywords(schema, where=where)
        total = 1
        for place, child in _children(schema):
            total += self.size(child, depth=depth + 1, where=f"{where}/{place}")
        reference = schema.get("$ref")
        if reference is not None:
            total += self._referenced(reference, depth=depth, where=where)
        if total > MAX_EXPANDED:
            raise SchemaRefused(f"the schema expands to more than {MAX_EXPANDED} parts")
        return total

    def _referenced(self, reference: JsonValue, *, depth: int, where: str) -> int:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaRefused(f"{where or '/'}: `$ref` may only point into the same schema (#/...)")
        if reference in self._active or reference == "#":
            raise SchemaRefused(f"{where or '/'}: `$ref` comes back to itself")
        known = self._sizes.get(reference)
        if known is not None:
            return known
        self._active.add(reference)
        total = self.size(_resolve(self._root, reference), depth=depth + 1, where=reference[1:])
        self._active.discard(reference)
        self._sizes[reference] = total
        return total

    def _check_keywords(self, schema: JsonObject, *, where: str) -> None:
        at = where or "/"
        for keyword in _REFUSED:
            if keyword in schema:
                raise SchemaRefused(f"{at}: `{keyword}` is not supported")
        draft = schema.get("$schema")
        if draft is not None and (where or not _is_draft(draft)):
            raise SchemaRefused(f"{at}: `$schema` names no draft that is supported, or stands below the top")
        if "$id" in schema and where:
            raise SchemaRefused(f"{at}: `$id` may only stand at the top")
        choices = schema.get("enum")
        if isinstance(choices, list) and not 0 < len(choices) <= MAX_ENUM:
            raise SchemaRefused(f"{at}: `enum` needs 1 to {MAX_ENUM} values")
        _check_satisfiable(schema, at=at)
        for pattern in _patterns(schema):
            _check_pattern(pattern, at=at)


def _is_draft(draft: JsonValue) -> bool:
    return isinstance(draft, str) and draft.rstrip("#") in DRAFTS


def _children(schema: JsonObject) -> Iterator[tuple[str, JsonValue]]:
    for keyword in _ONE:
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]
    for keyword in _LISTS:
        several = schema.get(keyword)
        if isinstance(several, list):
            yield from ((f"{keyword}/{index}", child) for index, child in enumerate(several))
    for keyword in _MAPS:
        named = schema.get(keyword)
        if isinstance(named, dict):
            yield from ((f"{keyword}/{name[:64]}", child) for name, child in named.items())


def _resolve(root: JsonValue, reference: str) -> JsonValue:
    place = root
    for raw in reference[2:].split("/"):
        key = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isascii() and key.isdigit() and int(key[:6]) < len(place):
            place = place[int(key[:6])]
        else:
            raise SchemaRefused(f"`$ref` {reference[:80]!r} points at nothing")
    return place


def _check_satisfiable(schema: JsonObject, *, at: str) -> None:
    for low, high in _RANGES:
        least, most = schema.get(low), schema.get(high)
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            raise SchemaRefused(f"{at}: nothing can satisfy it, `{low}` is above `{high}`")
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(properties, dict):
        for name in required:
            if isinstance(name, str) and properties.get(name) is False:
                raise SchemaRefused(f"{at}: nothing can satisfy it, `{name[:64]}` is required and forbidden")


def _patterns(schema: JsonObject) -> Iterator[str]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        yield pattern
    by_pattern = schema.get("patternProperties")
    if isinstance(by_pattern, dict):
        yield from by_pattern


def _check_pattern(pattern: str, *, at: str) -> None:
    if not linear_regex.is_accepted(pattern):
        raise SchemaRefused(
            f"{at}: a pattern is too large or not supported (look-around and back references are not)"
        )
