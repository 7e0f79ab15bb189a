"""The shared context of a run: a JSON object that steps read by pointer and write by key.

Owns JSON pointers (RFC 6901) and what a step sees as its input. Keys that begin with `_` are the
engine's own and private.
"""

import re
from collections.abc import Mapping

from jackline_server.core.plan import JsonObject, JsonValue

LAST_ERROR = "_last_error"
LAST_ERROR_TYPE = "_last_error_type"

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")

Context = Mapping[str, JsonValue]


class PointerError(LookupError):
    """The pointer leads nowhere."""


def resolve(context: Context, pointer: str) -> JsonValue:
    """The value that a JSON pointer leads to. Raises PointerError."""
    if pointer and not pointer.startswith("/"):
        raise PointerError(pointer)
    value: JsonValue = dict(context)
    for token in pointer.split("/")[1:]:
        value = _child(value, token.replace("~1", "/").replace("~0", "~"))
    return value


def _child(value: JsonValue, key: str) -> JsonValue:
    match value:
        case dict() if key in value:
            return value[key]
        case list() if _INDEX.fullmatch(key) and int(key) < len(value):
            return value[int(key)]
        case _:
            raise PointerError(key)


def select(context: Context, pointers: Mapping[str, str]) -> JsonObject:
    """A value for each pointer that leads somewhere; the others are left out."""
    selected: JsonObject = {}
    for name, pointer in pointers.items():
        try:
            selected[name] = resolve(context, pointer)
        except PointerError:
            continue
    return selected


def step_input(context: Context, pointers: Mapping[str, str] | None) -> JsonObject:
    """What a step sees: the selected values, or the whole public context."""
    if pointers is None:
        return public(context)
    return select(context, pointers)


def public(context: Context) -> JsonObject:
    """The context without the engine's own keys."""
    return {key: value for key, value in context.items() if not key.startswith("_")}
