"""Copies of a SQLite store that can be trusted: made whole, checked, durable, and only then named.

Owns how a copy is made, also while a server writes. Does not own which store is copied, where to, or when.
What is not whole yet has a name that nobody else uses, and only whoever made it removes it.
"""

import errno
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw

from jackline_server.failpoints import hit
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreFull, StoreUnavailable
from jackline_server.storage.boot_errors import StoreUnsuitable
from jackline_server.storage.sqlite.database import Database, connect
from jackline_server.storage.sqlite.folder import sync_folder
from jackline_server.storage.sqlite.identity import name_anew, read_generation
from jackline_server.storage.sqlite.migrations import schema_version

BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite adds to the name of a database for the files that it keeps beside it."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)
"""How a file system says that a file can't have two names there."""

_NAME_CHARS = 60
_PAGES = 2_048


def copy_database(source: Database, target: Path, *, vfs: str | None) -> None:
    """Copy what `source` holds at this moment to a new file, check the copy, and make it durable.

    Others may write meanwhile; the copy is of one moment. Its generation is its own. Either the whole copy
    stands under its name at the end or nothing does, whatever happens in between, and whoever else makes a
    file of that name: nothing is ever written over. Mode 0600.

    Raises:
        FileExistsError: something has that name already, or got it meanwhile.
        StoreDamaged: the copy does not hold what the source does.
        apsw.Error, OSError: it can't be read or written.
    """
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    hit("backup.before")
    partial = partial_of(target, secrets.token_hex(8))
    # Held until the end: what is synchronised and published is the file that was made here.
    held = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        source.execute("BEGIN")
        try:
            counts = _counts(source)
            _copy_pages(source, partial, vfs=vfs)
        finally:
            source.execute("COMMIT")
        generation = _name_copy(partial, vfs=vfs)
        _check(partial, counts, generation, vfs=vfs)
        os.fsync(held)
        _publish(partial, target, held)
    finally:
        os.close(held)
        for suffix in ("", *BESIDE):
            Path(f"{partial}{suffix}").unlink(missing_ok=True)
    sync_folder(target.parent)


def open_aside(database: Path) -> Database:
    """A connection that only reads.

    Where no log is, SQLite makes an empty one and needs the right to write to clear it away at the end; it
    does so only if nobody else has the database open. A log that is there stays as it is.
    """
    is_closed = not any(Path(f"{database}{suffix}").exists() for suffix in BESIDE)
    flags = apsw.SQLITE_OPEN_READWRITE if is_closed else apsw.SQLITE_OPEN_READONLY
    source = connect(database, flags=flags, vfs=None)
    source.execute("PRAGMA query_only = 1")
    return source


def partial_of(target: Path, token: str) -> Path:
    """What a copy is called before it is whole. With a random token nobody else has the name."""
    return target.with_name(f".{target.name[:_NAME_CHARS]}.{token}.partial")


@contextmanager
def reported(source: Path, target: Path) -> Generator[None]:
    """Say what failed while `source` was copied to `target` in the errors of a store."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(f"{source} can't be read ({error})") from error
    except apsw.FullError as error:
        raise StoreFull(f"the disk of {target} is full; nothing was left there") from error
    except apsw.Error as error:
        raise StoreUnavailable(f"{source} can't be copied just now ({error}); nothing was left") from error
    except FileExistsError as error:
        raise StoreUnsuitable(
            f"{target} is there, and nothing is written over: choose another file"
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(f"the disk of {target} is full; nothing was left there") from error
        raise StoreUnsuitable(f"{target} can't be made ({error.strerror}): choose another file") from error


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


def _name_copy(partial: Path, *, vfs: str | None) -> str:
    """Give the copy a generation of its own: the log of the store that it came from is not its log."""
    copy = connect(partial, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        copy.execute("PRAGMA synchronous = OFF")
        return name_anew(copy)
    finally:
        copy.close()


def _check(partial: Path, counts: dict[str, object], generation: str, *, vfs: str | None) -> None:
    copy = connect(partial, flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
    try:
        finding = copy.execute("PRAGMA integrity_check(1)").get
        if finding != "ok":
            raise StoreDamaged(f"the copy is damaged ({finding}): what was copied, or the disk, is")
        if _counts(copy) != counts or read_generation(copy) != generation:
            raise StoreDamaged("the copy does not hold all that was copied")
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


def _publish(partial: Path, target: Path, held: int) -> None:
    """Give the file that is held open its name, unless something has it. Raises FileExistsError."""
    if not os.path.samestat(partial.stat(follow_symlinks=False), os.fstat(held)):
        raise StoreDamaged(f"{partial} was replaced while the copy was made")
    try:
        hit("backup.before_publish")
        os.link(partial, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _publish_without_links(partial, target)


def _publish_without_links(partial: Path, target: Path) -> None:
    """On a disk that knows no second name: an empty file keeps the name free from others until the move."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        partial.rename(target)
    except OSError:
        target.unlink()
        raise
