"""Files that somebody may have put a pipe or a device in place of, read without being held up by it.

Owns opening them. Does not own who else may read or change one: that depends on what is in it.
"""

import os
import stat
from pathlib import Path


def read_plain(path: Path, *, most_bytes: int) -> tuple[bytes, int]:
    """Reads the first bytes of a regular file, one more than `most_bytes` if there are more, and its mode.

    Of anything else nothing is read: the mode says what it is. Links are followed. Raises OSError, and
    ValueError for a path that can't be one.
    """
    # Not blocking: else a pipe that nobody writes into would be waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            return b"", mode
        with open(handle, "rb", closefd=False) as file:
            return file.read(most_bytes + 1), mode
    finally:
        os.close(handle)
