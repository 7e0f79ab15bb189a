"""The backups of a SQLite store: automatic ones in the data folder, and those that somebody asks for.

Owns the folder of automatic backups (names, room, how many are kept, what a crash left of one), and which
store is copied where to. Does not own how a copy is made (`copy`), nor how one is put back
(`restore`).
"""

import errno
import logging
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreFull
from jackline_server.storage.boot_errors import StoreUnsuitable
from jackline_server.storage.sqlite.copy import BESIDE, copy_database, open_aside, reported
from jackline_server.storage.sqlite.folder import (
    DATABASE,
    LOCK,
    is_data_folder,
    log_of,
    remembered_in,
    sync_folder,
)
from jackline_server.storage.sqlite.identity import refuse_foreign_log

_log = logging.getLogger(__name__)

BACKUPS = "backups"
KEPT = 3
"""How many automatic backups stay."""

_BUSY_MS = 5_000
_SPARE_BYTES = 16 << 20
_NAME = re.compile(r"jackline-v(?P<version>\d+)-(?P<time>\d{8}T\d{6}Z)(-(?P<again>\d+))?\.db")
_LEFTOVER = re.compile(rf"\.(?:{_NAME.pattern})\.[0-9a-f]{{16}}\.partial(-wal|-shm|-journal)?")


def free_bytes(folder: Path) -> int:
    """The room that is left for us on the disk of a folder."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


@frozen
class Backup:
    """One automatic backup, and the schema it holds."""

    path: Path
    version: int
    order: tuple[str, int]


class BackupFolder:
    """The automatic backups of one data folder."""

    def __init__(self, data: Path) -> None:
        self.path = data / BACKUPS

    def open(self) -> None:
        """Make the folder if need be, closed to others.

        Raises:
            StoreUnsuitable: it can't be made or used.
        """
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
            sync_folder(self.path.parent)
        except OSError as error:
            raise StoreUnsuitable(
                f"{self.path} can't hold the backup that has to be made before the upgrade "
                f"({error.strerror}): make it a folder that this user can write. Nothing was changed."
            ) from error

    def clear_leftovers(self) -> None:
        """Clear away the automatic backups that a crash cut off, and nothing else. The caller holds the lock.

        A copy that somebody makes here by hand has another name: it may be under way.
        """
        try:
            for path in self.path.iterdir():
                if _LEFTOVER.fullmatch(path.name) is not None:
                    path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            _log.warning("what a crash left in %s can't be cleared away: %s", self.path, error)

    def backups(self) -> list[Backup]:
        """All of them, the newest first. Other files are none of ours."""
        found: list[Backup] = []
        for path in self.path.glob("*.db") if self.path.is_dir() else ():
            match = _NAME.fullmatch(path.name)
            if match is not None:
                order = (match["time"], int(match["again"] or 1))
                found.append(Backup(path=path, version=int(match["version"]), order=order))
        return sorted(found, key=lambda backup: backup.order, reverse=True)

    def new_path(self, *, version: int, unix_ms: int) -> Path:
        """A name that nothing has, for a backup of that schema made at that time."""
        time = datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        path, again = self.path / f"jackline-v{version}-{time}.db", 1
        while path.exists():
            again += 1
            path = self.path / f"jackline-v{version}-{time}-{again}.db"
        return path

    def prune(self, most: int, *, version: int | None = None, sparing: Path | None = None) -> None:
        """Remove the oldest, of one schema or of all, until so many are left; never the one to spare."""
        ours = [
            backup
            for backup in self.backups()
            if version in (None, backup.version) and backup.path != sparing
        ]
        for backup in ours[max(most - (sparing is not None), 0) :]:
            backup.path.unlink()


def require_room(database: Path, free: Callable[[Path], int]) -> None:
    """Refuse to begin what may run out of room: a copy, and a log as large as the database.

    Raises:
        StoreFull: there is less than that.
    """
    log = log_of(database)
    size = database.stat().st_size + (log.stat().st_size if log.exists() else 0)
    needed, found = 2 * size + _SPARE_BYTES, free(database.parent)
    if found < needed:
        raise StoreFull(
            f"the upgrade of {database} needs {_mib(needed)} MiB for a backup and its log, and the disk has "
            f"{_mib(found)} MiB left: make room and start again. Nothing was changed."
        )


def back_up(data: Path, target: Path) -> int:
    """Copy the store of a data folder, whose server may run, to a new file; its size in bytes.

    The copy holds everything that was acknowledged before the call. The store is only read; a folder that
    nobody uses looks afterwards as it did before.

    Raises:
        StoreUnsuitable: there is no store, or the target can't be made.
        StoreDamaged: the store, or the copy, can't be read.
        StoreFull: the disk of the target has no room.
        StoreUnavailable: the store can't be reached just now, or a disk failed.
    """
    database = data / DATABASE
    if not database.is_file():
        raise StoreUnsuitable(f"there is no store in {data}: name the data folder of a server")
    with reported(database, target):
        _refuse_name(target)
        _refuse_mixture(data)
        source = open_aside(database)
        try:
            source.set_busy_timeout(_BUSY_MS)
            copy_database(source, target, vfs=None)
        finally:
            source.close()
        return target.stat().st_size


def _refuse_name(target: Path) -> None:
    """Refuse a name under which the copy would be taken for something else. Raises StoreUnsuitable."""
    # Not `resolve`, which before Python 3.13 raises RuntimeError for a link to itself.
    name, folder = target.name.casefold(), Path(os.path.realpath(target.parent))
    if name.endswith(BESIDE):
        raise StoreUnsuitable(
            f"{target} can't be the name of a copy: SQLite takes a file whose name ends with "
            f"{', '.join(BESIDE)} for a part of another database, and removes it. Choose another name"
        )
    if is_data_folder(folder) and (name == BACKUPS or name.startswith((DATABASE, LOCK, f".{DATABASE}"))):
        raise StoreUnsuitable(
            f"{target} can't be the name of a copy: the server keeps its own files in the data folder under "
            f"names that begin with {DATABASE}, {LOCK} and {BACKUPS}. Choose another name, or another folder"
        )
    is_automatic = _NAME.fullmatch(target.name) or _LEFTOVER.fullmatch(target.name)
    if is_automatic and folder.name == BACKUPS and is_data_folder(folder.parent):
        raise StoreUnsuitable(
            f"{target} can't be the name of a copy: automatic backups are called so, and removed when there "
            f"are newer ones. Choose another name"
        )


def _refuse_mixture(data: Path) -> None:
    """Refuse to copy a database together with the log of another one. Raises StoreDamaged."""
    remembered = remembered_in(data)
    try:
        refuse_foreign_log(data / DATABASE, remembered)
    except StoreDamaged:
        # A server that starts at this moment may have taken the database over; then it remembers its name.
        if remembered_in(data) == remembered:
            raise


def _mib(size: int) -> int:
    return -(-size // (1 << 20))
