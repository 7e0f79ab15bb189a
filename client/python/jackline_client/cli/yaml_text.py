"""Values of JSON as YAML for people to read, in printable ASCII.

Owns a small, strict subset of YAML that versions 1.1 and 1.2 read alike: block mappings and lists, plain
words where no reader could take them for anything else, literal blocks for texts of several lines, and JSON's
quotes for the rest. Does not read YAML.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from jackline_client.cli.quoting import quoted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./@-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "inf", "nan"})
_LITERAL = re.compile(r"[!-~][ -~]*(?:\n(?:[ -~]*[!-~])?)+[ -~]*")
"""Texts that a literal block holds unchanged: visible ASCII, no tab, no leading space, no space at an end."""
_LONGEST_KEY = 120
_STEP = "  "


def yaml_text(value: object) -> str:
    """Encodes a value that JSON could hold; ends with a newline. Raises TypeError for any other."""
    lines = (quoted(value),) if isinstance(value, str) else _lines(value)
    return "".join(f"{line}\n" for line in lines)


def _lines(value: object) -> Iterator[str]:
    match value:
        case Mapping() if value:
            for key, item in cast("Mapping[str, object]", value).items():
                yield from _entry(key, item)
        case str():
            yield from _text(value)
        case Sequence() if value:
            for item in cast("Sequence[object]", value):
                first, *rest = _lines(item)
                yield f"- {first}"
                yield from (_indented(line) for line in rest)
        case _:
            yield _scalar(value)


def _entry(key: str, item: object) -> Iterator[str]:
    name = _word(key)
    if len(name) > _LONGEST_KEY:
        # A reader need not look further than 1,024 characters for the colon of a key.
        yield f"? {name}"
        first, *rest = _lines(item)
        yield f": {first}"
        yield from (_indented(line) for line in rest)
        return
    first, *rest = _lines(item)
    if _is_block(item):
        yield f"{name}:"
        yield from (_indented(line) for line in (first, *rest))
    else:
        yield f"{name}: {first}"
        yield from (_indented(line) for line in rest)


def _is_block(item: object) -> bool:
    return isinstance(item, Mapping | Sequence) and not isinstance(item, str) and item not in ({}, [], ())


def _indented(line: str) -> str:
    return f"{_STEP}{line}" if line else line


def _text(text: str) -> Iterator[str]:
    """A text, as a literal block where that keeps it as it is; whoever holds it indents all but its head."""
    if _LITERAL.fullmatch(text) is None:
        yield _word(text)
        return
    body, newlines = text.rstrip("\n"), len(text) - len(text.rstrip("\n"))
    if "\n" not in body or newlines > 1:
        yield quoted(text)
        return
    yield "|" if newlines else "|-"
    yield from body.split("\n")


def _word(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return quoted(text)


def _scalar(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case Mapping():
            return "{}"
        case Sequence():
            return "[]"
        case _:
            raise TypeError(f"no value of JSON: {type(value).__name__}")


def _number(value: float) -> str:
    match repr(value):
        case "inf":
            return ".inf"
        case "-inf":
            return "-.inf"
        case "nan":
            return ".nan"
        case text if "e" in text and "." not in text:
            # YAML 1.1 takes a number with an exponent and no point for a text.
            mantissa, _, exponent = text.partition("e")
            return f"{mantissa}.0e{exponent}"
        case text:
            return text
