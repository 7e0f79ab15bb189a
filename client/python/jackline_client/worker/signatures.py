"""The JSON Schema of a function's parameters, from its signature, for the types that JSON has.

Owns what a signature says: names, defaults and plain types. Whoever needs more gives the schema. Needs
nothing but the standard library.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from jackline_client.worker.calls import Call

_PLAIN: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def call_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter that takes the call itself, if any. Raises TypeError for hints that name nothing."""
    hints = _hints(function)
    return next((name for name in inspect.signature(function).parameters if hints.get(name) is Call), None)


def parameters_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The schema of the arguments. Raises TypeError: a parameter has no type, or one that JSON has not."""
    hints = _hints(function)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if hints.get(name) is Call:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: {name!r} can't be given by name; give `parameters`")
        if name not in hints:
            raise TypeError(f"{function.__name__}: {name!r} has no type; add one, or give `parameters`")
        properties[name] = _schema(hints[name], f"{function.__name__}: {name!r}")
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError as error:
        raise TypeError(f"{function.__name__}: a type hint names nothing: {error}") from None


def _schema(hint: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 - a type hint is anything
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if hint is Any:
        return {}
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, types.UnionType):
        return _union(inside, where)
    if hint is list or origin is list:
        return {"type": "array", "items": _schema(inside[0], where) if inside else {}}
    if hint is dict or origin is dict:
        return {"type": "object", "additionalProperties": _schema(inside[1], where) if inside else True}
    raise TypeError(f"{where} has a type that JSON has not; give `parameters`")


def _union(members: tuple[Any, ...], where: str) -> dict[str, Any]:
    schemas = [_schema(one, where) for one in members if one is not types.NoneType]
    if types.NoneType in members:
        schemas.append({"type": "null"})
    return {"anyOf": schemas}
