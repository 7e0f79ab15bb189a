"""JSON that a caller sent, as text in one form: exact, or not taken at all.

A struct is read with its keys in order and whole numbers as integers; what it can't hold exactly is refused.
JSON text is parsed strictly and kept as it was written.
"""

import math

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from jackline_server.api.checks import Checks
from jackline_server.api.limits import LIMITS
from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue

_MOST_WHOLE = 2**53


class _NotExact(ValueError):
    """The struct can't be kept. The message says why."""


def text_of_bytes(checks: Checks, field: str, data: bytes, limit: int) -> str:
    """JSON text as it was sent; notes one that is too long, is not JSON, or holds a NUL."""
    if not checks.size(field, len(data), limit):
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
        text = json_text.write(_object(struct, levels))
    except _NotExact as error:
        checks.fail(field, str(error), "JSON")
        return ""
    return text if checks.size(field, len(text.encode()), limit) else ""


def _object(struct: Struct, levels: int) -> JsonObject:
    if levels == 0:
        raise _NotExact("nested too deep")
    fields = struct.fields
    return {_text(key): _value(fields[key], levels - 1) for key in sorted(fields)}


def _value(value: Value, levels: int) -> JsonValue:
    match value.WhichOneof("kind"):
        case "string_value":
            return _text(value.string_value)
        case "number_value":
            return _number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "struct_value":
            return _object(value.struct_value, levels)
        case "list_value":
            return _list(value.list_value, levels)
        case "null_value":
            return None
        case None:
            raise _NotExact("holds a value without a kind")


def _list(values: ListValue, levels: int) -> JsonValue:
    if levels == 0:
        raise _NotExact("nested too deep")
    return [_value(item, levels - 1) for item in values.values]


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
