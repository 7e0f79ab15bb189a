"""How blobs are named, what may be one, and what can hold one: the same in every store."""

import hashlib

from jackline_server.runtime.ports.blobs import BLOB_BYTES

RUN = "run"
"""The kind of holder that a run is."""

THREAD = "thread"
"""The kind of holder that a thread is."""


def checked(data: bytes) -> bytes:
    """The bytes. Raises ValueError if they are too many for a blob."""
    if len(data) > BLOB_BYTES:
        raise ValueError(f"a blob holds at most {BLOB_BYTES} bytes, not {len(data)}")
    return data


def digest_of(data: bytes) -> str:
    """The name of these bytes."""
    return hashlib.sha256(data).hexdigest()
