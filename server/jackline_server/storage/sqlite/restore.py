"""Putting a copy in the place of a store whose server is stopped, so that a crash leaves the old or the new.

The copy is made, checked and made durable in the data folder first; its name, which appears in one step, says
that the store is to be replaced. From then on whoever comes next carries on: the old database goes aside with
its log before the copy takes its place, so there is no moment at which that log lies beside the copy.

Owns those steps and their names. Does not own how a copy is made (`copy`).
"""

import errno
import fcntl
import logging
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw

from jackline_server.core.frozen import frozen
from jackline_server.failpoints import hit
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreUnavailable
from jackline_server.storage.boot_errors import StoreInUse, StoreTooNew, StoreUnsuitable
from jackline_server.storage.sqlite.copy import BESIDE, copy_database, partial_of, reported
from jackline_server.storage.sqlite.database import Database, connect_frozen
from jackline_server.storage.sqlite.folder import DATABASE, DataFolder, lock_folder, sync_folder
from jackline_server.storage.sqlite.migrations import release_of, schema_version
from jackline_server.storage.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION

_log = logging.getLogger(__name__)

_PREPARED = f"{DATABASE}.restored-"
_ASIDE = "replaced-"
_PREPARED_NAME = re.compile(rf"{re.escape(_PREPARED)}(?P<time>\d{{8}}T\d{{6}}Z(-\d+)?)")
_FIRST_LOCK, _LOCKS = 0x4000_0000, 512
"""Where in a database file SQLite keeps its locks: a part of the file's format."""


@frozen
class Restored:
    """What a restore did: the size of the copy in bytes, and where the old files are, None if none were."""

    size: int
    aside: Path | None


def prepared_restore(data: Path) -> Path | None:
    """The checked copy that is to take the store's place, if a restore was cut off before it did."""
    names = sorted(path.name for path in data.iterdir() if _PREPARED_NAME.fullmatch(path.name))
    return data / names[0] if names else None


def finish_restore(folder: DataFolder) -> Path | None:
    """Carry on where a restore was cut off; where the old files are. Nothing to do, or no old files: None.

    A copy that was not whole when the crash came is cleared away.

    Raises:
        OSError: the disk failed; the next call carries on.
    """
    for leftover in folder.path.glob(partial_of(folder.path / f"{_PREPARED}*", "*").name + "*"):
        leftover.unlink()
    aside = None
    while (prepared := prepared_restore(folder.path)) is not None:
        aside = _put_in_place(folder, prepared)
        _log.info("restored %s; what was there before is in %s", folder.database, aside or "no place")
    return aside


def restore(data: Path, file: Path, *, unix_ms: int) -> Restored:
    """Put a copy of `file`, which `back_up` or an upgrade made, in the place of a data folder's store.

    The folder is made if need be. `file` stays as it is. What was there is put aside, with its log.

    Raises:
        StoreInUse: a server holds the folder, or another program the database.
        StoreUnsuitable: the file can't be used as it is, or the folder can't be written.
        StoreDamaged: the file is no store, or a damaged one.
        StoreTooNew: a newer version wrote the file.
        StoreFull: the disk has no room; nothing was changed.
        StoreUnavailable: a disk failed; the message says whether the next start carries on.
    """
    _refuse_what_is_in_use(data, file)
    with reported(file, data / DATABASE):
        source = connect_frozen(file)
    try:
        with reported(file, data / DATABASE):
            _refuse_strangers(source, file)
        folder = lock_folder(data)
        try:
            with _nobody_has(folder.database):
                return _replace(folder, source, file, unix_ms=unix_ms)
        finally:
            folder.release()
    finally:
        source.close()


def _replace(folder: DataFolder, source: Database, file: Path, *, unix_ms: int) -> Restored:
    with _carried_on(folder):
        finish_restore(folder)
    prepared = _new_name(folder.path, unix_ms)
    with reported(file, prepared):
        copy_database(source, prepared, vfs=None)
    with _carried_on(folder):
        size = prepared.stat().st_size
        hit("restore.prepared")
        return Restored(size=size, aside=finish_restore(folder))


def _put_in_place(folder: DataFolder, prepared: Path) -> Path | None:
    """Every step may have been done before: a crash can have come after any of them."""
    aside = folder.path / f"{_ASIDE}{prepared.name.removeprefix(_PREPARED)}"
    for suffix in ("", *BESIDE):
        old = Path(f"{folder.database}{suffix}")
        if old.exists():
            aside.mkdir(mode=0o700, exist_ok=True)
            old.rename(aside / old.name)
            hit("restore.mid")
    if aside.exists():
        sync_folder(aside)
    folder.sync()
    hit("restore.before_place")
    prepared.rename(folder.database)
    folder.sync()
    hit("restore.after")
    return aside if aside.exists() else None


def _new_name(data: Path, unix_ms: int) -> Path:
    """A name that says when it was, for the copy; neither it nor that of the old files is taken."""
    time = datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
    name, again = time, 1
    while (data / f"{_PREPARED}{name}").exists() or (data / f"{_ASIDE}{name}").exists():
        again += 1
        name = f"{time}-{again}"
    return data / f"{_PREPARED}{name}"


def _refuse_what_is_in_use(data: Path, file: Path) -> None:
    """Refuse what is no file that stands by itself: a part would be missing. Raises StoreUnsuitable."""
    if not file.is_file():
        raise StoreUnsuitable(f"{file} is no file: name one that `jackline backup` made")
    database = data / DATABASE
    if database.exists() and database.samefile(file):
        raise StoreUnsuitable(f"{file} is the database that would be replaced: name a copy of it")
    for suffix in BESIDE:
        beside = Path(f"{file.resolve()}{suffix}")
        if suffix != "-shm" and beside.exists() and beside.stat().st_size > 0:
            raise StoreUnsuitable(
                f"{file} has a log beside it ({beside}), so it is a database in use and no finished copy: "
                f"make one with `jackline backup`"
            )


def _refuse_strangers(source: Database, file: Path) -> None:
    if source.execute("PRAGMA application_id").get != APPLICATION_ID:
        raise StoreDamaged(f"{file} is not a Jackline store; nothing was changed")
    version = schema_version(source)
    if version > SCHEMA_VERSION:
        writer = f"Jackline {release_of(source)}".rstrip()
        raise StoreTooNew(
            f"{file} holds data of schema {version}, written by {writer}; this version knows schemas up to "
            f"{SCHEMA_VERSION}. Restore it with the version that wrote it. Nothing was changed."
        )


@contextmanager
def _nobody_has(database: Path) -> Generator[None]:
    """Keep the database from being opened by anybody, as SQLite itself would; StoreInUse if somebody has it.

    A foreign program that went on with a database that was moved away could remove the log of the new one.
    """
    try:
        handle = os.open(database, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise StoreUnsuitable(
            f"{database} can't be written ({error.strerror}): run this as its user"
        ) from error
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS, _FIRST_LOCK)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise StoreUnsuitable(f"{database} can't be locked ({error.strerror})") from error
            raise StoreInUse(
                f"another program has {database} open: close it. Nothing was changed."
            ) from error
        yield
    finally:
        os.close(handle)


@contextmanager
def _carried_on(folder: DataFolder) -> Generator[None]:
    try:
        yield
    except (OSError, apsw.Error) as error:
        raise StoreUnavailable(
            f"the restore of {folder.database} was begun and stopped ({error}): mend that, and give the same "
            f"command again or start the server, which carries on with it"
        ) from error
