"""Bringing a store of an older schema up to date at boot: room, backup, migration, in this order.

Owns the order, and what stays at its end. The caller holds the folder's lock and nothing else has begun.
Whatever stops it on the way, the store is of the old schema or of the new one, and a backup that was made is
complete.
"""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw

from jackline_server.core.frozen import frozen
from jackline_server.storage.boot_errors import StoreUnsuitable, UpgradeFailed
from jackline_server.storage.sqlite.backup import KEPT, BackupFolder, free_bytes, require_room
from jackline_server.storage.sqlite.copy import copy_database
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.migrations import (
    MIGRATIONS,
    Migration,
    migrate,
    newest_version,
    schema_version,
)

_log = logging.getLogger(__name__)


@frozen
class UpgradeSettings:
    """`release` names this version, empty where it has no name. `kept` backups stay after an upgrade, from 1.

    `free` is the room on the disk of a folder, in bytes.
    """

    release: str = ""
    migrations: Sequence[Migration] = MIGRATIONS
    kept: int = KEPT
    free: Callable[[Path], int] = free_bytes


@frozen
class Upgrade:
    """What an upgrade did: from one schema to another, with a backup of the first."""

    old: int
    new: int
    backup: Path


def upgrade(
    connection: Database,
    database: Path,
    settings: UpgradeSettings,
    *,
    unix_ms: int,
    vfs: str | None,
) -> Upgrade | None:
    """Bring the store up to the newest schema; None if it is. Clears away what killed attempts left.

    Raises:
        StoreFull: there is not enough room; nothing was begun.
        StoreUnsuitable: the backup can't be kept beside the store.
        StoreDamaged: the backup could not be trusted.
        UpgradeFailed: a migration can't be applied.
        apsw.Error, OSError: the disk failed or is full.
    """
    folder = BackupFolder(database.parent)
    folder.clear_leftovers()
    old, new = schema_version(connection), newest_version(settings.migrations)
    if old >= new:
        return None
    require_room(database, settings.free)
    folder.open()
    # Attempts that fail again and again must not fill the disk with copies of the same data.
    folder.prune(settings.kept - 1, version=old)
    backup = folder.new_path(version=old, unix_ms=unix_ms)
    _log.info("upgrading the store from schema %d to %d; backing it up first", old, new)
    try:
        copy_database(connection, backup, vfs=vfs)
    except FileExistsError as error:
        raise StoreUnsuitable(
            f"{backup} was made by somebody else just now: start again. Nothing was changed."
        ) from error
    try:
        migrate(connection, settings.migrations, release=settings.release)
    except UpgradeFailed as error:
        raise UpgradeFailed(
            f"the upgrade of {database} from schema {old} to {new} failed: {error}. The store is as it was: "
            f"the version that wrote it can go on with it. A backup is at {backup}"
        ) from error
    _shorten_log(connection)
    folder.prune(settings.kept, sparing=backup)
    _log.info("upgraded the store from schema %d to %d; the backup is %s", old, new, backup)
    return Upgrade(old=old, new=new, backup=backup)


def readable_backup(data: Path, *, version: int) -> Path | None:
    """The newest automatic backup that a version which knows this schema can open."""
    usable = (backup.path for backup in BackupFolder(data).backups() if backup.version <= version)
    return next(usable, None)


def _shorten_log(connection: Database) -> None:
    """Move the migration out of the log; a reader from outside may hold it up, which does no harm."""
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError) as error:
        _log.info("the log of the store is shortened later: %s", error)
