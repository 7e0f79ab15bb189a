"""What of a tool's result is no text: images, sound, files. Each is a part of the result, from 1.

Owns what is known of a part and how a model is told of it. Never its bytes: those are kept outside the log,
and no model is shown them.
"""

from collections.abc import Sequence

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen


@frozen
class ResultMedia:
    """One part. `media_type` is `type/subtype`, `size` in bytes, `name` what its sender calls it.

    `blob` is the digest of its bytes, empty if they were not kept.
    """

    media_type: str
    size: int
    name: str = ""
    blob: str = ""


def told(parts: Sequence[ResultMedia]) -> str:
    """What a model is told of the parts, a line each. Of what a sender chose nothing breaks its line."""
    return "\n".join(_line(number, part) for number, part in enumerate(parts, start=1))


def stored_bytes(parts: Sequence[ResultMedia]) -> int:
    """How many bytes of them are kept."""
    return sum(part.size for part in parts if part.blob)


def _line(number: int, part: ResultMedia) -> str:
    name = f", {json_text.write(part.name)}" if part.name else ""
    fate = "kept for people; you can't see it" if part.blob else "not kept"
    return f"[part {number}: {part.media_type}, {part.size} bytes{name}; {fate}]"
