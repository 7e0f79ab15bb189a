"""Where JSON stands in a text, and the escapes of JSON that is not whole.

Owns what counts as a document there: an object or a list that parses, wherever it stands, and a text that
begins with a string. Code, logs and JSON that breaks off keep their escapes: `changed_as_read` changes such a
text as it reads without them. Time is linear in the text.
"""

import re
from collections.abc import Callable, Iterator

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue

_STRING = r'"(?:[^"\\\x00-\x1f]|\\.)*+"'
_OPENING = re.compile(rf"[\[{{]|\A\s*+{_STRING}")
_BETWEEN_BRACKETS = re.compile(rf"(?:[\s,:0-9.eE+-]|true|false|null|{_STRING})*+")

_ASIDE = "\0"
_UNICODE = re.compile(r"(?<!\\)\\++u([0-9a-fA-F]{4})")
_ESCAPE = re.compile(rf'\\++(?:u[0-9a-fA-F]{{4}}|["/bfnrt])?|{_ASIDE}')
_FIRST_LETTER = " "
_ENDS_STRING = frozenset('"\\')
_SURROGATES = range(0xD800, 0xE000)


@frozen
class Document:
    """JSON that stands in a text: `text` as it is written there, and its value."""

    text: str
    value: JsonValue


def split(text: str) -> Iterator[str | Document]:
    """The text in order: its documents, and what stands between them."""
    done = at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        begin = opening.start()
        at, whole = (opening.end(), True) if opening[0][-1:] == '"' else _end(text, begin)
        if not whole:
            continue
        try:
            value = json_text.parse(text[begin:at])
        except json_text.JsonError:
            continue
        if done < begin:
            yield text[done:begin]
        yield Document(text=text[begin:at], value=value)
        done = at
    if done < len(text):
        yield text[done:]


def changed_as_read(text: str, change: Callable[[str], str]) -> str:
    """The text changed as it reads: an escaped letter is that letter, any other escape belongs to no word.

    Escapes that stand for letters stay as they are written if nothing is changed, and become the letters if
    something is.
    """
    if "\\" not in text and _ASIDE not in text:
        return change(text)
    shown = _UNICODE.sub(_letter, text)
    aside = _ESCAPE.findall(shown)
    bare = _ESCAPE.sub(_ASIDE, shown)
    changed = change(bare)
    if changed == bare:
        return text
    kept = iter(aside)
    return re.sub(_ASIDE, lambda _: next(kept), changed)


def _end(text: str, begin: int) -> tuple[int, bool]:
    """Where what begins there ends or breaks off, and whether it is whole, as far as brackets tell.

    What begins before the place where it breaks off breaks off there too.
    """
    depth, at = 0, begin
    while depth <= json_text.MAX_DEPTH:
        between = _BETWEEN_BRACKETS.match(text, at)
        at = at if between is None else between.end()
        bracket = text[at : at + 1]
        if bracket in ("[", "{"):
            depth += 1
        elif bracket in ("]", "}"):
            depth -= 1
        else:
            break
        at += 1
        if depth == 0:
            return at, True
    return max(at, begin + 1), False


def _letter(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    letter = chr(code)
    stays = letter < _FIRST_LETTER or letter in _ENDS_STRING or code in _SURROGATES
    return escape.group() if stays else letter
