"""Which store a database file is, and whether the log beside it is its own.

SQLite replays a log into whatever database it lies beside: put beside an older copy, the log of a killed
server turns it into a mixture. So every store has a random name, its generation; every copy gets one of its
own; the data folder remembers whose it is. A log that lies beside a database of another name is foreign.

Owns the generation and that judgement. The order of writes is what makes it sound: the folder remembers a
name before the log can hold anything of that store, and while a name changes it remembers both.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

import apsw

from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.storage.sqlite.database import Database, connect_frozen
from jackline_server.storage.sqlite.folder import DataFolder, log_of

_NO_GENERATION = "the database has no generation; restore it from a backup"


def new_generation() -> str:
    """A name that no store has."""
    return secrets.token_hex(16)


def read_generation(connection: Database) -> str:
    """The random name of the store. Raises StoreDamaged if it has none."""
    try:
        generation = connection.execute("SELECT value FROM meta WHERE name = 'generation'").get
    except apsw.SQLError as error:
        raise StoreDamaged(_NO_GENERATION) from error
    if not isinstance(generation, str) or not generation:
        raise StoreDamaged(_NO_GENERATION)
    return generation


def name_anew(connection: Database) -> str:
    """Give the store another name, which is then in its file and not only in its log.

    Raises:
        StoreDamaged: it has none that could change.
        apsw.Error: it can't be written, or somebody reads it.
    """
    read_generation(connection)
    fresh = new_generation()
    connection.execute("UPDATE meta SET value = ? WHERE name = 'generation'", (fresh,))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return fresh


def refuse_foreign_log(database: Path, remembered: Sequence[str]) -> None:
    """Refuse a log that was left by another database than the one that stands there now.

    To be asked before SQLite opens the file. What can't be told is let pass: a file that is torn, for which
    its log is the remedy, and a folder that remembers nothing.

    Raises:
        StoreDamaged: the log is foreign; nothing was changed.
    """
    log = log_of(database)
    if not remembered or not log.exists() or log.stat().st_size == 0:
        return
    found = _generation_in(database)
    if found is not None and found not in remembered:
        raise StoreDamaged(
            f"{log} is not the log of {database}, which was put in the place of another database: together "
            f"they would be a mixture of both. Move the log away if you want the database as it stands, or "
            f"put the database that belongs to it back; `jackline restore` takes care of both. "
            f"Nothing was changed."
        )


def settle_generation(connection: Database, folder: DataFolder, *, created: bool) -> str:
    """Make the folder remember whose it is, before anything else is written; the store's name from now on.

    A store that was brought here gets a name of its own, so that the copy it came from is foreign to its log
    from now on, too. A crash at any place leaves a folder that remembers the name in the file.

    Raises:
        StoreDamaged: the store has no name.
        apsw.Error, OSError: the disk failed or is full.
    """
    generation = read_generation(connection)
    if created or folder.remembered() == (generation,):
        folder.remember(generation)
        return generation
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError):
        # Somebody reads it from outside. The name stays; the next boot changes it.
        if generation not in folder.remembered():
            folder.remember(generation)
        return generation
    fresh = new_generation()
    folder.remember(generation, fresh)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'generation'", (fresh,))
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError):
        return fresh
    folder.remember(fresh)
    return fresh


def _generation_in(database: Path) -> str | None:
    """The name in the file itself, without its log; None if that can't be read."""
    try:
        connection = connect_frozen(database)
    except apsw.Error:
        return None
    try:
        return read_generation(connection)
    except (apsw.Error, StoreDamaged):
        return None
    finally:
        connection.close()
