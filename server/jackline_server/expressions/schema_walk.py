"""What is refused in a JSON Schema before any library compiles it.

Owns the budgets of size, depth, enums and expansion, the refusal of references that leave the document or
come back to themselves, and of patterns that don't run in linear time. Does not own validation.
"""

import difflib
from collections.abc import Iterator

from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.expressions import linear_regex

MAX_BYTES = 128 * 1024
MAX_DEPTH = 32
MAX_EXPANDED = 10_000
MAX_ENUM = 1_000
MAX_PATTERNS = 2 * linear_regex.MAX_SIZE
"""Instructions of all patterns together, each counted wherever it stands: it is compiled there."""

DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")

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


Where = tuple[str | int, ...]
"""A place in a schema: the keys and indices that lead there."""


class SchemaRefused(Exception):
    """The schema can't be used; `problem` says why in one line, `where` at which place."""

    def __init__(self, problem: str, where: Where = ()) -> None:
        super().__init__(f"{_pointer(where)}: {problem}" if where else problem)
        self.problem = problem
        self.where = where


def check_schema(root: JsonValue) -> int:
    """Pass if a schema is inside the budgets; how large its patterns are. The caller has bounded its nesting.

    Raises:
        SchemaRefused: the first reason found.
    """
    if root is False:
        raise SchemaRefused("nothing can satisfy the schema `false`")
    if not isinstance(root, dict | bool):
        raise SchemaRefused("a schema is an object")
    walk = _Walk(root)
    walk.size(root, depth=0, where=())
    return walk.patterns


class _Walk:
    """One pass over a schema: counts what it expands to, each reference counted where it is used."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._active: set[str] = set()
        self._sizes: dict[str, int] = {}
        self.patterns = 0

    def size(self, schema: JsonValue, *, depth: int, where: Where) -> int:
        if depth > MAX_DEPTH:
            raise SchemaRefused(f"the schema is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(schema, dict):
            return 1
        self._check_keywords(schema, where=where)
        total = 1
        for place, child in _children(schema):
            total += self.size(child, depth=depth + 1, where=(*where, *place))
        reference = schema.get("$ref")
        if reference is not None:
            total += self._referenced(reference, depth=depth, where=where)
        if total > MAX_EXPANDED:
            raise SchemaRefused(f"the schema expands to more than {MAX_EXPANDED} parts")
        return total

    def _referenced(self, reference: JsonValue, *, depth: int, where: Where) -> int:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaRefused("`$ref` may only point into the same schema (#/...)", (*where, "$ref"))
        if reference in self._active or reference == "#":
            raise SchemaRefused("`$ref` comes back to itself", (*where, "$ref"))
        known = self._sizes.get(reference)
        if known is not None:
            return known
        place = resolve(self._root, reference, (*where, "$ref"))
        self._active.add(reference)
        total = self.size(place, depth=depth + 1, where=tuple(_parts(reference)))
        self._active.discard(reference)
        self._sizes[reference] = total
        return total

    def _check_keywords(self, schema: JsonObject, *, where: Where) -> None:
        for keyword in _REFUSED:
            if keyword in schema:
                raise SchemaRefused(f"`{keyword}` is not supported", (*where, keyword))
        draft = schema.get("$schema")
        if draft is not None and (where or not _is_draft(draft)):
            problem = "`$schema` names no draft that is supported, or stands below the top"
            raise SchemaRefused(problem, (*where, "$schema"))
        if "$id" in schema and where:
            raise SchemaRefused("`$id` may only stand at the top", (*where, "$id"))
        choices = schema.get("enum")
        if isinstance(choices, list) and not 0 < len(choices) <= MAX_ENUM:
            raise SchemaRefused(f"`enum` needs 1 to {MAX_ENUM} values", (*where, "enum"))
        _check_type(schema.get("type"), (*where, "type"))
        _check_satisfiable(schema, where=where)
        for place, pattern in _patterns(schema):
            self._check_pattern(pattern, (*where, *place))

    def _check_pattern(self, pattern: str, where: Where) -> None:
        size = linear_regex.size(pattern)
        if size is None:
            problem = "the pattern is too large or not supported (look-around and back references are not)"
            raise SchemaRefused(problem, where)
        self.patterns += size
        if self.patterns > MAX_PATTERNS:
            raise SchemaRefused("the patterns of the schema are too large together", where)


def _is_draft(draft: JsonValue) -> bool:
    return isinstance(draft, str) and draft.rstrip("#") in DRAFTS


def _children(schema: JsonObject) -> Iterator[tuple[Where, JsonValue]]:
    for keyword in _ONE:
        if isinstance(schema.get(keyword), dict):
            yield (keyword,), schema[keyword]
    for keyword in _LISTS:
        several = schema.get(keyword)
        if isinstance(several, list):
            yield from (((keyword, index), child) for index, child in enumerate(several))
    for keyword in _MAPS:
        named = schema.get(keyword)
        if isinstance(named, dict):
            yield from (((keyword, name), child) for name, child in named.items())


def resolve(root: JsonValue, reference: str, where: Where = ()) -> JsonValue:
    """What a reference `#/...` at a place points at. Raises SchemaRefused if that is nothing."""
    place = root
    for key in _parts(reference):
        if isinstance(place, dict) and key in place:
            place = place[key]
        elif isinstance(place, list) and key.isascii() and key.isdigit() and int(key[:6]) < len(place):
            place = place[int(key[:6])]
        else:
            raise SchemaRefused(f"`$ref` {reference[:80]!r} points at nothing", where)
    return place


def _parts(reference: str) -> list[str]:
    return [raw.replace("~1", "/").replace("~0", "~") for raw in reference[2:].split("/")]


def _pointer(where: Where) -> str:
    return "".join(f"/{str(part)[:64]}" for part in where)


def _check_type(given: JsonValue | None, where: Where) -> None:
    for name in given if isinstance(given, list) else [given]:
        if isinstance(name, str) and name not in TYPES:
            near = difflib.get_close_matches(name[:64], TYPES, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise SchemaRefused(f"`{name[:64]}` is no type; a type is one of {', '.join(TYPES)}{hint}", where)


def _check_satisfiable(schema: JsonObject, *, where: Where) -> None:
    for low, high in _RANGES:
        least, most = schema.get(low), schema.get(high)
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            raise SchemaRefused(f"nothing can satisfy it, `{low}` is above `{high}`", (*where, low))
    required, properties = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(properties, dict):
        closed = schema.get("type") == "object" and not schema.get("patternProperties")
        unnamed = schema.get("additionalProperties") if closed else None
        for name in required:
            if isinstance(name, str) and properties.get(name, unnamed) is False:
                problem = f"nothing can satisfy it, `{name[:64]}` is required and forbidden"
                place = ("properties", name) if name in properties else ("required",)
                raise SchemaRefused(problem, (*where, *place))


def _patterns(schema: JsonObject) -> Iterator[tuple[Where, str]]:
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        yield ("pattern",), pattern
    by_pattern = schema.get("patternProperties")
    if isinstance(by_pattern, dict):
        yield from ((("patternProperties", one), one) for one in by_pattern)
