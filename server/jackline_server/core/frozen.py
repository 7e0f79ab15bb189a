"""Frozen values: how the core's shapes are declared, and how one is made from another.

Owns a decorator and a function, because a turn of the loop makes some sixty values. A frozen dataclass from
the standard library sets each field through `object.__setattr__`, and copies the same way; these give the new
value its whole `__dict__` at once, which is several times as fast. In everything else they are frozen
dataclasses with keyword arguments: equality, hash, `repr`, `dataclasses.fields` and `replace`, and no
assignment.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, fields
from typing import Any, NoReturn, TypeVar, dataclass_transform

Value = TypeVar("Value")

_new = object.__new__
_set = object.__setattr__


@dataclass_transform(frozen_default=True, kw_only_default=True)
def frozen(kind: type[Value]) -> type[Value]:
    """Make a class of annotated fields a frozen dataclass whose arguments are keywords.

    Raises:
        TypeError: the class has slots or `__post_init__`, which a copy would pass by, or a `default_factory`.
    """
    if "__slots__" in vars(kind) or hasattr(kind, "__post_init__"):
        raise TypeError(f"{kind.__name__} has slots or __post_init__")
    made = dataclass(init=False, repr=False, eq=False, kw_only=True)(kind)
    for name, method in (("__init__", _constructor(made)), *_METHODS.items()):
        if name not in vars(kind):
            setattr(made, name, method)
    return made


def change(value: Value, **changed: object) -> Value:
    """A copy of a frozen value with these fields; the value itself is left as it is.

    Raises:
        TypeError: the value has no such field.
    """
    before = value.__dict__
    after = before | changed
    if len(after) != len(before):
        raise TypeError(f"{type(value).__name__} lacks one of these fields: {', '.join(changed)}")
    made = _new(type(value))
    _set(made, "__dict__", after)
    return made


def _constructor(kind: type[Any]) -> Callable[..., None]:
    """`__init__` of these fields, compiled: the one place where a name becomes code."""
    own = [field for field in fields(kind) if field.init]
    known: dict[str, Any] = {"_set": _set, **{f"_{field.name}": _default(field) for field in own}}
    arguments = ", ".join(
        field.name if known[f"_{field.name}"] is MISSING else f"{field.name}=_{field.name}" for field in own
    )
    items = ", ".join(f"{field.name!r}: {field.name}" for field in own)
    source = f"def __init__(self, *, {arguments}):\n    _set(self, '__dict__', {{{items}}})\n"
    if not own:
        source = "def __init__(self):\n    pass\n"
    exec(source, known)  # noqa: S102 - the names are those of a class's own annotations
    made = known["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"
    made.__module__ = kind.__module__
    return made


def _default(field: Field[Any]) -> object:
    """The field's default. A factory is refused: a frozen value shares its defaults."""
    if field.default_factory is not MISSING:
        raise TypeError(f"the field {field.name} has a default_factory; give it a frozen default")
    return field.default


def _equal(self: object, other: object) -> bool:
    return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash(tuple(self.__dict__.values()))


def _repr(self: object) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({values})"


def _refuse_set(self: object, name: str, _value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _refuse_set,
    "__delattr__": _refuse_delete,
}
"""One of each for all classes: compiling them anew for each class takes long at the start of a server."""
