"""Step kind `sql`: one statement, in a thread, in a slot of its data source, and what its end means.

Owns the time of a call and its slot. Whether anything was changed is always known, but for a commit whose
answer did not come: until a commit is sent a call can be given up.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from jackline_server.core.plan import Effect, SqlAction
from jackline_server.core.sql_text import CALL_KEY, SqlProblem, read_statement
from jackline_server.core.templates import TemplateError, names
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionView
from jackline_server.runtime.ports.sql import DataSource, SqliteFile
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.guards import Guard, NoPlace, Place, is_fair
from jackline_server.tools.results import completed, failed
from jackline_server.tools.sql.databases import Question, SourceDown, SqlDatabase, SqlFailure
from jackline_server.tools.sql.job import Job

_log = logging.getLogger(__name__)

_DATABASE_S = 0.3
"""The database keeps the time itself; so much later the statement is given up."""

_FAREWELL_S = 0.5
_CLOSE_S = 5.0


class SqlTool:
    """Runs statements on the data sources of a config. Connects to one when it is first asked."""

    def __init__(self, sources: Mapping[str, DataSource]) -> None:
        self._lines = {name: _Line(source) for name, source in sources.items()}
        self._jobs: set[Job] = set()

    async def call(self, action: SqlAction, invocation: Invocation) -> ToolResult:
        """Run the statement. Waits for a slot of the data source first; that counts.

        Raises nothing but CancelledError, upon which the statement is stopped in the database.
        """
        line = self._lines.get(action.connection)
        if line is None:
            return failed(f"There is no data source {action.connection!r} on this server.")
        writes = invocation.step.effect is not Effect.READ
        if writes and not line.source.writes:
            return failed("The operator lets nothing be written to this data source.")
        try:
            question = _question(action, invocation, line.source, writes=writes)
        except (TemplateError, SqlProblem) as problem:
            return failed(f"The statement can't be run: {problem}.")
        job = Job(deadline=time.monotonic() + min(invocation.timeout_ms, line.source.timeout_ms) / 1000)
        try:
            until = asyncio.get_running_loop().time() + job.left_ms / 1000
            place = await line.guard.take(until, on_wait=invocation.on_wait)
        except NoPlace as none:
            return none.result
        had_time = is_fair(job.left_ms, line.source.timeout_ms)
        statement = _Statement(line, question, job, place, had_time)
        result = await self._waited(statement, repeatable=invocation.step.effect.repeatable)
        place.heard(result)
        return result

    def views(self) -> list[ConnectionView]:
        """See `ConnectionSource`."""
        return [line.guard.view(ConnectionKind.SQL) for line in self._lines.values()]

    async def check(self, name: str) -> None:
        """Connect to a data source. Raises SourceDown, and KeyError if there is none of that name."""
        await asyncio.to_thread(self._lines[name].check)

    async def close(self) -> None:
        """Stop every statement, and close the connections. Bounded."""
        for job in tuple(self._jobs):
            job.give_up()
        closing = [asyncio.create_task(asyncio.to_thread(line.close)) for line in self._lines.values()]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)

    async def _waited(self, statement: "_Statement", *, repeatable: bool) -> ToolResult:
        job = statement.job
        ended = self._started(statement, repeatable=repeatable)
        try:
            await asyncio.wait({ended}, timeout=job.left_ms / 1000 + _DATABASE_S)
            if ended.done():
                return ended.result()
            certain = job.give_up()
            await asyncio.wait({ended}, timeout=_FAREWELL_S)
        except asyncio.CancelledError:
            job.give_up()
            raise
        if ended.done():
            return ended.result()
        if not job.has_connection:
            message = "The data source did not answer in time; nothing will be changed."
            return failed(message, timed_out=True, connection_failed=statement.had_time)
        if certain:
            return failed("The statement did not finish in time; nothing will be changed.", timed_out=True)
        message = "The commit did not finish in time; whether anything was changed is open."
        return failed(message, uncertain=not repeatable, timed_out=True)

    def _started(self, statement: "_Statement", *, repeatable: bool) -> asyncio.Future[ToolResult]:
        """Run it in a thread whose place was taken; the place is given back when the thread ends."""
        loop, job = asyncio.get_running_loop(), statement.job
        ended: asyncio.Future[ToolResult] = loop.create_future()
        self._jobs.add(job)

        def finish(result: ToolResult) -> None:
            self._jobs.discard(job)
            statement.place.release()
            if not ended.done():
                ended.set_result(result)

        def run() -> None:
            result = _outcome(statement.line, statement.question, job, repeatable=repeatable)
            try:
                loop.call_soon_threadsafe(finish, result)
            except RuntimeError:
                return  # the loop is closed: the server is gone and nobody waits

        # A daemon: a database that never answers must not keep the server from ending.
        threading.Thread(target=run, name="jackline-sql", daemon=True).start()
        return ended


@dataclass(frozen=True, slots=True)
class _Statement:
    """One statement that is run, and its place on the data source.

    `had_time`: to be late is the data source's own failure, if that has not even been reached.
    """

    line: "_Line"
    question: Question
    job: Job
    place: Place
    had_time: bool


class _Line:
    """A data source with what guards it, and its database once it was asked."""

    def __init__(self, source: DataSource) -> None:
        self.source = source
        self.guard = Guard(source)
        self._lock = threading.Lock()
        self._database: SqlDatabase | None = None

    def database(self) -> SqlDatabase:
        """The database. Blocking: the first time a library is imported."""
        with self._lock:
            if self._database is None:
                self._database = _database(self.source)
            return self._database

    def check(self) -> None:
        self.database().check()

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()


def _database(source: DataSource) -> SqlDatabase:
    place = source.database
    if isinstance(place, SqliteFile):
        from jackline_server.tools.sql.sqlite import SqliteFileDatabase  # noqa: PLC0415 - a library, on first use

        return SqliteFileDatabase(place.file, concurrency=source.concurrency)
    from jackline_server.tools.sql.postgres import PostgresDatabase  # noqa: PLC0415 - see above

    return PostgresDatabase(place.url, concurrency=source.concurrency)


def _question(action: SqlAction, invocation: Invocation, source: DataSource, *, writes: bool) -> Question:
    """Raises TemplateError for a name without a value, SqlProblem for what is no statement to be run."""
    statement = read_statement(action.statement)
    values = {**invocation.values, CALL_KEY: invocation.call_key}
    for name in names(action.statement):
        if name not in values:
            raise TemplateError(f"`{name}` has no value")
    return Question(
        statement=action.statement,
        values=values,
        writes=writes,
        returns=statement.returns,
        max_rows=min(action.max_rows or source.max_rows, source.max_rows),
        max_bytes=source.max_bytes,
    )


def _outcome(line: _Line, question: Question, job: Job, *, repeatable: bool) -> ToolResult:
    try:
        return completed(line.database().answer(question, job))
    except SourceDown as down:
        _log.warning("a data source can't be reached", extra={"data_source": line.source.name})
        return failed(down.message, may_pass=True, connection_failed=True)
    except SqlFailure as failure:
        return failed(
            failure.message,
            uncertain=failure.uncertain and not repeatable,
            may_pass=failure.may_pass,
            timed_out=failure.timed_out,
        )
    except Exception as error:  # noqa: BLE001 - the thread ends here, and a driver may raise anything
        _log.warning("a statement failed", extra={"error_type": type(error).__name__})
        return failed(f"The statement failed: {type(error).__name__}.", uncertain=not repeatable)
