"""A typed view of the SQLite driver: the few calls the store makes of a connection.

Owns how a connection is opened. The driver's own annotations need a newer Python than ours, so without
this page every call would be untyped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self, cast

import apsw

Value = str | bytes | int | float | None
Bindings = Sequence[Value] | Mapping[str, Value]


class Rows(Protocol):
    """What a statement returned; `get` is the first column of the first row, or None."""

    @property
    def get(self) -> object:
        """The only value, if there is one."""
        ...

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, None at the end."""
        ...

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        ...


class PageCopy(Protocol):
    """A copy under way; leaving the context ends it."""

    done: bool

    def __enter__(self) -> Self:
        """Begin."""
        ...

    def __exit__(self, *error: object) -> bool | None:
        """End; what is not copied yet is lost."""
        ...

    def step(self, npages: int = -1) -> bool:
        """Copy so many pages; True at the end."""
        ...


class Database(Protocol):
    """One connection. All methods raise `apsw.Error`; only `interrupt` may be called by another thread."""

    in_transaction: bool

    def execute(self, statements: str, bindings: Bindings | None = None) -> Rows:
        """Run one statement or several."""
        ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Bindings]) -> Rows:
        """Run one statement for each of the bindings."""
        ...

    def changes(self) -> int:
        """How many rows the last statement changed."""
        ...

    def last_insert_rowid(self) -> int:
        """The key of the row inserted last."""
        ...

    def set_busy_timeout(self, milliseconds: int) -> None:
        """How long to wait for a lock of another process."""
        ...

    def set_progress_handler(self, callable: Callable[[], bool] | None, nsteps: int = 100) -> None:  # noqa: A002 - the driver's own name
        """Ask now and then whether to give up the running statement."""
        ...

    def set_wal_hook(self, callable: Callable[..., int] | None) -> None:  # noqa: A002 - the driver's own name
        """Be told after each commit how many pages the log has."""
        ...

    def wal_checkpoint(self, dbname: str | None = None, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> object:
        """Move the log into the database file."""
        ...

    def backup(self, databasename: str, sourceconnection: "Database", sourcedatabasename: str) -> PageCopy:
        """Begin to copy another connection's pages into this one's file."""
        ...

    def config(self, op: int, *args: int) -> int:
        """Switch a setting of the connection."""
        ...

    def interrupt(self) -> None:
        """Make the running statement fail."""
        ...

    def close(self) -> None:
        """Close it; idempotent."""
        ...


def connect(file: Path, *, flags: int, vfs: str | None) -> Database:
    """Open a connection. `vfs` None is the system's own."""
    return cast("Database", apsw.Connection(str(file), flags=flags, vfs=vfs, statementcachesize=200))


def connect_looking(file: Path) -> Database:
    """Open a file that another process may have open, to read it alone, its log too; leaves nothing behind.

    It can't be opened where there is a log and nothing beside it that says what is in the log.
    """
    uri = f"{file.absolute().as_uri()}?mode=ro&readonly_shm=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return cast("Database", apsw.Connection(uri, flags=flags, statementcachesize=0))


def connect_frozen(file: Path) -> Database:
    """Open a file that nobody changes meanwhile, to read it alone: no lock, no log, nothing left beside."""
    uri = f"{file.absolute().as_uri()}?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return cast("Database", apsw.Connection(uri, flags=flags, statementcachesize=200))
