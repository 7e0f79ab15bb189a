"""Pages of a long text, and what a search in it finds. Pure; linear in the text; every answer is bounded.

Offsets count bytes of UTF-8, lines from 1. A page never begins or ends inside a character.
"""

from jackline_server.core.plan import JsonObject, JsonValue

MOST_MATCHES = 50
_AROUND = 100
"""So many bytes of a long line are shown before and behind a match."""

_LOWER = {
    code: chr(code).lower()
    for code in (*range(0x530), *range(0x10A0, 0x2000))
    if len(chr(code).lower().encode()) == len(chr(code).encode())
}
"""Letters of the alphabets that have two cases, where both take as many bytes."""

_CONTINUES = range(0x80, 0xC0)
"""The bytes that can't begin a character."""


def page_from(data: bytes, *, offset: int, total: int, most: int) -> JsonObject:
    """A page of at most `most` characters. `data` is what stands at `offset` of `total` bytes."""
    begin = _aligned(data, 0)
    text = data[begin:].decode(errors="ignore")[:most]
    end = offset + begin + len(text.encode())
    return {
        "text": text,
        "offset": offset + begin,
        "next_offset": end if end < total and text else None,
        "bytes": total,
    }


def lines_from(data: bytes, *, line: int, most: int) -> JsonObject:
    """A page of whole lines from that line on; of a line that is longer than a page, its beginning."""
    start = _start_of(data, line)
    lines = data.count(b"\n") + 1
    if start is None:
        return {"text": "", "line": line, "next_line": None, "lines": lines}
    text = data[start : start + 4 * most].decode(errors="ignore")[:most]
    end = start + len(text.encode())
    if end < len(data) and "\n" in text:
        text = text[: text.rindex("\n") + 1]
        end = start + len(text.encode())
    after = line + text.count("\n")
    whole = end >= len(data) or text.endswith("\n")
    page: JsonObject = {"text": text, "line": line, "lines": lines, "offset": start}
    page["next_line"] = after if whole and end < len(data) else None
    page["next_offset"] = None if whole else end
    return page


def matches_from(data: bytes, wanted: str, *, line: int, offset: int, most: int) -> JsonObject:
    """The places from there on that hold the text, as many as fit into a page.

    A match is shown with its line; of a long line with what stands around it, and the search goes on behind.
    """
    start = _start_of(data, line)
    if start is None:
        return {"matches": [], "next_offset": None}
    begin = max(start, offset)
    letters = not wanted.isascii()
    needle, hay = _lowered(wanted.encode(), letters=letters), _lowered(data, letters=letters)
    number = data.count(b"\n", 0, begin) + 1
    found: list[JsonValue] = []
    room, at, counted = most, hay.find(needle, begin), begin
    while at >= 0 and len(found) < MOST_MATCHES and room > 0:
        behind = at + len(needle)
        number += data.count(b"\n", counted, at)
        counted = at
        line_start = data.rfind(b"\n", 0, at) + 1
        line_end = data.find(b"\n", behind - 1)
        line_end = len(data) if line_end < 0 else line_end
        first = _aligned(data, max(line_start, at - _AROUND))
        last = min(line_end, behind + _AROUND)
        text = data[first:last].decode(errors="ignore")
        found.append({"line": number, "offset": at, "text": text})
        room -= len(text)
        at = hay.find(needle, max(last, behind))
    return {"matches": found, "next_offset": at if at >= 0 else None}


def _lowered(data: bytes, *, letters: bool) -> bytes:
    """The text in lower case, byte for byte at its place; `letters` for those beyond ASCII too."""
    if not letters:
        return data.lower()
    return data.decode(errors="surrogateescape").translate(_LOWER).encode(errors="surrogateescape")


def _aligned(data: bytes, at: int) -> int:
    """The first place from there on at which a character begins."""
    while at < len(data) and data[at] in _CONTINUES:
        at += 1
    return at


def _start_of(data: bytes, line: int) -> int | None:
    """Where a line begins; None if there are not so many."""
    at = 0
    for _ in range(line - 1):
        at = data.find(b"\n", at) + 1
        if not at:
            return None
    return at
