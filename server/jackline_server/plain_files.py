"""Reading a file that somebody names: a regular one, and no more of it than is wanted.

Owns that a pipe or a device in its place is neither waited for nor read. A leaf: whoever reads what an
operator names reads it with this. Links are followed; who must not follow any opens the file itself.
"""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, *, most_bytes: int) -> bytes:
    """The first bytes of a regular file, one more than `most_bytes` if there are more.

    Raises OSError, also for what is no regular file or no path.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError:  # a NUL in it, or a letter that can't be encoded
        raise OSError(errno.EINVAL, "not a path") from None
    data, mode = content_of(descriptor, most_bytes)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")
    return data


def content_of(descriptor: int, most_bytes: int) -> tuple[bytes, int]:
    """What an open file holds, nothing if it is not a regular one, and its mode. Closes it."""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        return b"", mode
    with open(descriptor, "rb") as opened:
        return opened.read(most_bytes + 1), mode
