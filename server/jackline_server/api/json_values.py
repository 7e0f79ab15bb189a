"""JSON that a caller sent, as text in one form: exact, or not taken at all.

A struct is read with its keys in order and whole numbers as integers; what it can't hold exactly is refused.
JSON text is parsed strictly and kept as it was written. Both are counted before they are read: so many values
take some 30 ms, and what is done with them later as much again.
"""

import math

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from jackline_server.api.checks import Checks
from jackline_server.api.limits import LIMITS
from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue

_MOST_WHOLE = 2**53
_TOO_MANY = f"has more than {LIMITS.json_values_count} values and keys"


class _NotExact(ValueError):
    """The struct can't be kept. The message says why."""


def text_of_bytes(checks: Checks, field: str, data: bytes, limit: int) -> str:
    """JSON text as it was sent; notes one that is too long, is not JSON, or holds a NUL."""
    if not checks.size(field, len(data), limit):
        return ""
    if has_too_many_values(data):
        checks.fail(field, _TOO_MANY, "TOO_MANY")
        return ""
    try:
        value = json_text.parse(data)
    except json_text.JsonError as error:
        checks.fail(field, f"not JSON that can be taken: {error}", "JSON")
        return ""
    if b"\\u0000" in data and _holds_nul(value):
        checks.fail(field, "a string holds a NUL character", "NUL")
    return data.decode()


def text_of_struct(checks: Checks, field: str, struct: Struct, *, limit: int, levels: int) -> str:
    """The struct as JSON text; notes one that is too long or too deep, or that holds what JSON can't."""
    try:
        text = json_text.write(_Reading().object(struct, levels))
    except _NotExact as error:
        checks.fail(field, str(error), "JSON")
        return ""
    return text if checks.size(field, len(text.encode()), limit) else ""


def has_too_many_values(data: bytes) -> bool:
    """True if JSON text holds more values and keys than are read. Cheap, also for bytes that are no JSON."""
    if _marks(data) <= LIMITS.json_values_count:
        return False
    # The marks may stand in strings. Outside of strings every value but the first has one before it.
    bare = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    return _marks(bare) > LIMITS.json_values_count


def _marks(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{") + data.count(b":")


class _Reading:
    """One pass over a struct, counting what it has seen before it looks at it."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = LIMITS.json_values_count

    def object(self, struct: Struct, levels: int) -> JsonObject:
        fields = struct.fields
        self._take(2 * len(fields), levels)
        return {_text(key): self._value(fields[key], levels - 1) for key in sorted(fields)}

    def _list(self, values: ListValue, levels: int) -> JsonValue:
        self._take(len(values.values), levels)
        return [self._value(item, levels - 1) for item in values.values]

    def _take(self, count: int, levels: int) -> None:
        if levels == 0:
            raise _NotExact("nested too deep")
        self._left -= count
        if self._left < 0:
            raise _NotExact(_TOO_MANY)

    def _value(self, value: Value, levels: int) -> JsonValue:
        match value.WhichOneof("kind"):
            case "string_value":
                return _text(value.string_value)
            case "number_value":
                return _number(value.number_value)
            case "bool_value":
                return value.bool_value
            case "struct_value":
                return self.object(value.struct_value, levels)
            case "list_value":
                return self._list(value.list_value, levels)
            case "null_value":
                return None
            case None:
                raise _NotExact("holds a value without a kind")


def _number(number: float) -> JsonValue:
    if not math.isfinite(number):
        raise _NotExact("holds a number that is not finite")
    if not number.is_integer():
        return number
    if abs(number) > _MOST_WHOLE:
        raise _NotExact("holds a whole number beyond 2^53; send it as JSON text")
    return int(number)


def _text(text: str) -> str:
    if "\0" in text:
        raise _NotExact("holds a NUL character")
    return text


def _holds_nul(value: JsonValue) -> bool:
    match value:
        case str():
            return "\0" in value
        case list():
            return any(_holds_nul(item) for item in value)
        case dict():
            return any("\0" in key or _holds_nul(item) for key, item in value.items())
        case _:
            return False


EMPTY_OBJECT = "{}"
MOST_LEVELS = LIMITS.json_levels
