"""The Commands role of the SQLite store: submitting, reading, and what appends settle."""

from collections.abc import Sequence
from typing import cast

from jackline_server.runtime.ports.command_table import (
    Below,
    CommandOutcome,
    CommandRow,
    CommandState,
    Submission,
)
from jackline_server.runtime.ports.journal import Message
from jackline_server.runtime.ports.store_errors import CommandsWaiting
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.families import living_below
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Head, Session
from jackline_server.storage.sqlite.writer import Writer

_FIND = """
SELECT command_id, ordinal, payload, state, sequence, rejection FROM commands
WHERE run_key = ? AND command_id = ?
"""
_NEXT = "SELECT coalesce(max(ordinal), 0) + 1 FROM commands WHERE run_key = ?"
_INSERT = """
INSERT INTO commands (run_key, command_id, ordinal, payload, state, sequence, rejection)
VALUES (?, ?, ?, ?, 'pending', 0, '')
"""
_COUNT_IN = "UPDATE runs SET pending_commands = ?, ready = 1 WHERE run_key = ?"
_PENDING_IDS = "SELECT command_id FROM commands WHERE run_key = ? AND state = 'pending'"
_SETTLE = """
UPDATE commands SET state = ?, sequence = ?, rejection = ?
WHERE run_key = ? AND command_id = ? AND state = 'pending'
"""
_GET = """
SELECT command_id, ordinal, payload, state, sequence, rejection FROM commands
WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?) AND command_id = ?
"""
_PENDING = """
SELECT command_id, ordinal, payload, state, sequence, rejection FROM commands
WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?) AND state = 'pending' ORDER BY ordinal
"""
_UNHEARD = """
SELECT run_id FROM runs WHERE ready = 1 AND pending_commands > 0 ORDER BY created_unix_ms, run_id LIMIT ?
"""


class SqliteCommands:
    """The command table, in SQLite."""

    def __init__(self, *, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        """As the port says. A run that is not there is TERMINAL."""
        return await self._writer.run(_submit, (run_id, command_id, payload, limit, below))

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        """As the port says."""
        return await self._readers.run(_read_pending, run_id)

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        """As the port says."""
        return await self._readers.run(_read_one, (run_id, command_id))

    async def unheard(self, *, limit: int) -> Sequence[str]:
        """As the port says. A run that is driven counts, though its driver may have read the command."""
        return await self._readers.run(_read_unheard, limit)


def refuse_unsettled(session: Session, head: Head, settled: Sequence[CommandOutcome]) -> None:
    """Raise CommandsWaiting if a pending command of the run is not among those."""
    rows = cast("list[tuple[str]]", session.connection.execute(_PENDING_IDS, (head.run_key,)).fetchall())
    if not {row[0] for row in rows} <= {outcome.command_id for outcome in settled}:
        raise CommandsWaiting("commands came in since the run was last looked at")


def settle(session: Session, head: Head, outcomes: Sequence[CommandOutcome]) -> None:
    """Write the outcomes of pending commands; one that is unknown or settled stays as it is."""
    connection = session.connection
    for outcome in outcomes:
        connection.execute(
            _SETTLE,
            (outcome.state.value, outcome.sequence, outcome.rejection, head.run_key, outcome.command_id),
        )
        head.pending -= connection.changes()


def _submit(
    session: Session, command: tuple[str, str, bytes, int, Below | None]
) -> tuple[Submission, CommandRow | None]:
    run_id, command_id, payload, limit, below = command
    session.flush()
    head = session.head(run_id)
    if head is None:
        return Submission.TERMINAL, None
    connection = session.connection
    known = connection.execute(_FIND, (head.run_key, command_id)).fetchone()
    if known is not None:
        return Submission.REPEATED, _row(known)
    if head.terminal:
        return Submission.TERMINAL, None
    if head.pending >= limit:
        return Submission.FULL, None
    row = insert_command(session, head, command_id, payload)
    if below is not None:
        deliver(
            session,
            [
                Message(run_id=one, command_id=below.command_id, payload=below.payload)
                for one in living_below(session, run_id)
            ],
        )
    return Submission.ACCEPTED, row


def deliver(session: Session, messages: Sequence[Message]) -> None:
    """Put messages into the tables of runs that have not ended and do not know them. After a flush."""
    for message in messages:
        head = session.head(message.run_id)
        if head is None or head.terminal or knows_command(session, head, message.command_id):
            continue
        insert_command(session, head, message.command_id, message.payload)


def knows_command(session: Session, head: Head, command_id: str) -> bool:
    """True if the run's table has a command of that id."""
    return session.connection.execute(_FIND, (head.run_key, command_id)).fetchone() is not None


def insert_command(session: Session, head: Head, command_id: str, payload: bytes) -> CommandRow:
    """Put a command that is not there into the table of a run that has not ended. After a flush."""
    connection = session.connection
    ordinal = cast("int", connection.execute(_NEXT, (head.run_key,)).get)
    connection.execute(_INSERT, (head.run_key, command_id, ordinal, payload))
    head.pending += 1
    connection.execute(_COUNT_IN, (head.pending, head.run_key))
    return CommandRow(
        command_id=command_id,
        ordinal=ordinal,
        payload=payload,
        state=CommandState.PENDING,
        sequence=0,
        rejection="",
    )


def _read_unheard(connection: Database, limit: int) -> Sequence[str]:
    rows = cast("list[tuple[str]]", connection.execute(_UNHEARD, (limit,)).fetchall())
    return [run_id for (run_id,) in rows]


def _read_pending(connection: Database, run_id: str) -> Sequence[CommandRow]:
    return [_row(row) for row in connection.execute(_PENDING, (run_id,)).fetchall()]


def _read_one(connection: Database, which: tuple[str, str]) -> CommandRow | None:
    row = connection.execute(_GET, which).fetchone()
    return _row(row) if row is not None else None


def _row(row: object) -> CommandRow:
    command_id, ordinal, payload, state, sequence, rejection = cast(
        "tuple[str, int, bytes, str, int, str]", row
    )
    return CommandRow(
        command_id=command_id,
        ordinal=ordinal,
        payload=payload,
        state=CommandState(state),
        sequence=sequence,
        rejection=rejection,
    )
