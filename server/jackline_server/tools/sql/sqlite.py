"""A database in a file, read by the SQLite of this Python.

Owns what a statement may do there, and the database itself enforces it: a step that reads has a connection
that can't write, and no step attaches a file, loads code or changes how the database works.
"""

import sqlite3
from functools import partial
from pathlib import Path
from urllib.parse import quote

from jackline_server.core.plan import JsonObject
from jackline_server.core.sql_text import marked
from jackline_server.tools.results import HARD_BYTES, clean_text
from jackline_server.tools.sql.databases import Question, SourceDown, SqlFailure, late
from jackline_server.tools.sql.idle import IdleConnections
from jackline_server.tools.sql.job import Job
from jackline_server.tools.sql.rows import Rows, bound

_PRIMARY = 0xFF
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_PATIENCE_MS = 100
_STEPS = 5_000
"""So many instructions of SQLite's machine between two looks at the time."""

_PATTERN_BYTES = 1_000
"""The longest pattern of LIKE and GLOB. Matching can't be interrupted, and takes its length times that of the
text: a model that writes a pattern could keep a slot of the data source, and its lock, beyond its time."""

_READS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_WRITES = _READS | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
_HARMLESS_PRAGMAS = frozenset(
    ("data_version", "table_info", "table_xinfo", "table_list", "index_list", "index_info")
)
_MARKER = "p"


class SqliteFileDatabase:
    """Implements `SqlDatabase`."""

    def __init__(self, file: Path, *, concurrency: int) -> None:
        self._connections = {
            writes: IdleConnections(partial(_connect, file, writes=writes), most=concurrency)
            for writes in (False, True)
        }

    def answer(self, question: Question, job: Job) -> JsonObject:
        """See `SqlDatabase.answer`."""
        text, names = marked(question.statement, lambda number: f":{_MARKER}{number}", _as_it_is)
        values = {f"{_MARKER}{number}": bound(question.values[name]) for number, name in enumerate(names)}
        try:
            with (
                self._connections[question.writes].taken() as connection,
                job.interrupted_by(connection.interrupt),
            ):
                connection.set_progress_handler(lambda: job.is_over, _STEPS)
                made = _transaction(connection, text, values, question, job)
                connection.set_progress_handler(None, _STEPS)
        except OverflowError:
            raise SqlFailure("A number has more than 64 bits.") from None
        except sqlite3.Error as error:
            raise _failure(error, job) from None
        else:
            return made

    def check(self) -> None:
        """See `SqlDatabase.check`."""
        try:
            with self._connections[False].taken() as connection:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            raise SourceDown(str(error)) from None

    def close(self) -> None:
        """See `SqlDatabase.close`."""
        for connections in self._connections.values():
            connections.close()


def _connect(file: Path, *, writes: bool) -> sqlite3.Connection:
    """Raises SourceDown."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(file))}?mode={'rw' if writes else 'ro'}",
            uri=True,
            timeout=_PATIENCE_MS / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
    except sqlite3.Error as error:
        raise SourceDown(str(error)) from None
    try:
        _settled(connection, writes=writes)
    except sqlite3.Error as error:
        connection.close()
        raise SourceDown(str(error)) from None
    return connection


def _settled(connection: sqlite3.Connection, *, writes: bool) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, HARD_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
    connection.text_factory = _read_text
    connection.execute("PRAGMA foreign_keys = ON")
    if not writes:
        connection.execute("PRAGMA query_only = ON")


def _transaction(
    connection: sqlite3.Connection, text: str, values: dict[str, object], question: Question, job: Job
) -> JsonObject:
    _patiently(connection, "BEGIN IMMEDIATE" if question.writes else "BEGIN", job)
    if not question.writes:
        _patiently(connection, "SELECT 1 FROM sqlite_schema", job)  # takes the lock that a reader needs
    made = _answered(connection, text, values, question)
    if not question.writes:
        connection.execute("ROLLBACK")
        return made
    if not job.may_commit():
        raise late()
    _committed(connection, job)
    return made


def _answered(
    connection: sqlite3.Connection, text: str, values: dict[str, object], question: Question
) -> JsonObject:
    rows = Rows(max_rows=question.max_rows, max_bytes=question.max_bytes)
    before = connection.total_changes
    connection.set_authorizer(_may_write if question.writes else _may_read)
    try:
        cursor = connection.execute(text, values)
        if cursor.description is not None:
            rows.name([str(column[0]) for column in cursor.description])
        for row in cursor:
            rows.add(row)
            if rows.is_full and not question.writes:
                break
        cursor.close()
    finally:
        connection.set_authorizer(None)
    return rows.answer(affected=connection.total_changes - before if question.writes else None)


def _committed(connection: sqlite3.Connection, job: Job) -> None:
    try:
        connection.set_progress_handler(None, _STEPS)
        _patiently(connection, "COMMIT", job)
    except sqlite3.Error as error:
        code = _code(error)
        if code not in _BUSY and code != sqlite3.SQLITE_CONSTRAINT:
            message = "The database failed while it committed; whether anything was changed is open."
            raise SqlFailure(message, uncertain=True) from None
        raise


def _patiently(connection: sqlite3.Connection, statement: str, job: Job) -> None:
    """Run a statement of ours, and again while another holds the lock and there is time."""
    while True:
        try:
            connection.execute(statement).close()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or job.is_over:
                raise
        else:
            return


def _may(allowed: frozenset[int], code: int, first: str | None, second: str | None) -> int:
    if code in allowed and not (code == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
        return sqlite3.SQLITE_OK
    if code == sqlite3.SQLITE_PRAGMA and first in _HARMLESS_PRAGMAS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _may_read(code: int, first: str | None, second: str | None, *_: str | None) -> int:
    return _may(_READS, code, first, second)


def _may_write(code: int, first: str | None, second: str | None, *_: str | None) -> int:
    return _may(_WRITES, code, first, second)


def _read_text(data: bytes) -> str:
    return data.decode(errors="replace")


def _as_it_is(text: str) -> str:
    return text


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def _failure(error: sqlite3.Error, job: Job) -> SqlFailure:
    code = _code(error)
    if code == sqlite3.SQLITE_INTERRUPT or (code in _BUSY and job.is_over):
        return late()
    if code in _BUSY:
        return SqlFailure("Another holds the lock of the database; nothing was changed.", may_pass=True)
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH):
        return SqlFailure("The statement does what this step may not do; nothing was changed.")
    return SqlFailure(f"The database refused the statement: {clean_text(str(error))}.")
