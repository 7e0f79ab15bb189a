"""What a tool returned, made fit to keep: cleaned text, bounded JSON, bounded errors.

Owns the caps. A result that leaves here has no lone surrogate, no control character but tab and line ends,
no number without a value, and no more JSON than goes into the log (`runtime.driving.cut_results`).
"""

import dataclasses
import re
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import cast
from uuid import UUID

from pydantic import BaseModel

from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.driving.cut_results import cut, is_long
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult

HARD_BYTES = 8 * 1024 * 1024
"""The longest output that is looked at, whatever its kind."""

ERROR_CHARS = 2_000

_MOST_MARKS = 50_000
_MAX_DEPTH = 64
_MAX_NODES = 200_000
_MAX_INTEGER = 2**64
_SMALL_NODES = 64
_SMALL_CHARS = 4_096
_PLAIN = (bool, int, float)
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNWANTED_CHARS = [one for one in map(chr, range(0xA0)) if _UNWANTED.match(one)]
_SPELLED = (datetime, date, time, Decimal, UUID)


class NotJson(ValueError):
    """A value can't be kept as JSON. The message names its type or the limit, never the value."""


def clean_text(text: str) -> str:
    """The text with lone surrogates and control characters replaced by U+FFFD; tab, LF and CR stay."""
    if text.isascii() and text.isprintable():
        return text
    text = json_text.clean(text)
    if _UNWANTED.search(text):
        # One by one: an expression that replaces millions of them lets nobody else run for seconds.
        for one in _UNWANTED_CHARS:
            text = text.replace(one, "\N{REPLACEMENT CHARACTER}")
    return text


def completed(value: JsonValue) -> ToolResult:
    """A result that holds the value; of one whose JSON is over the cap, the beginning and the end.

    `whole` is then its text: the value itself if it is one, else its JSON.

    `value` must come from `to_json` or `json_text.parse`.
    """
    text = json_text.write(value)
    if not is_long(text):
        return ToolResult(ending=ToolEnding.COMPLETED, output_json=text)
    return cut(value if isinstance(value, str) else text)


def is_dense(data: bytes) -> bool:
    """True if JSON text may hold so many values that reading it would keep everybody waiting.

    Cheap: it counts what stands between values. Such an answer is kept as text.
    """
    return sum(data.count(mark) for mark in (b",", b"[", b"{", b":")) > _MOST_MARKS


def failed(
    message: str,
    *,
    uncertain: bool = False,
    may_pass: bool = False,
    retry_after_ms: int | None = None,
    timed_out: bool = False,
    connection_failed: bool | str = False,
) -> ToolResult:
    """A result without output. `uncertain` says that the tool may have acted all the same.

    `connection_failed` says that it is the connection that failed, for the reason of the message, or in words
    of its own: where the message repeats what was answered. The others are those of `ToolResult`.
    """
    return ToolResult(
        ending=ToolEnding.UNCERTAIN if uncertain else ToolEnding.FAILED,
        error=shortened(clean_text(message)),
        may_pass=may_pass,
        retry_after_ms=retry_after_ms,
        timed_out=timed_out,
        connection_problem=message if connection_failed is True else connection_failed or "",
    )


def shortened(text: str) -> str:
    """At most `ERROR_CHARS` of the text, with the true length where it was cut."""
    if len(text) <= ERROR_CHARS:
        return text
    return f"{text[:ERROR_CHARS]}… ({len(text)} characters)"


def to_json(value: object) -> JsonValue:
    """Turn what a Python function returned into JSON values, cleaned.

    Takes plain JSON values, tuples, dataclasses, pydantic models, enums, dates, UUIDs and decimals, by their
    exact types: nothing else is asked to show itself.

    Raises:
        NotJson: another type, a cycle or over 64 levels, over 200,000 values, a number that JSON has not.
    """
    return _Walk().value(value, _MAX_DEPTH)


def is_small(value: object) -> bool:
    """True for plain JSON of so few values and so little text that a thread would cost more than it saves."""
    nodes, chars = _SMALL_NODES, _SMALL_CHARS
    waiting = [value]
    while waiting:
        found = waiting.pop()
        kind = type(found)
        nodes -= 1
        if kind is str:
            chars -= len(cast(str, found))
        elif kind is dict or kind is list:
            inside = cast("dict[object, object] | list[object]", found)
            if len(inside) > nodes:  # asked before anything in it: it may be huge
                return False
            waiting.extend(inside)
            if isinstance(inside, dict):
                waiting.extend(inside.values())
        elif found is not None and kind not in _PLAIN:
            return False
        if nodes < 0 or chars < 0:
            return False
    return True


class _Walk:
    """One pass over a value, counting what it has seen."""

    __slots__ = ("_bytes", "_nodes")

    def __init__(self) -> None:
        self._nodes = 0
        self._bytes = 0

    def value(self, value: object, depth: int) -> JsonValue:
        self._count(depth)
        kind = type(value)
        if value is None or kind is bool:
            return cast(JsonValue, value)
        if kind is str:
            return self._text(cast(str, value))
        if kind is int or kind is float:
            return _number(cast("int | float", value))
        if kind is dict:
            return self._object(cast("dict[object, object]", value), depth)
        if kind is list or kind is tuple:
            return [self.value(item, depth - 1) for item in cast("Sequence[object]", value)]
        return self._other(value, depth)

    def _other(self, value: object, depth: int) -> JsonValue:
        if isinstance(value, Enum):
            return self.value(value.value, depth - 1)
        if type(value) in _SPELLED:
            return self._text(value.isoformat() if isinstance(value, date | time) else str(value))
        if isinstance(value, BaseModel):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            return self._object(cast("dict[object, object]", fields), depth)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object(
                {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, depth
            )
        raise NotJson(f"a value of type {type(value).__name__} is not JSON")

    def _object(self, fields: dict[object, object], depth: int) -> JsonValue:
        made: dict[str, JsonValue] = {}
        for key, value in fields.items():
            if type(key) is not str:
                raise NotJson(f"a key of type {type(key).__name__} is not JSON")
            made[self._text(key)] = self.value(value, depth - 1)
        return made

    def _text(self, text: str) -> str:
        self._bytes += len(text)
        if self._bytes > HARD_BYTES:
            raise NotJson(f"more than {HARD_BYTES} characters")
        return clean_text(text)

    def _count(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise NotJson(f"more than {_MAX_NODES} values")
        if depth <= 0:
            raise NotJson(f"nested more than {_MAX_DEPTH} levels deep, or in itself")


def clean_json(value: JsonValue) -> JsonValue:
    """A parsed JSON value with its texts cleaned. `value` is at most as deep as `json_text` lets it be."""
    match value:
        case str():
            return clean_text(value)
        case list():
            return [clean_json(item) for item in value]
        case dict():
            return {clean_text(key): clean_json(item) for key, item in value.items()}
        case _:
            return value


def _number(value: float) -> int | float:
    if isinstance(value, float) and not isfinite(value):
        raise NotJson("a number without a finite value is not JSON")
    if isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
        raise NotJson("an integer of more than 64 bits")
    return value
