"""JSON as text and back, strictly: what a model, a tool or a caller wrote is never trusted to be sane.

Owns parsing with limits and the one way values are written. A value that came out of `parse` can be
written again, fits in protobuf and in a database: no NaN, no infinity, no lone surrogate.
"""

import json
import math
from typing import NoReturn, cast

from jackline_server.core.plan import JsonObject, JsonValue

MAX_DEPTH = 100


class JsonError(ValueError):
    """The text is not JSON that can be kept. The message is for a person or a model."""


def parse(text: str | bytes) -> JsonValue:
    """Read one JSON value.

    Raises:
        JsonError: not JSON, over 100 levels deep, a number without a finite value, or a duplicate key.
    """
    try:
        text = text if isinstance(text, str) else text.decode()
        value = cast(JsonValue, _DECODER.decode(text))
    except RecursionError:
        raise JsonError(f"nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeDecodeError:
        raise JsonError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"{error.msg} at line {error.lineno} column {error.colno}") from None
    except ValueError as error:
        raise JsonError(str(error)) from None
    return value if _surely_sane(text) else _sane(value, MAX_DEPTH)


def parse_object(text: str | bytes) -> JsonObject:
    """Read one JSON object. Raises JsonError, also if it is another kind of value."""
    value = parse(text)
    if not isinstance(value, dict):
        raise JsonError("not a JSON object")
    return value


def write(value: JsonValue) -> str:
    """The compact text of a value that came from `parse` or from code."""
    return _ENCODER.encode(value)


def canonical(value: JsonValue) -> str:
    """The same text for equal objects, whatever the order of their keys."""
    return _CANONICAL.encode(value)


def clean(text: str) -> str:
    """The text with lone surrogates replaced, so that it can be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _refuse(name: str) -> NoReturn:
    raise JsonError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonError("a number is too large")
    return number


def _whole(text: str) -> int:
    _finite(text)  # a whole number that no double reaches fits neither protobuf nor CEL
    return int(text)


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = {clean(key): value for key, value in pairs}
    if len(found) < len(pairs):
        raise JsonError("an object has the same key twice")
    return found


def _surely_sane(text: str) -> bool:
    """True if a look at the text shows that its value is sane; most are, and need no walk."""
    if not text.isascii() or "\\u" in text:
        return False
    return text.count("{") + text.count("[") <= MAX_DEPTH


def _sane(value: JsonValue, depth: int) -> JsonValue:
    match value:
        case str():
            return clean(value)
        case list():
            _descend(depth)
            return [_sane(item, depth - 1) for item in value]
        case dict():
            _descend(depth)
            return {key: _sane(item, depth - 1) for key, item in value.items()}
        case _:
            return value


def _descend(depth: int) -> None:
    if depth == 0:
        raise JsonError(f"nested more than {MAX_DEPTH} levels deep")


# Made once: the module's own functions make a new one for every call with settings.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, parse_int=_whole, object_pairs_hook=_unique
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_CANONICAL = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True)
