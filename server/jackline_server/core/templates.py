"""Texts with `{{ name }}` in them, and nothing more: no logic, no defaults, no filters.

Owns parsing and rendering. Does not own how a value is encoded for where it stands (URL component, header,
JSON), or which names exist: callers bring both.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from jackline_server.core.plan import JsonValue

_OPEN, _CLOSE = "{{", "}}"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class TemplateError(ValueError):
    """A template is malformed, or a name in it has no value."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Name:
    """A place for the value of that name."""

    name: str


Part = Literal | Name


def parse(text: str) -> tuple[Part, ...]:
    """Split a text into literals and names, in order; no literal is empty.

    Raises:
        TemplateError: braces that don't pair, or something between them that is not a name.
    """
    parts: list[Part] = []
    rest = text
    while rest:
        literal, opened, after = rest.partition(_OPEN)
        if _CLOSE in literal:
            raise TemplateError("`}}` without `{{`")
        if literal:
            parts.append(Literal(literal))
        if not opened:
            break
        inner, closed, rest = after.partition(_CLOSE)
        if not closed:
            raise TemplateError("`{{` without `}}`")
        name = inner.strip(" ")
        if not _NAME.fullmatch(name):
            raise TemplateError("between `{{` and `}}` stands one name and nothing else")
        parts.append(Name(name))
    return tuple(parts)


def names(text: str) -> tuple[str, ...]:
    """The names of a text, in order, each once. Raises TemplateError."""
    return tuple(dict.fromkeys(part.name for part in parse(text) if isinstance(part, Name)))


def names_in(value: JsonValue) -> tuple[str, ...]:
    """The names of all strings inside a JSON value; keys are no templates. Raises TemplateError."""
    return tuple(dict.fromkeys(name for text in _strings(value) for name in names(text)))


def sole_name(text: str) -> str | None:
    """The name, if the whole text is one template: its value can then keep its JSON type."""
    parts = parse(text)
    return parts[0].name if len(parts) == 1 and isinstance(parts[0], Name) else None


def render(text: str, values: Mapping[str, JsonValue], encode: Callable[[JsonValue], str]) -> str:
    """Put encoded values in the places of their names. Values are never templates themselves.

    Raises:
        TemplateError: the text is malformed or a name has no value; and whatever `encode` raises.
    """
    return "".join(_rendered(part, values, encode) for part in parse(text))


def _rendered(part: Part, values: Mapping[str, JsonValue], encode: Callable[[JsonValue], str]) -> str:
    if isinstance(part, Literal):
        return part.text
    if part.name not in values:
        raise TemplateError(f"`{part.name}` has no value")
    return encode(values[part.name])


def _strings(value: JsonValue) -> Iterator[str]:
    pending = [value]
    while pending:
        match pending.pop():
            case str() as text:
                yield text
            case dict() as mapping:
                pending.extend(reversed(mapping.values()))
            case list() as items:
                pending.extend(reversed(items))
            case _:
                pass
