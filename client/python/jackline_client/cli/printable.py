"""The one function through which foreign text reaches a terminal.

Owns what is safe to show. A run's text comes from models, tools and strangers: a control character in it
could move the cursor, rewrite what was shown before or hide what follows.
"""

import re
import unicodedata

LONGEST = 4_000
# ASCII controls, the C1 controls, and everything beyond Latin-1 (sorted out by category below).
_SUSPECT = re.compile(r"[^\x20-\x7e\xa1-\xac\xae-\xff]")
# Controls, formats (bidi overrides, invisible tags), surrogates, unassigned, line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})
# Zero-width joiner and non-joiner shape letters of some scripts and can't move anything.
_HARMLESS = frozenset({"\u200c", "\u200d"})
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, *, limit: int = LONGEST) -> str:
    """Returns one safe line: hidden characters escaped, cut after `limit` characters with its true length.

    Showing the result of showing changes nothing.
    """
    if len(text) <= limit:
        return _SUSPECT.sub(_escaped, text)
    shown = _SUSPECT.sub(_escaped, text[:limit])
    return f"{shown}... ({len(text):,} characters)"


def printable_lines(text: str, *, limit: int = LONGEST, lines: int = 200) -> list[str]:
    """Returns text of several lines, each safe to show, with a last line that counts those left out."""
    found = text.split("\n")
    shown = [printable(line.removesuffix("\r").replace("\t", "    "), limit=limit) for line in found[:lines]]
    if len(found) > lines:
        shown.append(f"... ({len(found):,} lines)")
    return shown


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    if character in _NAMED:
        return _NAMED[character]
    if character in _HARMLESS or unicodedata.category(character) not in _HIDDEN:
        return character
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 - what fits two digits
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - what fits four digits
