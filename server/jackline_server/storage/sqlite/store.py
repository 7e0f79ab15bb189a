"""The embedded store: SQLite in a data folder of its own.

Owns opening and closing, in the order that keeps every promise: lock, finish a restore, check, upgrade, void
leases, serve.
What is done with the tables is in the modules of the roles; `writer` says how it becomes durable.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import apsw

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.store import Durability, Store
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.storage.boot_errors import StoreInUse, StoreUnsuitable
from jackline_server.storage.clocks import LEASE_MS, StoreClock
from jackline_server.storage.sqlite.blobs import SqliteBlobs
from jackline_server.storage.sqlite.commands import SqliteCommands
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.deliveries import SqliteDeliveries
from jackline_server.storage.sqlite.folder import DataFolder, lock_folder
from jackline_server.storage.sqlite.identity import refuse_foreign_log, settle_generation
from jackline_server.storage.sqlite.journal import SqliteJournal
from jackline_server.storage.sqlite.leases import SqliteLeases, void_leases
from jackline_server.storage.sqlite.migrations import newest_version, note_release
from jackline_server.storage.sqlite.owners import SqliteOwners, begin_graces
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.restore import finish_restore
from jackline_server.storage.sqlite.revisions import SqliteRevisions
from jackline_server.storage.sqlite.runs import SqliteRuns
from jackline_server.storage.sqlite.schema import create_database, open_writer, quick_check
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.switches import SqliteSwitches
from jackline_server.storage.sqlite.threads import SqliteThreads
from jackline_server.storage.sqlite.upgrade import Upgrade, UpgradeSettings, upgrade
from jackline_server.storage.sqlite.writer import Writer, as_port_error

CLOSE_MS = 5_000
CHECK_MS = 5_000


def _say_nothing(_error: StoreError) -> None:
    """The default of `on_broken`."""


@frozen
class SqliteSettings:
    """How a store is opened. `check_ms` bounds the search for damage at boot.

    `on_broken` is called once, on the event loop, when the store stops acknowledging for good. `close_ms`
    bounds each half of closing. `vfs` names a registered SQLite VFS, for tests of faults. `upgrade` says how
    an older store is brought up to date.
    """

    lease_ms: int = LEASE_MS
    check_ms: int = CHECK_MS
    clock: StoreClock = StoreClock()
    on_broken: Callable[[StoreError], None] = _say_nothing
    close_ms: int = CLOSE_MS
    vfs: str | None = None
    upgrade: UpgradeSettings = UpgradeSettings()


@frozen
class _Boot:
    connection: Database
    generation: str
    voided: int
    checked_whole: bool
    upgrade: Upgrade | None


class SqliteStore:
    """An open store. Made by `open_sqlite`; whoever opened it closes it.

    `generation` is the random name of this store. `voided_leases` runs had an owner when the last process
    ended. `checked_whole` is False if the search for damage ran out of time. `database` is the file.
    `upgrade` is what was done to an older store when it was opened, None if nothing.
    """

    def __init__(self, *, folder: DataFolder, boot: _Boot, settings: SqliteSettings) -> None:
        session = Session(connection=boot.connection, clock=settings.clock, lease_ms=settings.lease_ms)
        self._folder = folder
        self._close_ms = settings.close_ms
        self._writer = Writer(session=session, folder=folder, on_broken=settings.on_broken)
        self._readers = Readers(folder=folder, vfs=settings.vfs, on_damage=self._writer.break_off)
        self.generation = boot.generation
        self.voided_leases = boot.voided
        self.checked_whole = boot.checked_whole
        self.upgrade = boot.upgrade
        self.database = folder.database
        self.store = Store(
            journal=SqliteJournal(writer=self._writer, readers=self._readers),
            runs=SqliteRuns(readers=self._readers),
            commands=SqliteCommands(writer=self._writer, readers=self._readers),
            leases=SqliteLeases(writer=self._writer),
            revisions=SqliteRevisions(writer=self._writer, readers=self._readers),
            blobs=SqliteBlobs(writer=self._writer, readers=self._readers),
            threads=SqliteThreads(writer=self._writer, readers=self._readers),
            deliveries=SqliteDeliveries(writer=self._writer, readers=self._readers),
            switches=SqliteSwitches(writer=self._writer, readers=self._readers),
            owners=SqliteOwners(writer=self._writer, readers=self._readers),
            durability=Durability.FSYNC,
        )
        self._writer.start()

    @property
    def broken(self) -> StoreError | None:
        """Why the store stopped acknowledging for good, if it did."""
        return self._writer.broken

    async def close(self) -> None:
        """Finish the commit in hand, fail what waits with StoreUnavailable, give up the folder.

        Takes at most twice `close_ms`, also on a disk that hangs. Idempotent.
        """
        await self._readers.close(within_ms=self._close_ms)
        await self._writer.close(within_ms=self._close_ms)
        self._folder.release()


async def open_sqlite(path: Path, settings: SqliteSettings | None = None) -> SqliteStore:
    """Open the store in a data folder, creating both if they never were, and upgrading an older store.

    Raises:
        StoreInUse: another process holds the folder or the database.
        StoreTooNew: a newer version wrote it.
        StoreUnsuitable: the folder can't be used.
        StoreDamaged: the database is missing, damaged or not ours; nothing was changed.
        UpgradeFailed: an older store can't be brought up to date; it is as it was.
        StoreFull: the disk has no room.
        StoreUnavailable: the disk failed.
    """
    settings = settings or SqliteSettings()
    folder = await asyncio.to_thread(lock_folder, path)
    try:
        boot = await asyncio.to_thread(_boot, folder, settings)
    except apsw.BusyError as error:
        folder.release()
        raise StoreInUse(f"another process holds {folder.database}: close it and try again") from error
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        folder.release()
        raise StoreUnsuitable(
            f"{path} can't be written ({error}): let this user write there. Nothing was changed."
        ) from error
    except (apsw.Error, OSError) as error:
        folder.release()
        raise as_port_error(error) from error
    except BaseException:
        folder.release()
        raise
    return SqliteStore(folder=folder, boot=boot, settings=settings)


def _boot(folder: DataFolder, settings: SqliteSettings) -> _Boot:
    """Finish a restore, create the database if there never was one, check, upgrade, void the leases in it."""
    newest, release = newest_version(settings.upgrade.migrations), settings.upgrade.release
    finish_restore(folder)
    folder.refuse_if_gone()
    created = not folder.database.exists()
    if created:
        create_database(folder, vfs=settings.vfs)
    refuse_foreign_log(folder.database, folder.remembered())
    folder.close_to_others()
    connection = open_writer(folder, vfs=settings.vfs, newest=newest, release=release)
    try:
        checked = quick_check(connection, budget_ms=settings.check_ms)
        generation = settle_generation(connection, folder, created=created)
        upgraded = upgrade(
            connection, folder.database, settings.upgrade, unix_ms=settings.clock.unix_ms(), vfs=settings.vfs
        )
        note_release(connection, release)
        voided = void_leases(connection, clock=settings.clock, lease_ms=settings.lease_ms)
        begin_graces(connection, now_unix_ms=settings.clock.unix_ms())
        folder.watch()
    except BaseException:
        connection.close()
        raise
    return _Boot(
        connection=connection,
        generation=generation,
        voided=voided,
        checked_whole=checked,
        upgrade=upgraded,
    )
