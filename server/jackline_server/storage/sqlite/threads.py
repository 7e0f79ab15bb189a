"""The Threads role of the SQLite store: conversations and their messages.

Owns those tables but for whose turn it is, which `turns` writes in the commits of runs.
"""

from collections.abc import Sequence
from typing import cast

from jackline_server.core.facts import Usage
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.threads import (
    Appended,
    Appending,
    AppendOutcome,
    MessageRow,
    SteerDone,
    Steering,
    SteerOutcome,
    ThreadRow,
    ThreadView,
)
from jackline_server.storage.blob_names import THREAD
from jackline_server.storage.sqlite.blobs import find_blobs, hold
from jackline_server.storage.sqlite.commands import insert_command, knows_command
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.turns import add_messages, open_thread
from jackline_server.storage.sqlite.writing import Writing
from jackline_server.storage.thread_rules import MOST_PENDING, within

_COLUMNS = """
SELECT tenant, thread_id, created_unix_ms, changed_unix_ms, messages,
  (SELECT count(*) FROM thread_pending WHERE thread_pending.thread_key = threads.thread_key),
  coalesce((SELECT run_id FROM runs WHERE runs.run_key = threads.active_run_key), ''),
  (SELECT count(*) FROM run_threads WHERE run_threads.thread_key = threads.thread_key AND place IS NOT NULL),
  ended, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, estimated, cost_micros
FROM threads WHERE tenant = ?
"""
_GET = f"{_COLUMNS} AND thread_id = ?"
_PAGE = f"{_COLUMNS} ORDER BY created_unix_ms DESC, thread_id DESC LIMIT ?"
_OLDER = f"""{_COLUMNS} AND (created_unix_ms, thread_id) < (?, ?)
ORDER BY created_unix_ms DESC, thread_id DESC LIMIT ?"""

_OF_THREAD = """
SELECT position, digest, role, size, run_id, principal, added_unix_ms FROM thread_messages
WHERE thread_key = (SELECT thread_key FROM threads WHERE tenant = ? AND thread_id = ?)
"""
_NEWEST = f"{_OF_THREAD} ORDER BY position DESC LIMIT ?"
_AFTER = f"{_OF_THREAD} AND position > ? ORDER BY position LIMIT ?"

_FIND_APPEND = "SELECT fingerprint FROM thread_appends WHERE thread_key = ? AND request_id = ?"
_INSERT_APPEND = "INSERT INTO thread_appends (thread_key, request_id, fingerprint) VALUES (?, ?, ?)"
_ACTIVE = """
SELECT active_run_key,
  (SELECT count(*) FROM thread_pending WHERE thread_pending.thread_key = threads.thread_key)
FROM threads WHERE thread_key = ?
"""
_PEND = """
INSERT INTO thread_pending (thread_key, digest, role, size, principal) VALUES (?, ?, ?, ?, ?)
"""
_CHANGED = "UPDATE threads SET changed_unix_ms = ? WHERE thread_key = ?"
_ACTIVE_RUN = """
SELECT run_id FROM runs
WHERE run_key = (SELECT active_run_key FROM threads WHERE tenant = ? AND thread_id = ?)
"""
_FIND_REQUEST = "SELECT run_id, fingerprint FROM requests WHERE tenant = ? AND request_id = ?"
_INSERT_REQUEST = """
INSERT INTO requests (tenant, request_id, fingerprint, run_id, created_unix_ms) VALUES (?, ?, ?, ?, ?)
"""

_Place = tuple[str, str, int, int, int]
_Before = tuple[int, str] | None


class SqliteThreads:
    """Conversations, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def newest(self, tenant: Tenant, thread_id: str, *, limit: int, size: int) -> ThreadView | None:
        """As the port says."""
        return await self._readers.run(_newest, (tenant.id, thread_id, 0, limit, size))

    async def after(
        self, tenant: Tenant, thread_id: str, position: int, *, limit: int, size: int
    ) -> ThreadView | None:
        """As the port says."""
        return await self._readers.run(_after, (tenant.id, thread_id, position, limit, size))

    async def page(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        """As the port says."""
        return await self._readers.run(_page, (tenant.id, before, limit))

    async def append(self, appending: Appending) -> Appended:
        """As the port says."""
        return await self._writer.run(_append, appending)

    async def steer(self, steering: Steering) -> SteerDone:
        """As the port says."""
        return await self._writer.run(_steer, steering)


def _newest(connection: Database, what: _Place) -> ThreadView | None:
    tenant, thread_id, _, limit, size = what
    row = connection.execute(_GET, (tenant, thread_id)).fetchone()
    if row is None:
        return None
    found = connection.execute(_NEWEST, (tenant, thread_id, limit)).fetchall()
    return ThreadView(row=_row(row), messages=within(map(_message, found), size, least=0)[::-1])


def _after(connection: Database, what: _Place) -> ThreadView | None:
    tenant, thread_id, position, limit, size = what
    row = connection.execute(_GET, (tenant, thread_id)).fetchone()
    if row is None:
        return None
    found = connection.execute(_AFTER, (tenant, thread_id, position, limit)).fetchall()
    return ThreadView(row=_row(row), messages=within(map(_message, found), size, least=1))


def _page(connection: Database, what: tuple[str, _Before, int]) -> Sequence[ThreadRow]:
    tenant, before, limit = what
    if before is None:
        found = connection.execute(_PAGE, (tenant, limit))
    else:
        found = connection.execute(_OLDER, (tenant, *before, limit))
    return [_row(row) for row in found.fetchall()]


def _append(session: Session, appending: Appending) -> Appended:
    session.flush()
    tenant, connection = appending.tenant.id, session.connection
    blobs = find_blobs(session, tenant, [message.digest for message in appending.messages])
    thread_key = open_thread(session, tenant, appending.thread_id, unix_ms=appending.unix_ms)

    def answer(outcome: AppendOutcome) -> Appended:
        row = connection.execute(_GET, (tenant, appending.thread_id)).fetchone()
        return Appended(outcome=outcome, row=_row(row))

    if appending.request_id:
        known = connection.execute(_FIND_APPEND, (thread_key, appending.request_id)).get
        if known is not None:
            same = known == appending.fingerprint
            return answer(AppendOutcome.REPEATED if same else AppendOutcome.CONFLICT)
    active, pending = cast("tuple[int | None, int]", connection.execute(_ACTIVE, (thread_key,)).fetchone())
    if active is not None and pending + len(appending.messages) > MOST_PENDING:
        return answer(AppendOutcome.FULL)
    if appending.request_id:
        connection.execute(_INSERT_APPEND, (thread_key, appending.request_id, appending.fingerprint))
    hold(session, blobs, kind=THREAD, holder=str(thread_key))
    if active is None:
        add_messages(
            session, thread_key, appending.messages, principal=appending.principal, unix_ms=appending.unix_ms
        )
        return answer(AppendOutcome.ADDED)
    for message in appending.messages:
        values = (thread_key, message.digest, message.role, message.size, appending.principal)
        connection.execute(_PEND, values)
    connection.execute(_CHANGED, (appending.unix_ms, thread_key))
    return answer(AppendOutcome.PENDING)


def _steer(session: Session, steering: Steering) -> SteerDone:
    session.flush()
    tenant, connection = steering.tenant.id, session.connection
    if steering.request_id:
        known = connection.execute(_FIND_REQUEST, (tenant, steering.request_id)).fetchone()
        if known is not None:
            run_id, fingerprint = cast("tuple[str, bytes]", known)
            same = fingerprint == steering.fingerprint
            return SteerDone(outcome=SteerOutcome.DUPLICATE if same else SteerOutcome.CONFLICT, run_id=run_id)
    active = connection.execute(_ACTIVE_RUN, (tenant, steering.thread_id)).get
    head = session.head(steering.run_id)
    if active != steering.run_id or head is None:
        return SteerDone(outcome=SteerOutcome.MOVED, run_id=steering.run_id)
    if head.pending >= steering.limit:
        return SteerDone(outcome=SteerOutcome.FULL, run_id=steering.run_id)
    if steering.request_id:
        connection.execute(
            _INSERT_REQUEST,
            (tenant, steering.request_id, steering.fingerprint, steering.run_id, steering.unix_ms),
        )
    if not knows_command(session, head, steering.command_id):
        insert_command(session, head, steering.command_id, steering.payload)
    return SteerDone(outcome=SteerOutcome.ACCEPTED, run_id=steering.run_id)


def _message(row: object) -> MessageRow:
    position, digest, role, size, run_id, principal, added = cast(
        "tuple[int, str, str, int, str, str, int]", row
    )
    return MessageRow(
        position=position,
        digest=digest,
        role=role,
        size=size,
        run_id=run_id,
        principal=principal,
        added_unix_ms=added,
    )


def _row(row: object) -> ThreadRow:
    tenant, thread_id, created, changed, messages, pending, active, waiting, ended, *used, cost = cast(
        "tuple[str, str, int, int, int, int, str, int, int, int, int, int, int, int, int]", row
    )
    prompt, completion, cached, reasoning, estimated = cast("tuple[int, int, int, int, int]", tuple(used))
    return ThreadRow(
        tenant=Tenant(tenant),
        thread_id=thread_id,
        created_unix_ms=created,
        changed_unix_ms=changed,
        messages=messages,
        pending=pending,
        active_run=active,
        waiting=waiting,
        ended=ended,
        usage=Usage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached,
            reasoning_tokens=reasoning,
            estimated=bool(estimated),
        ),
        cost_micros=cost,
    )
