"""Outputs that are too long for the log: its beginning and its end go into it, the whole beside it.

Owns how long is too long. Does not own where the whole is kept (`results`).
"""

from jackline_server.core import json_text
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult

KEPT_BYTES = 256 * 1024
"""The longest JSON text of an output that goes into the log whole."""

HEAD_BYTES = 192 * 1024
"""The beginning of a longer one that does, as JSON."""

TAIL_BYTES = 64 * 1024
"""The end of it that does."""


def is_long(output_json: str) -> bool:
    """True for JSON text that is over the cap."""
    size = len(output_json)
    return size > KEPT_BYTES or (
        size > KEPT_BYTES // 4 and not output_json.isascii() and len(output_json.encode()) > KEPT_BYTES
    )


def cut(whole: str) -> ToolResult:
    """The result for an output of that text, whose JSON is over the cap."""
    data = whole.encode()
    return ToolResult(
        ending=ToolEnding.COMPLETED,
        output_json=json_text.write(_head(whole, HEAD_BYTES)),
        cut_from_bytes=len(data),
        tail=data[-TAIL_BYTES:].decode(errors="ignore"),
        whole=whole,
    )


def _head(text: str, most: int) -> str:
    """The longest beginning, near enough, whose JSON has at most `most` bytes."""
    length = min(len(text), most)
    while len(json_text.write(text[:length]).encode()) > most:
        length = length * 9 // 10
    return text[:length]
