"""Whose turn it is in a thread, in SQLite: what a run's creation and its end write of it.

Owns `run_threads`, the active run and the totals of `threads`, and adding messages. All of it happens inside
the commit of the run that it is about, so that no crash leaves a thread busy for a run that has ended.
"""

from collections.abc import Sequence
from typing import cast

from jackline_server.runtime.ports.journal import Append, NewRun
from jackline_server.runtime.ports.thread_turns import Joining, NewMessage, Turn
from jackline_server.storage.blob_names import THREAD
from jackline_server.storage.sqlite.blobs import hold
from jackline_server.storage.sqlite.commands import insert_command, knows_command
from jackline_server.storage.sqlite.session import Head, Session

_OPEN = """
INSERT INTO threads (tenant, thread_id, created_unix_ms, changed_unix_ms, messages, ended, prompt_tokens,
  completion_tokens, cached_tokens, reasoning_tokens, estimated, cost_micros)
VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING
"""
_KEY = "SELECT thread_key FROM threads WHERE tenant = ? AND thread_id = ?"
_STANDING = "SELECT active_run_key, messages FROM threads WHERE tenant = ? AND thread_id = ?"
_ACTIVATE = "UPDATE threads SET active_run_key = ?, changed_unix_ms = ? WHERE thread_key = ?"
_JOIN = "INSERT INTO run_threads (run_key, thread_key, place, replaces) VALUES (?, ?, ?, ?)"
_PLACES = "SELECT min(place), max(place) FROM run_threads WHERE thread_key = ? AND place IS NOT NULL"
_REPLACED = """
SELECT run_id FROM runs WHERE run_key = (SELECT active_run_key FROM threads WHERE thread_key = ?)
UNION ALL
SELECT run_id FROM run_threads JOIN runs USING (run_key)
WHERE thread_key = ? AND place IS NOT NULL AND replaces = 1 AND run_key <> ?
"""
_ACTIVE = "SELECT active_run_key FROM threads WHERE thread_key = ?"
_NEXT = """
SELECT run_key, run_id FROM run_threads JOIN runs USING (run_key)
WHERE thread_key = ? AND place IS NOT NULL ORDER BY place LIMIT 1
"""
_TURN = "UPDATE run_threads SET place = NULL WHERE run_key = ?"
_READY = "UPDATE runs SET ready = ? WHERE run_key = ?"
_USED = """
UPDATE threads SET ended = ended + 1, prompt_tokens = prompt_tokens + ?,
  completion_tokens = completion_tokens + ?, cached_tokens = cached_tokens + ?,
  reasoning_tokens = reasoning_tokens + ?, estimated = max(estimated, ?), cost_micros = cost_micros + ?
WHERE thread_key = ?
"""
_COUNT = "SELECT messages FROM threads WHERE thread_key = ?"
_ADD = """
INSERT INTO thread_messages (thread_key, position, digest, role, size, run_id, principal, added_unix_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNTED = "UPDATE threads SET messages = ?, changed_unix_ms = ? WHERE thread_key = ?"
_PENDING = (
    "SELECT digest, role, size, principal FROM thread_pending WHERE thread_key = ? ORDER BY pending_key"
)
_NO_MORE_PENDING = "DELETE FROM thread_pending WHERE thread_key = ?"


def can_join(session: Session, tenant: str, joining: Joining) -> bool:
    """True if the thread is as the new run was drafted for. Writes nothing."""
    row = session.connection.execute(_STANDING, (tenant, joining.thread_id)).fetchone()
    active, messages = cast("tuple[int | None, int]", (None, 0) if row is None else row)
    if joining.turn is not Turn.NOW:
        return active is not None
    return active is None and messages == joining.position


def join(session: Session, run_key: int, new: NewRun, joining: Joining) -> None:
    """Give a run that was just inserted its place; `can_join` was true."""
    connection = session.connection
    thread_key = open_thread(session, new.tenant.id, joining.thread_id, unix_ms=new.created_unix_ms)
    if joining.turn is Turn.NOW:
        connection.execute(_JOIN, (run_key, thread_key, None, False))
        connection.execute(_ACTIVATE, (run_key, new.created_unix_ms, thread_key))
        return
    first, last = cast("tuple[int | None, int | None]", connection.execute(_PLACES, (thread_key,)).fetchone())
    replaces = joining.turn is Turn.NEXT
    place = (first or 0) - 1 if replaces else (last or 0) + 1
    connection.execute(_JOIN, (run_key, thread_key, place, replaces))
    if replaces and joining.abort is not None:
        found = connection.execute(_REPLACED, (thread_key, thread_key, run_key)).fetchall()
        for (run_id,) in cast("list[tuple[str]]", found):
            head = session.head(run_id)
            if head is not None and not knows_command(session, head, joining.abort.command_id):
                insert_command(session, head, joining.abort.command_id, joining.abort.payload)


def leave(session: Session, head: Head, append: Append, blobs: Sequence[int]) -> None:
    """End the turn of a run that has ended, and begin the next one's. `blobs` are those of its messages."""
    connection, thread_key, share = session.connection, head.thread_key, append.thread
    if thread_key is None:
        return
    unix_ms = append.finished_unix_ms or session.clock.unix_ms()
    session.flush()
    if share is not None:
        usage = share.usage
        connection.execute(
            _USED,
            (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.cached_tokens,
                usage.reasoning_tokens,
                usage.estimated,
                share.cost_micros,
                thread_key,
            ),
        )
    if connection.execute(_ACTIVE, (thread_key,)).get != head.run_key:
        connection.execute(_TURN, (head.run_key,))
        head.waits = False
        return
    if share is not None:
        hold(session, blobs, kind=THREAD, holder=str(thread_key))
        add_messages(session, thread_key, share.messages, run_id=head.run_id, unix_ms=unix_ms)
    pending = cast("list[tuple[str, str, int, str]]", connection.execute(_PENDING, (thread_key,)).fetchall())
    for digest, role, size, principal in pending:
        message = NewMessage(digest=digest, role=role, size=size)
        add_messages(session, thread_key, [message], principal=principal, unix_ms=unix_ms)
    connection.execute(_NO_MORE_PENDING, (thread_key,))
    _begin_next(session, thread_key, unix_ms=unix_ms)


def _begin_next(session: Session, thread_key: int, *, unix_ms: int) -> None:
    connection = session.connection
    found = connection.execute(_NEXT, (thread_key,)).fetchone()
    if found is None:
        connection.execute(_ACTIVATE, (None, unix_ms, thread_key))
        return
    run_key, run_id = cast("tuple[int, str]", found)
    connection.execute(_ACTIVATE, (run_key, unix_ms, thread_key))
    connection.execute(_TURN, (run_key,))
    head = session.head(run_id)
    if head is not None:
        head.waits = False
        ready = session.is_ready(head.phase, pending=head.pending, waits=head.is_delayed)
        connection.execute(_READY, (ready, run_key))


def open_thread(session: Session, tenant: str, thread_id: str, *, unix_ms: int) -> int:
    """The key of a thread, which is made if there is none."""
    connection = session.connection
    connection.execute(_OPEN, (tenant, thread_id, unix_ms, unix_ms))
    return cast("int", connection.execute(_KEY, (tenant, thread_id)).get)


def add_messages(
    session: Session,
    thread_key: int,
    messages: Sequence[NewMessage],
    *,
    run_id: str = "",
    principal: str = "",
    unix_ms: int,
) -> None:
    """Add messages at the end of a thread."""
    connection = session.connection
    count = cast("int", connection.execute(_COUNT, (thread_key,)).get)
    connection.executemany(
        _ADD,
        [
            (thread_key, position, one.digest, one.role, one.size, run_id, principal, unix_ms)
            for position, one in enumerate(messages, count + 1)
        ],
    )
    connection.execute(_COUNTED, (count + len(messages), unix_ms, thread_key))
