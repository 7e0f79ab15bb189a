"""Lock files of MCP connections: reading one, wherever it is read.

Owns what kind of file may be one, and how large. What stands in it is `runtime.pinned_tools`'.
"""

from pathlib import Path

from jackline_server.plain_files import read_regular
from jackline_server.runtime.pinned_tools import BadPins, Catalog, read_pins

MOST_BYTES = 16 * 1024 * 1024
"""Far more than all that one connection's catalog may hold."""


def read_lock_file(path: Path) -> Catalog:
    """The catalog that a lock file pins.

    Raises:
        OSError: it is not there, not a regular file, or can't be read.
        BadPins: it pins nothing.
    """
    data = read_regular(path, most_bytes=MOST_BYTES)
    if len(data) > MOST_BYTES:
        raise BadPins(f"it is larger than {MOST_BYTES} bytes")
    return read_pins(data)
