"""A SQLite store that is only read, beside the server that may have it open.

Owns opening and closing it so that a folder nobody uses looks afterwards as it did before. Takes no lock of
the folder, upgrades nothing and finishes no restore: a store that needs either has to be started first.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import apsw

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.blobs import Blobs
from jackline_server.runtime.ports.journal import Journal
from jackline_server.runtime.ports.revisions import Revisions
from jackline_server.runtime.ports.run_rows import Runs
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreUnavailable
from jackline_server.storage.boot_errors import StoreTooNew, StoreUnsuitable
from jackline_server.storage.sqlite.blobs import SqliteBlobs
from jackline_server.storage.sqlite.copy import open_aside
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.folder import DATABASE, DataFolder
from jackline_server.storage.sqlite.journal import SqliteJournal
from jackline_server.storage.sqlite.migrations import schema_version
from jackline_server.storage.sqlite.probe import look_at
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.restore import prepared_restore
from jackline_server.storage.sqlite.revisions import SqliteRevisions
from jackline_server.storage.sqlite.runs import SqliteRuns
from jackline_server.storage.sqlite.schema import SCHEMA_VERSION
from jackline_server.storage.sqlite.session import Session

_BUSY_MS = 5_000
_CLOSE_MS = 5_000
_NO_LOCK = -1

A = TypeVar("A")
R = TypeVar("R")


@frozen
class StoreAside:
    """The roles that can be read. Whatever writes raises StoreUnavailable."""

    journal: Journal
    runs: Runs
    revisions: Revisions
    blobs: Blobs


@asynccontextmanager
async def reading_aside(data: Path) -> AsyncGenerator[StoreAside]:
    """The store of a data folder, for as long as the block runs.

    Raises:
        StoreUnsuitable: there is no store, or one that has to be started first.
        StoreTooNew: a newer version wrote it.
        StoreDamaged: it is no store, or can't be read.
        StoreUnavailable: it can't be reached just now.
    """
    await asyncio.to_thread(_refuse_unfit, data)
    source = await asyncio.to_thread(_opened, data / DATABASE)
    readers = Readers(folder=DataFolder(data, _NO_LOCK), vfs=None, on_damage=_leave)
    try:
        yield StoreAside(
            journal=SqliteJournal(writer=_NoWriter(), readers=readers),
            runs=SqliteRuns(readers=readers),
            revisions=SqliteRevisions(writer=_NoWriter(), readers=readers),
            blobs=SqliteBlobs(writer=_NoWriter(), readers=readers),
        )
    finally:
        await readers.close(within_ms=_CLOSE_MS)
        source.close()


def _refuse_unfit(data: Path) -> None:
    try:
        look = look_at(data)
    except OSError as error:
        raise StoreUnsuitable(f"{data} can't be read: {error.strerror}") from error
    if not look.has_database:
        raise StoreUnsuitable(f"there is no store in {data}: name the data folder of a server")
    if not look.is_ours:
        raise StoreDamaged(f"{data / DATABASE} is not a Jackline store")
    if look.is_newer:
        raise StoreTooNew(f"a newer version wrote the store in {data}: use that version")
    if not look.held and prepared_restore(data) is not None:
        raise StoreUnsuitable(f"a restore of {data} was cut off: start its server once, which ends it")


def _opened(database: Path) -> Database:
    """A connection that stays open for as long as the store is read, with the schema checked."""
    try:
        source = open_aside(database)
        try:
            source.set_busy_timeout(_BUSY_MS)
            version = schema_version(source)
        except BaseException:
            source.close()
            raise
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{database} can't be read ({error})") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"{database} can't be read just now ({error})") from error
    if version != SCHEMA_VERSION:
        source.close()
        raise StoreUnsuitable(f"{database} is of an older version: start its server once, which upgrades it")
    return source


class _NoWriter:
    """Writes nothing: the store is another's."""

    async def run(self, operation: Callable[[Session, A], R], argument: A) -> R:
        _refuse()


def _refuse() -> NoReturn:
    raise StoreUnavailable("the store is open for reading only")


def _leave(_damage: StoreDamaged) -> None:
    """Whoever reads is told by the error itself."""
