"""The data folder of a SQLite store: who may read it, who holds it, and whether the file is still there.

Owns permissions, the lock and the side file that remembers which store lives here. Knows nothing of
what is in the database.
"""

import errno
import fcntl
import os
import stat
from pathlib import Path

from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.storage.boot_errors import StoreInUse, StoreUnsuitable

DATABASE = "jackline.db"
LOCK = "jackline.lock"
_FRESH = "jackline.db.new"
_REMEMBERED_BYTES = 128
"""Room for two names, within one sector: written whole or not at all."""


class DataFolder:
    """A locked data folder. Made by `lock_folder`; `release` gives it up."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.database = path / DATABASE
        self.fresh = path / _FRESH
        self._lock = lock
        self._watched: dict[Path, tuple[int, int]] = {}

    def remembered(self) -> tuple[str, ...]:
        """The generation of the store that lives here, two while it changes; none where no store ever was."""
        return _names(os.pread(self._lock, _REMEMBERED_BYTES, 0))

    def remember(self, *generations: str) -> None:
        """Note one generation or two, durably: a database that vanished or was replaced is noticed by it."""
        if self.remembered() != generations:
            line = " ".join(generations).ljust(_REMEMBERED_BYTES - 1)
            os.pwrite(self._lock, f"{line}\n".encode("ascii"), 0)
            os.fsync(self._lock)

    def refuse_if_gone(self) -> None:
        """Raise StoreDamaged if a store lived here and its database is missing."""
        if not self.database.exists() and (self.remembered() or log_of(self.database).exists()):
            raise StoreDamaged(
                f"{self.database} is missing, though a store lived in this folder: restore the file, "
                f"or remove the whole folder to begin anew"
            )

    def make_fresh(self) -> None:
        """Create the empty file that a new database is built in; drop what a crash left of one."""
        for leftover in self.path.glob(f"{_FRESH}*"):
            leftover.unlink()
        os.close(os.open(self.fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def publish_fresh(self) -> None:
        """Give the finished new database its name, durably."""
        self.fresh.rename(self.database)
        self.sync()

    def sync(self) -> None:
        """Make the folder's own entries durable."""
        sync_folder(self.path)

    def close_to_others(self) -> None:
        """Take all rights of group and others from the store's files."""
        for file in self.path.glob(f"{DATABASE}*"):
            if stat.S_IMODE(file.stat().st_mode) & 0o077:
                file.chmod(0o600)

    def watch(self) -> None:
        """Remember which files the database consists of now."""
        self._watched = {
            file: (status.st_dev, status.st_ino)
            for file in (self.database, log_of(self.database))
            for status in (file.stat(),)
        }

    def check(self) -> None:
        """Raise StoreDamaged if a watched file was deleted or replaced: SQLite would write on unnoticed."""
        for file, identity in self._watched.items():
            try:
                status = os.stat(file)  # noqa: PTH116 - runs once a commit; Path.stat costs twice as much
            except FileNotFoundError:
                raise StoreDamaged(f"{file} was deleted while the server ran") from None
            if (status.st_dev, status.st_ino) != identity:
                raise StoreDamaged(f"{file} was replaced while the server ran")

    def release(self) -> None:
        """Give up the lock. Idempotent."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def log_of(database: Path) -> Path:
    """Where SQLite keeps the log of a database."""
    return Path(f"{database}-wal")


def is_data_folder(path: Path) -> bool:
    """True if a store lives there, or did."""
    return (path / LOCK).exists() or (path / DATABASE).exists()


def remembered_in(path: Path) -> tuple[str, ...]:
    """What a data folder remembers, read without its lock."""
    try:
        with (path / LOCK).open("rb") as lock:
            return _names(lock.read(_REMEMBERED_BYTES))
    except OSError:
        return ()


def _names(line: bytes) -> tuple[str, ...]:
    return tuple(line.decode("ascii", "replace").split())


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_folder(path: Path) -> DataFolder:
    """Create the folder if need be, close it to others, and lock it for this process.

    Raises:
        StoreInUse: another process holds it.
        StoreUnsuitable: it can't be created or used, or is somebody else's.
    """
    try:
        _prepare(path)
        lock = os.open(path / LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreUnsuitable(
            f"{path} can't be used as data folder ({error.strerror}): give this user a folder of its own"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StoreUnsuitable(f"{path} can't be locked ({error.strerror}): use a local disk") from error
        raise StoreInUse(
            f"another server holds the data folder {path}: stop it, or give this one another folder"
        ) from error
    return DataFolder(path, lock)


def _prepare(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if not stat.S_IMODE(status.st_mode) & 0o077:
        return
    if not is_data_folder(path) and any(path.iterdir()):
        raise StoreUnsuitable(
            f"{path} is open to other users and holds other files: choose a folder of its own for the store"
        )
    path.chmod(0o700)
