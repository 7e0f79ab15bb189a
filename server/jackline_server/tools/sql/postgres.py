"""A database of a PostgreSQL server, through psycopg.

Owns the transaction that a statement runs in: read only unless the step writes, with a time that the server
itself keeps. A session is as new for every statement: what one has set does not reach the next.
"""

import ipaddress
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import cast

import psycopg
from psycopg import conninfo, errors
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.types.json import set_json_loads
from sqlalchemy import create_engine
from sqlalchemy.pool import PoolProxiedConnection, QueuePool

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.core.sql_text import marked
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.tools.results import clean_text
from jackline_server.tools.sql.databases import Question, SourceDown, SqlFailure, late
from jackline_server.tools.sql.job import Job
from jackline_server.tools.sql.rows import Rows, bound

_Connection = psycopg.Connection[tuple[object, ...]]

_CONNECT_S = 10
_CANCEL_S = 1.0
_CANCELLED_S = 0.2
"""How long a session that was told to cancel has before its line is cut."""
_SHORTEST_SECRET = 6
_MASK = "***"
_PASSING = ("08", "40", "53", "55P03", "57P")
"""Classes and codes of errors after which the same statement may succeed."""

_SETTINGS = (
    "SELECT set_config('statement_timeout', %s, true), set_config('TimeZone', 'UTC', true), "
    "set_config('DateStyle', 'ISO, YMD', true), set_config('IntervalStyle', 'iso_8601', true)"
)


class PostgresDatabase:
    """Implements `SqlDatabase`."""

    def __init__(self, url: Secret, *, concurrency: int) -> None:
        parts = conninfo.conninfo_to_dict(url.reveal())
        parts.setdefault("application_name", "jackline")
        parts.setdefault("connect_timeout", _CONNECT_S)
        if not _is_near(str(parts.get("host") or "")) and "PGSSLMODE" not in os.environ:
            parts.setdefault("sslmode", "require")
        hidden = {str(parts.get(part) or "") for part in ("password", "host", "user", "passfile")}
        self._hidden = tuple(sorted((one for one in hidden if len(one) >= _SHORTEST_SECRET), key=len)[::-1])
        self._engine = create_engine(
            "postgresql+psycopg://",
            creator=partial(_connect, Secret(conninfo.make_conninfo("", **parts))),
            poolclass=QueuePool,
            pool_size=concurrency,
            max_overflow=0,
            pool_pre_ping=True,
            use_native_hstore=False,
        )

    def answer(self, question: Question, job: Job) -> JsonObject:
        """See `SqlDatabase.answer`."""
        text, names = marked(question.statement, lambda number: f"%(p{number})s", _doubled)
        values = {f"p{number}": bound(question.values[name]) for number, name in enumerate(names)}
        held, connection = self._connected()
        whole = False
        try:
            with job.interrupted_by(partial(_cut, connection)):
                made = self._transaction(connection, text, values, question, job)
        except psycopg.Error as error:
            raise self._failure(error, job) from None
        else:
            whole = _is_as_new(connection)
            return made
        finally:
            if whole:
                held.close()
            else:
                held.invalidate()

    def check(self) -> None:
        """See `SqlDatabase.check`."""
        held, _ = self._connected()
        held.close()

    def close(self) -> None:
        """See `SqlDatabase.close`."""
        self._engine.dispose()

    def _connected(self) -> tuple[PoolProxiedConnection, _Connection]:
        try:
            held = self._engine.raw_connection()
        except Exception as error:  # noqa: BLE001 - whatever keeps us from a connection
            raise SourceDown(str(error)) from None
        connection = held.driver_connection
        if not isinstance(connection, psycopg.Connection):
            raise TypeError("the pool holds connections of psycopg")
        return held, cast(_Connection, connection)

    def _transaction(
        self,
        connection: _Connection,
        text: str,
        values: dict[str, object],
        question: Question,
        job: Job,
    ) -> JsonObject:
        connection.read_only = not question.writes
        connection.execute(_SETTINGS, (str(job.left_ms),))
        made = _answered(connection, text, values, question)
        if not question.writes:
            connection.rollback()
            return made
        if not job.may_commit():
            raise late()
        try:
            connection.commit()
        except psycopg.Error as error:
            if error.sqlstate is None:  # no word of the server's: the connection was lost
                message = "The connection was lost during the commit; whether anything was changed is open."
                raise SqlFailure(message, uncertain=True) from None
            raise
        return made

    def _failure(self, error: psycopg.Error, job: Job) -> SqlFailure:
        state = error.sqlstate or ""
        if isinstance(error, errors.QueryCanceled) and job.is_over:
            return late()
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return SqlFailure("The statement would write, and this step only reads; nothing was changed.")
        may_pass = state.startswith(_PASSING)
        if not state and isinstance(error, psycopg.OperationalError):
            if job.is_over:
                return late()
            return SqlFailure("The connection was lost; nothing was changed.", may_pass=True)
        said = clean_text(error.diag.message_primary or type(error).__name__)
        for one in self._hidden:
            said = said.replace(one, _MASK)
        return SqlFailure(
            f"The database refused the statement: {said} ({state or 'no code'}).", may_pass=may_pass
        )


def _connect(info: Secret) -> _Connection:
    connection = psycopg.connect(info.reveal(), prepare_threshold=None)
    for name in ("date", "time", "timetz", "interval"):
        connection.adapters.register_loader(name, _AsText)
    for name in ("timestamp", "timestamptz"):
        connection.adapters.register_loader(name, _Moment)
    set_json_loads(_json, connection)
    return connection


class _AsText(Loader):
    """A value as the server writes it: Python's own types would not hold each of them."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors="replace")


class _Moment(_AsText):
    """A date with a time, as ISO 8601 and RFC 3339 have it. `infinity` stays what it is."""

    def load(self, data: Buffer) -> str:
        text = super().load(data).replace(" ", "T", 1)
        return f"{text}:00" if text[-3:-2] in ("+", "-") and "T" in text else text


def _json(data: str | bytes) -> JsonValue:
    try:
        return json_text.parse(data)
    except json_text.JsonError:
        return data if isinstance(data, str) else data.decode(errors="replace")


def _answered(
    connection: _Connection,
    text: str,
    values: dict[str, object],
    question: Question,
) -> JsonObject:
    rows = Rows(max_rows=question.max_rows, max_bytes=question.max_bytes)
    with connection.cursor() as cursor:
        if not question.returns:
            cursor.execute(text.encode(), values, binary=True)  # so that it is one statement in any case
            return rows.answer(affected=max(cursor.rowcount, 0))
        count = 0
        for row in _streamed(cursor, text, values):
            if count == 0:
                rows.name([column.name for column in cursor.description or ()])
            count += 1
            rows.add(row)
            if rows.is_full and not question.writes:
                break
        if count == 0:
            rows.name(())
    return rows.answer(affected=count if question.writes else None)


def _streamed(
    cursor: psycopg.Cursor[tuple[object, ...]], text: str, values: dict[str, object]
) -> Iterator[Sequence[object]]:
    """The rows, one at a time, so that a long answer is never in memory as a whole."""
    yield from cursor.stream(text.encode(), values)


def _is_as_new(connection: _Connection) -> bool:
    """Make the session as new, or say that it can't be; what was done in it is done."""
    try:
        connection.autocommit = True
        connection.execute("DISCARD ALL")
        connection.autocommit = False
    except psycopg.Error:
        return False
    return True


def _cut(connection: _Connection) -> None:
    """End what a connection is doing: by word to the server, or else by hanging up."""
    with suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=_CANCEL_S)
        time.sleep(_CANCELLED_S)
    with suppress(psycopg.Error, OSError):
        if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)


def _is_near(host: str) -> bool:
    """True for a socket of this machine and for the loopback."""
    if not host or host.startswith(("/", "@")) or host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _doubled(text: str) -> str:
    return text.replace("%", "%%")
