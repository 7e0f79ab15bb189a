"""Bytes that a tool returned, made fit to keep: what they are, and what they are called.

Owns the look at the bytes themselves, since a sender may say what it likes, and the caps. Pure.
"""

import base64
import binascii
import re
from collections.abc import Sequence

from jackline_server.core.frozen import change
from jackline_server.runtime.ports.tools import MediaPart, ToolResult
from jackline_server.tools.results import clean_text

MOST_PARTS = 32
"""What one result may hold that is no text; the rest is left out, and said to be."""

UNKNOWN_TYPE = "application/octet-stream"

_NAME_CHARS = 200
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
_SPACE = re.compile(r"\s+")
_SIGNS: Sequence[tuple[bytes, int, str]] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"WEBP", 8, "image/webp"),
    (b"WAVE", 8, "audio/wav"),
    (b"%PDF-", 0, "application/pdf"),
    (b"OggS", 0, "audio/ogg"),
    (b"fLaC", 0, "audio/flac"),
    (b"ID3", 0, "audio/mpeg"),
    (b"PK\x03\x04", 0, "application/zip"),
    (b"\x1f\x8b", 0, "application/gzip"),
)
_TOLD_BY_SIGN = frozenset(kind for _, _, kind in _SIGNS) - {"audio/mpeg", "application/zip", "audio/ogg"}
"""Types whose bytes always begin with their sign: who claims one of them without it is not believed."""

_CONTAINERS = frozenset({"application/zip", "application/gzip", "audio/ogg"})
"""Signs that many more exact types share: a claim of another type beside one of them stands."""


class NotBase64(ValueError):
    """A text that should be bytes in base64 is none."""


def from_base64(text: str) -> bytes:
    """The bytes that a text stands for. Raises NotBase64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotBase64 from None


def part_of(data: bytes, *, claimed: str, name: str = "") -> MediaPart:
    """The bytes as a part, of the type that they show, or of the claimed one where they show none."""
    plain = _SPACE.sub(" ", clean_text(name[: 4 * _NAME_CHARS])).strip()
    return MediaPart(data=data, media_type=media_type(data, claimed), name=plain[:_NAME_CHARS])


def media_type(data: bytes, claimed: str) -> str:
    """What the bytes are, in lower case and without parameters."""
    kind = claimed.partition(";")[0].strip().lower()
    kind = kind if _TYPE.fullmatch(kind) else UNKNOWN_TYPE
    shown = next((sort for sign, at, sort in _SIGNS if data.startswith(sign, at)), None)
    if shown is None:
        return UNKNOWN_TYPE if kind in _TOLD_BY_SIGN else kind
    is_more_exact = shown in _CONTAINERS and kind not in _TOLD_BY_SIGN and kind != UNKNOWN_TYPE
    return kind if is_more_exact else shown


def with_parts(result: ToolResult, parts: Sequence[MediaPart]) -> ToolResult:
    """The result with its parts."""
    return change(result, media=tuple(parts)) if parts else result
