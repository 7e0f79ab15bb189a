"""What a function's process says to the server: frames of one byte, eight of length, and so much JSON.

Shared by both sides. Owns the cap: a longer frame is none.
"""

from jackline_server.tools.results import HARD_BYTES

BEGAN = b"b"
"""The function is called from here on; no body."""

VALUE = b"v"
"""What it returned, as JSON."""

FAILURE = b"f"
"""Why there is no value: an object with `message`, `may_pass`, and where it was raised."""

HEAD_BYTES = 9
MOST_BYTES = 2 * HARD_BYTES
"""More than any value that is kept comes to as JSON: escapes make texts longer."""


def frame(kind: bytes, body: bytes = b"") -> bytes:
    """The bytes of one frame."""
    return kind + len(body).to_bytes(8, "big") + body
