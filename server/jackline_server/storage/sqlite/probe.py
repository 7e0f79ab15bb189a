"""A look at a data folder that changes nothing in it: for `jackline doctor`.

Owns reading what can be read without opening the database, which would leave files behind. Does not own what
must hold of a folder before it is used (`folder`, `schema`).
"""

import fcntl
import os
import stat
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.storage.sqlite.folder import DATABASE, LOCK
from jackline_server.storage.sqlite.restore import prepared_restore
from jackline_server.storage.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION

_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\x00"
_OPEN_TO_OTHERS = 0o077


@frozen
class FolderLook:
    """What a data folder looks like from outside.

    `held`: a live server has it. `lived_in`: a store was made here. `has_database`: its file is there.
    `is_ours` and `is_newer` are what the file's header says. `open_with_others_files`: other users may read
    the folder and it holds no store but other files, so that no store would be made in it.
    """

    held: bool
    lived_in: bool
    has_database: bool
    is_ours: bool
    is_newer: bool
    open_with_others_files: bool


def look_at(path: Path) -> FolderLook:
    """Look at a folder that exists. Takes its lock for no longer than it takes to see that nobody has it.

    Raises:
        OSError: it can't be read.
    """
    database = path / DATABASE
    # The copy of a restore that was cut off is what the next start puts there.
    header = _header(prepared_restore(path) or database)
    held, remembered = _lock(path / LOCK)
    open_to_others = bool(stat.S_IMODE(path.stat().st_mode) & _OPEN_TO_OTHERS)
    holds_a_store = header is not None or (path / LOCK).exists()
    return FolderLook(
        held=held,
        lived_in=remembered or Path(f"{database}-wal").exists(),
        has_database=header is not None,
        is_ours=header is not None and header.startswith(_MAGIC) and _number(header, 68) == APPLICATION_ID,
        is_newer=header is not None and _number(header, 60) > SCHEMA_VERSION,
        open_with_others_files=open_to_others and not holds_a_store and any(path.iterdir()),
    )


def _header(database: Path) -> bytes | None:
    """The head of the file, None without a file."""
    try:
        with database.open("rb") as file:
            return file.read(_HEADER_BYTES)
    except FileNotFoundError:
        return None


def _number(header: bytes, offset: int) -> int:
    """A big-endian number of SQLite's header: 60 is `user_version`, 68 is `application_id`."""
    return int.from_bytes(header[offset : offset + 4], "big")


def _lock(lock: Path) -> tuple[bool, bool]:
    """Whether a process holds the lock, and whether a store was ever made under it."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, False
    try:
        remembered = bool(os.pread(descriptor, 64, 0).strip())
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True, True
    else:
        return False, remembered
    finally:
        os.close(descriptor)
