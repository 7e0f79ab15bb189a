"""How many parts of a schema can look at one value: what validation costs at most, for each value.

Owns that bound. Does not own the budgets of a schema by itself (`schema_walk`): they were checked before.

`properties` and tuples share their values out, so of their parts only the largest counts; whatever else
stands side by side looks at the same value, and adds up.
"""

from collections.abc import Iterable, Iterator

from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.expressions.schema_walk import resolve

Levels = list[int]
"""How many parts look at one value, by how far below the schema's own value it is."""

_SAME = ("if", "then", "else", "not")
_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_MAPS = ("dependentSchemas", "dependencies")
_BELOW = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_SHARED_LISTS = ("prefixItems", "items")
_LISTED = 16
"""So many entries of a plain list (an enum, required names) are looked through in the time of one part."""


def overlap(root: JsonValue) -> int:
    """The most parts that look at one value of any document. The schema is one that `check_schema` passes."""
    return max(_Overlap(root).levels(root))


class _Overlap:
    """One pass over a schema; what a reference names is gone through once."""

    def __init__(self, root: JsonValue) -> None:
        self._root = root
        self._known: dict[str, Levels] = {}

    def levels(self, schema: JsonValue) -> Levels:
        if not isinstance(schema, dict):
            return [1]
        below = _added(self.levels(schema[key]) for key in _BELOW if key in schema)
        below = _added((below, *(self.levels(one) for one in _values(schema.get("patternProperties")))))
        below = _added((below, _largest(self.levels(one) for one in _values(schema.get("properties")))))
        for key in _SHARED_LISTS:
            below = _added((below, _largest(self.levels(one) for one in _items(schema.get(key)))))
        return _added(
            ([1 + _listed(schema), *below], *(self.levels(one) for one in _same(schema)), self._named(schema))
        )

    def _named(self, schema: JsonObject) -> Levels:
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return []
        if reference not in self._known:
            self._known[reference] = self.levels(resolve(self._root, reference))
        return self._known[reference]


def _same(schema: JsonObject) -> Iterator[JsonValue]:
    yield from (schema[key] for key in _SAME if key in schema)
    for key in _SAME_LISTS:
        yield from _items(schema.get(key))
    for key in _SAME_MAPS:
        yield from _values(schema.get(key))


def _listed(schema: JsonObject) -> int:
    return sum(len(_items(schema.get(key))) for key in ("enum", "required")) // _LISTED


def _items(value: JsonValue | None) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _values(value: JsonValue | None) -> list[JsonValue]:
    return list(value.values()) if isinstance(value, dict) else []


def _added(several: Iterable[Levels]) -> Levels:
    total: Levels = []
    for levels in several:
        total += [0] * (len(levels) - len(total))
        for index, count in enumerate(levels):
            total[index] += count
    return total


def _largest(several: Iterable[Levels]) -> Levels:
    most: Levels = []
    for levels in several:
        most += [0] * (len(levels) - len(most))
        most = [max(one, levels[index] if index < len(levels) else 0) for index, one in enumerate(most)]
    return most
