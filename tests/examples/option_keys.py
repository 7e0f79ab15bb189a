"""The keys of a workflow file: all that there are, and which of them a place in a workflow is.

Owns the names of keys here: `Shape.key`, after the shapes that read the file.
"""

import inspect
import typing
from collections.abc import Iterator
from typing import Any, cast

from jackline_server.definitions import shapes
from jackline_server.definitions.shapes import KINDS, PolicyShape, Shape, WorkflowShape

Where = tuple[str | int, ...]


def all_keys() -> set[str]:
    """Every key that a workflow file can have."""
    kinds = [one for one in vars(shapes).values() if inspect.isclass(one) and issubclass(one, Shape)]
    return {
        named(kind, alias) for kind in kinds if kind not in (Shape, PolicyShape) for alias in _aliases(kind)
    }


def all_values() -> set[tuple[str, object]]:
    """Every value of a key that has a closed set of them."""
    kinds = [one for one in vars(shapes).values() if inspect.isclass(one) and issubclass(one, Shape)]
    return {
        (named(kind, field.alias or name), value)
        for kind in kinds
        if kind not in (Shape, PolicyShape)
        for name, field in kind.model_fields.items()
        for value in _closed(field.annotation)
    }


def values_at(workflow: dict[str, Any], where: Where) -> Iterator[object]:
    """The plain values that stand at a place: itself, or the members of its list."""
    value: Any = workflow
    for part in where:
        value = value[part]
    for one in cast("list[object]", value if isinstance(value, list) else [value]):
        if not isinstance(one, dict | list):
            yield one


def key_at(workflow: dict[str, Any], where: Where) -> str:
    """The key that stands at a place of a workflow, or that the place is inside of. Raises KeyError."""
    kind: type[Shape] | None = WorkflowShape
    value: Any = workflow
    found = ""
    for part in where:
        value = value[part]
        if isinstance(part, int) or kind is None:
            continue
        if found == "Workflow.steps":
            kind, found = KINDS[value["kind"]], found + "."
            continue
        found = named(kind, part)
        kind = kind if found == "Workflow.steps" else _inside(kind, part, value)
    return found.removesuffix(".")


def named(kind: type[Shape], alias: str) -> str:
    """A key by the shape that declares it; what tools and their steps share, by each of the two."""
    field = next(name for name, one in kind.model_fields.items() if (one.alias or name) == alias)
    line = [
        one
        for one in kind.__mro__
        if issubclass(one, Shape) and field in vars(one).get("__annotations__", {})
    ]
    owner = line[-1]
    if owner is PolicyShape:
        owner = shapes.ToolShape if issubclass(kind, shapes.ToolShape) else shapes.ToolStepShape
    return f"{owner.__name__.removesuffix('Shape')}.{alias}"


def _aliases(kind: type[Shape]) -> Iterator[str]:
    yield from (field.alias or name for name, field in kind.model_fields.items())


def _inside(kind: type[Shape], alias: str, value: object) -> type[Shape] | None:
    """The shape of what stands under a key, where it is a mapping or a list of some."""
    field = next(one for name, one in kind.model_fields.items() if (one.alias or name) == alias)
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    sample = listed[0] if listed else None
    if not isinstance(sample, dict):
        return None
    written = set(cast("dict[str, object]", sample))
    return next((choice for choice in _shapes_in(field.annotation) if written <= set(_aliases(choice))), None)


def _closed(annotation: object) -> Iterator[object]:
    if typing.get_origin(annotation) is typing.Literal:
        yield from typing.get_args(annotation)
    else:
        for inner in typing.get_args(annotation):
            yield from _closed(inner)


def _shapes_in(annotation: object) -> Iterator[type[Shape]]:
    if inspect.isclass(annotation) and issubclass(annotation, Shape):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _shapes_in(inner)
