"""What goes into an answer: the words, choices or fields that a question wants, said for a person.

Owns reading the form, a JSON Schema that a server sends. Does not own whether an answer fits: the server
says.
"""

import json
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from jackline_client.cli.printable import printable

_MOST_FIELDS = 30
_WORDS = 300
_NAME = 60
_BOOLEAN, _NUMBER = "boolean", "number"
_NO_TEXT = frozenset({_BOOLEAN, "integer", _NUMBER, "null"})
_LIMITS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "{} characters or more"),
    ("maxLength", "{} characters at most"),
    ("minItems", "{} or more"),
    ("maxItems", "{} at most"),
    ("format", "{}"),
    ("pattern", "like {}"),
    ("default", "else {}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A question's form. `lines` say what is wanted; `is_wanted` is False where nothing is."""

    is_wanted: bool
    is_text: bool
    lines: tuple[str, ...]


def form_of(schema_json: bytes) -> Form:
    """The form of a question, whatever it is written as."""
    schema = _object(_read(schema_json))
    if not schema:
        return Form(is_wanted=False, is_text=False, lines=("go on",))
    if "enum" in schema:
        return Form(is_wanted=True, is_text=True, lines=(f"`--text` has {_choices(schema['enum'])}",))
    if schema.get("type") == "string":
        more = _limits(schema)
        words = "`--text` has the answer, in words" + (f": {more}" if more else "")
        return Form(is_wanted=True, is_text=True, lines=(words,))
    return Form(is_wanted=True, is_text=False, lines=tuple(_field_lines(schema)))


def has_other_than_text(pairs: Iterable[str]) -> bool:
    """Whether a field was given, as text, that could stand for a number or for yes or no."""
    plain = (pair.partition("=") for pair in pairs)
    return any(not key.endswith(":") and _is_plain(_read(text.encode())) for key, _, text in plain)


def meaning_in(schema_json: bytes) -> Callable[[str, str], object]:
    """What the text of a field stands for: its number or yes or no where the form takes no text there."""
    fields = _object(_object(_read(schema_json)).get("properties"))

    def meaning(key: str, text: str) -> object:
        value = _read(text.encode())
        return value if _is_plain(value) and _kind(value) in _kinds(_object(fields.get(key))) else text

    return meaning


def _is_plain(value: object) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))


def _kind(value: object) -> str:
    return _BOOLEAN if isinstance(value, bool) else _NUMBER


def _kinds(field: Mapping[str, object]) -> frozenset[str]:
    """`boolean`, `number`, `null`: what a field takes; nothing if a text may be meant, or nobody can tell."""
    alternatives = field.get("anyOf", field.get("oneOf"))
    if isinstance(alternatives, list):
        each = [_object(one) for one in cast("list[object]", alternatives)]
        found = [one.get("type") for one in each]
    else:
        own = field.get("type")
        found = cast("list[object]", own) if isinstance(own, list) else [own]
    if not set(map(str, found)) <= _NO_TEXT:
        return frozenset()
    return frozenset(_NUMBER if kind == "integer" else str(kind) for kind in found)


def hints(pairs: Iterable[str], problem: str, schema_json: bytes = b"") -> Iterator[str]:
    """What to write instead of fields that gave a text where the form wants another type."""
    fields = _object(_object(_read(schema_json)).get("properties"))
    for pair in pairs:
        key, _, text = pair.partition("=")
        if f"/{key}:" not in problem or " type " not in problem:
            continue
        shown = printable(key, limit=_NAME)
        if not isinstance(_read(text.encode()), str | None):
            typed = shlex.quote(printable(f"{key}:={text}", limit=_WORDS))
            yield f"{shown}= gives a text; write -f {typed}"
        elif _BOOLEAN in (kinds := _kinds(_object(fields.get(key)))) and _NUMBER not in kinds:
            yes, no = (shlex.quote(printable(f"{key}={word}", limit=_WORDS)) for word in ("true", "false"))
            yield f"{shown} is a yes or no; write -f {yes} or -f {no}"


def _field_lines(schema: Mapping[str, object]) -> Iterator[str]:
    fields = _object(schema.get("properties"))
    required = schema.get("required")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    if not fields:
        yield "`--text` has the answer, as a JSON object"
        return
    yield "give each field as `-f NAME=VALUE` or `-f NAME:=JSON`; those with * have to be there:"
    for name, field in list(fields.items())[:_MOST_FIELDS]:
        described = _object(field)
        star = "*" if name in needed else ""
        details = ", ".join(part for part in (_type(described), _limits(described)) if part)
        words = described.get("description", described.get("title"))
        meaning = f": {printable(words, limit=_WORDS)}" if isinstance(words, str) and words else ""
        yield f"  {printable(name, limit=_NAME)}{star} ({details}){meaning}"
    if len(fields) > _MOST_FIELDS:
        yield f"  and {len(fields) - _MOST_FIELDS} more"


def _type(field: Mapping[str, object]) -> str:
    if "const" in field:
        return f"always {_value(field['const'])}"
    if "enum" in field:
        return _choices(field["enum"])
    alternatives = field.get("anyOf", field.get("oneOf"))
    if isinstance(alternatives, list):
        return " or ".join(_type(_object(one)) for one in cast("list[object]", alternatives)[:8])
    items = _object(field.get("items"))
    found = field.get("type", "any value")
    kinds = cast("list[object]", found) if isinstance(found, list) else [found]
    words = " or ".join(_plain(kind) for kind in kinds)
    return f"{words} of {_type(items)}" if items and "array" in kinds else words


def _limits(field: Mapping[str, object]) -> str:
    return ", ".join(words.format(_plain(field[key])) for key, words in _LIMITS if key in field)


def _choices(choices: object) -> str:
    if not isinstance(choices, list):
        return "any value"
    return "one of: " + printable(", ".join(map(_plain, cast("list[object]", choices))), limit=2 * _WORDS)


def _plain(value: object) -> str:
    return printable(value, limit=_WORDS) if isinstance(value, str) else _value(value)


def _value(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False), limit=_WORDS)


def _object(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _read(data: bytes) -> object:
    try:
        return json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
