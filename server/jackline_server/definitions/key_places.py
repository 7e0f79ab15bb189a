"""Where in a workflow file a key belongs that stands in the wrong place.

Owns the search through the shapes and its words. Looks at the top, in each kind of step, and in the mappings
right below these; does not own what is said of a key that is nowhere (`reading`).
"""

import typing

from pydantic import BaseModel

from jackline_server.definitions.shapes import KINDS, Shape, WorkflowShape
from jackline_server.definitions.yaml_nodes import Path

_IN_STEP = 2
"""`steps` and the step's name: so long is the path of a step."""


def keys(shape: type[BaseModel]) -> dict[str, object]:
    """The keys of a shape as they are written, each with the type of its value."""
    return {field.alias or name: field.annotation for name, field in shape.model_fields.items()}


def shape_in(annotation: object) -> type[Shape] | None:
    """The shape that a value of this type is, or holds."""
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return annotation
    for inner in typing.get_args(annotation):
        if (found := shape_in(inner)) is not None:
            return found
    return None


def elsewhere(path: Path) -> str:
    """The hint where the last key of the path belongs, or nothing if no shape near the path has it."""
    key = str(path[-1])
    inner = path[_IN_STEP:-1] if path[:1] == ("steps",) else path[:-1]
    parent = next((part for part in inner if isinstance(part, str)), "")
    hint = _below(key, parent) if parent else ""
    hint = hint or _outright(key, of_step=path[:1] == ("steps",))
    return hint or next((found for name in _PARENTS if (found := _below(key, name))), "")


_PARENTS = ("bounds", "outcome")
"""The mappings whose keys are also looked for from outside them."""


def _outright(key: str, *, of_step: bool) -> str:
    kinds = [kind for kind, shape in KINDS.items() if key in keys(shape)]
    hints = [
        f"; {_listed(kinds)} steps have it" if kinds else "",
        "; it stands at the top of the file" if key in keys(WorkflowShape) else "",
    ]
    return next((hint for hint in (hints if of_step else reversed(hints)) if hint), "")


def _below(key: str, parent: str) -> str:
    """The hint for a key of the mappings of that name."""
    kinds = [kind for kind, shape in KINDS.items() if _has(shape, parent, key)]
    if kinds:
        return f"; it stands in `{parent}` of {_listed(kinds)} steps"
    return f"; it stands in `{parent}` at the top of the file" if _has(WorkflowShape, parent, key) else ""


def _has(shape: type[Shape], parent: str, key: str) -> bool:
    below = shape_in(keys(shape).get(parent))
    return below is not None and key in keys(below)


def _listed(kinds: list[str]) -> str:
    *most, last = kinds
    return f"{', '.join(most)} and {last}" if most else last
