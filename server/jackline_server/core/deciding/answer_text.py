"""The JSON in an answer's text: alone, or in the one fenced block there is.

Owns where the JSON of an answer may stand. What is not JSON there is not mended: JSON among words without a
fence, or in one of several blocks, is none. Does not own what the value has to be (`outcome`).
"""

import re

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue

_OPENING = re.compile(r" {0,3}(?P<fence>`{3,}+|~{3,}+)[ \t]*+[\w.+-]*+[ \t\r]*+")


@frozen
class Block:
    """A fenced block. `alone` is true if there are no words around it."""

    body: str
    alone: bool


def parse(text: str, *, words_around: bool) -> JsonValue:
    """The one value that a text holds, with its fence off.

    `words_around` allows words before and after the fence: they are dropped, so that only an answer which has
    to be JSON is read so.

    Raises:
        JsonError: there is none, or there are several blocks that could hold it.
    """
    try:
        return json_text.parse(text)
    except json_text.JsonError:
        block = fenced(text)
        if block is None or not (block.alone or words_around):
            raise
    return json_text.parse(block.body)


def fenced(text: str) -> Block | None:
    """The fenced block of a text; None if there is none, or more than one."""
    lines = text.strip().split("\n") if "```" in text or "~~~" in text else []
    found: Block | None = None
    at = 0
    while at < len(lines):
        opening = _OPENING.fullmatch(lines[at])
        if opening is None:
            at += 1
            continue
        if found is not None:
            return None
        end, body = _closed(lines, at + 1, opening["fence"])
        found = Block(body=body, alone=at == 0 and end == len(lines))
        at = end
    return found


def unfenced(text: str) -> str:
    """The text without its fence, if one of backticks stands around all of it."""
    whole = text.strip()
    if not (whole.startswith("```") and whole.endswith("```")):
        return text
    language, line_end, body = whole.removeprefix("```").removesuffix("```").partition("\n")
    language = language.rstrip()
    return body.strip() if line_end and (not language or language.isalpha()) else text


def _closed(lines: list[str], start: int, fence: str) -> tuple[int, str]:
    """Where the block's rest begins, and its body. One that is never closed goes to the end."""
    for at in range(start, len(lines)):
        line = lines[at].strip()
        if line.startswith(fence) and not line.strip(fence[0]):
            return at + 1, "\n".join(lines[start:at])
        if line.endswith(fence) and at == len(lines) - 1:
            return at + 1, "\n".join([*lines[start:at], line.rstrip(fence[0])])
    return len(lines), "\n".join(lines[start:])
