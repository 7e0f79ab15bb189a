"""Frozen values: how the core's shapes are declared, and how one is made from another.

Owns a decorator and a function, because a turn of the loop makes some sixty values. A frozen dataclass from
the standard library sets each field through `object.__setattr__`, and copies the same way; these set fields
plainly and copy a `__dict__` at once, which is several times as fast. What that costs is the refusal of an
assignment while the program runs: here the type checker refuses it, for all code there is. In everything else
they are frozen dataclasses with keyword arguments: equality, hash, `repr`, `dataclasses.fields`, `replace`.
"""

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

Value = TypeVar("Value")

_new = object.__new__


@dataclass_transform(frozen_default=True, kw_only_default=True)
def frozen(kind: type[Value]) -> type[Value]:
    """Make a class of annotated fields a dataclass with keyword arguments that nothing may assign to.

    Raises:
        TypeError: the class has slots or `__post_init__`, which a copy would pass by.
    """
    if "__slots__" in vars(kind) or hasattr(kind, "__post_init__"):
        raise TypeError(f"{kind.__name__} has slots or __post_init__")
    made = dataclass(repr=False, eq=False, kw_only=True)(kind)
    for name, method in _METHODS.items():
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
    made.__dict__ = after
    return made


def _equal(self: object, other: object) -> bool:
    return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash(tuple(self.__dict__.values()))


def _repr(self: object) -> str:
    values = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
    return f"{type(self).__qualname__}({values})"


_METHODS = {
    "__eq__": _equal,
    "__hash__": _hash,
    "__repr__": _repr,
}
"""One of each for all classes: compiling them anew for each class takes long at the start of a server."""
