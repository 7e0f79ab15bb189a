"""Bytes cut into lines, none longer than a cap.

Owns the buffer of one stream. What is over the cap is dropped as it comes, so that memory holds one line.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line was over the cap. `head` is its beginning."""

    head: bytes


HEAD_BYTES = 256


class LineCutter:
    """Takes chunks, gives lines without their ends."""

    def __init__(self, *, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self._size = 0
        self._head: bytes | None = None

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this chunk ends, in order."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | TooLong] = []
        for piece in ended:
            self._take(piece)
            lines.append(self._line())
        self._take(rest)
        return lines

    def _take(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._head is not None:
            return
        self._parts.append(piece)
        if self._size > self._cap:
            self._head = b"".join(self._parts)[:HEAD_BYTES]
            self._parts.clear()

    def _line(self) -> bytes | TooLong:
        line = TooLong(self._head) if self._head is not None else b"".join(self._parts)
        self._parts, self._size, self._head = [], 0, None
        return line
