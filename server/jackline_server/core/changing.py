"""Changing a frozen value: the same value with some fields replaced.

Owns one function, because the fold does this several times a fact and `dataclasses.replace` goes through the
constructor each time. For slotted dataclasses without `__post_init__`, which all of the state's are.
"""

from typing import Any, TypeVar

Value = TypeVar("Value")

_slots: dict[type, tuple[tuple[str, Any, Any], ...]] = {}
"""By class: each slot's name, getter and setter. The setter of a slot goes past `frozen`."""


def change(value: Value, **fields: object) -> Value:
    """A copy of `value` with these fields; the value itself is left as it is.

    Raises:
        TypeError: the value has no such field.
    """
    kind = type(value)
    slots = _slots.get(kind)
    if slots is None:
        slots = _slots[kind] = _slots_of(kind)
    made = object.__new__(kind)
    taken = 0
    for name, read, write in slots:
        if name in fields:
            write(made, fields[name])
            taken += 1
        else:
            write(made, read(value))
    if taken != len(fields):
        raise TypeError(f"{kind.__name__} lacks one of these fields: {', '.join(fields)}")
    return made


def _slots_of(kind: type) -> tuple[tuple[str, Any, Any], ...]:
    names: tuple[str, ...] = getattr(kind, "__slots__")  # noqa: B009 - not every type has it
    return tuple((name, getattr(kind, name).__get__, getattr(kind, name).__set__) for name in names)
