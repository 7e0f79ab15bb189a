"""Copies of a SQLite store that can be trusted: made whole, checked, durable, and only then named.

Owns how a copy is made, also while a server writes, and the folder of automatic backups: names, room, how
many are kept. Does not own when one is made. A copy that a crash cut off has a name of its own, by which
the next boot clears it away.
"""

import errno
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import apsw

from jackline_server.core.frozen import frozen
from jackline_server.failpoints import hit
from jackline_server.runtime.store_ports import StoreDamaged, StoreFull, StoreUnavailable
from jackline_server.storage.boot_errors import StoreUnsuitable
from jackline_server.storage.sqlite_database import Database, connect
from jackline_server.storage.sqlite_folder import DATABASE, sync_folder
from jackline_server.storage.sqlite_migrations import schema_version

BACKUPS = "backups"
KEPT = 3
"""How many automatic backups stay."""

_PARTIAL = ".partial"
_PAGES = 2_048
_BUSY_MS = 5_000
_SPARE_BYTES = 16 << 20
_NAME = re.compile(r"jackline-v(?P<version>\d+)-(?P<time>\d{8}T\d{6}Z)(-(?P<again>\d+))?\.db")


def free_bytes(folder: Path) -> int:
    """The room that is left for us on the disk of a folder."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def copy_database(source: Database, target: Path, *, vfs: str | None) -> None:
    """Copy what `source` holds at this moment to a new file, check the copy, and make it durable.

    Others may write meanwhile; the copy is of one moment. Either the whole copy stands under its name at
    the end or nothing does, whatever happens in between. Mode 0600.

    Raises:
        FileExistsError: something has that name already.
        StoreDamaged: the copy does not hold what the source does.
        apsw.Error, OSError: it can't be read or written.
    """
    if target.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    hit("backup.before")
    partial = target.with_name(target.name + _PARTIAL)
    _clear(partial)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        source.execute("BEGIN")
        try:
            counts = _counts(source)
            _copy_pages(source, partial, vfs=vfs)
        finally:
            source.execute("COMMIT")
        _check(partial, counts, vfs=vfs)
        _sync_file(partial)
        hit("backup.before_publish")
        partial.rename(target)
    finally:
        _clear(partial)
    sync_folder(target.parent)


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
        """Make the folder if need be, closed to others, and clear away what a crash left half done.

        Raises:
            StoreUnsuitable: it can't be made or used.
        """
        try:
            self.path.mkdir(mode=0o700, exist_ok=True)
            if not os.access(self.path, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
            for leftover in self.path.glob(f"*{_PARTIAL}*"):
                leftover.unlink()
            sync_folder(self.path.parent)
        except OSError as error:
            raise StoreUnsuitable(
                f"{self.path} can't hold the backup that has to be made before the upgrade "
                f"({error.strerror}): make it a folder that this user can write. Nothing was changed."
            ) from error

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
    log = Path(f"{database}-wal")
    size = database.stat().st_size + (log.stat().st_size if log.exists() else 0)
    needed, found = 2 * size + _SPARE_BYTES, free(database.parent)
    if found < needed:
        raise StoreFull(
            f"the upgrade of {database} needs {_mib(needed)} MiB for a backup and its log, and the disk has "
            f"{_mib(found)} MiB left: make room and start again. Nothing was changed."
        )


def back_up(data: Path, target: Path) -> int:
    """Copy the store of a data folder, whose server may run, to a new file; its size in bytes.

    The copy holds everything that was acknowledged before the call. The store is only read.

    Raises:
        StoreUnsuitable: there is no store, or the target can't be made.
        StoreDamaged: the store, or the copy, can't be read.
        StoreFull: the disk of the target has no room.
        StoreUnavailable: the store can't be reached just now, or a disk failed.
    """
    database = data / DATABASE
    if not database.is_file():
        raise StoreUnsuitable(f"there is no store in {data}: name the data folder of a server")
    try:
        source = connect(database, flags=apsw.SQLITE_OPEN_READONLY, vfs=None)
        try:
            source.set_busy_timeout(_BUSY_MS)
            copy_database(source, target, vfs=None)
        finally:
            source.close()
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{database} can't be read ({error})") from error
    except apsw.FullError as error:
        raise StoreFull(f"the disk of {target} is full; nothing was left there") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"{database} can't be copied just now ({error}); nothing was left") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"the disk of {target} is full; nothing was left there") from error
        raise StoreUnsuitable(f"{target} can't be made ({error.strerror}): choose another file") from error
    return target.stat().st_size


def _copy_pages(source: Database, partial: Path, *, vfs: str | None) -> None:
    copy = connect(partial, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        # Nobody reads a partial copy, so nothing has to be undone or synchronised before it is whole.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(_PAGES)
                hit("backup.mid")
    finally:
        copy.close()


def _check(partial: Path, counts: dict[str, object], *, vfs: str | None) -> None:
    copy = connect(partial, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        finding = copy.execute("PRAGMA integrity_check(1)").get
        if finding != "ok":
            raise StoreDamaged(f"the backup is damaged ({finding}): the store, or the disk, is")
        if _counts(copy) != counts:
            raise StoreDamaged("the backup does not hold all that the store does")
    finally:
        copy.close()


def _counts(connection: Database) -> dict[str, object]:
    """The schema, and how many rows each table has."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    ).fetchall()
    found: dict[str, object] = {"": schema_version(connection)}
    for (table,) in tables:
        found[table] = connection.execute(f'SELECT count(*) FROM "{table}"').get  # noqa: S608 - a name of the schema
    return found


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear(partial: Path) -> None:
    """Remove a partial copy with what SQLite keeps beside it."""
    for suffix in ("", "-journal", "-wal", "-shm"):
        Path(f"{partial}{suffix}").unlink(missing_ok=True)


def _mib(size: int) -> int:
    return -(-size // (1 << 20))
