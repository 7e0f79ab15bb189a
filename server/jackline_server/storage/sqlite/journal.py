"""The Journal role of the SQLite store: what a create and an append check and write, and reading back.

Owns those rules. Commands that an append settles are written by the module of the command table.
"""

import json
from collections.abc import Iterable, Sequence
from typing import cast

from jackline_server.failpoints import hit
from jackline_server.runtime.ports.journal import Append, Created, Creation, NewRun, StoredEvent
from jackline_server.runtime.ports.store_errors import Fenced, HeadMismatch, StoreDamaged
from jackline_server.runtime.ports.thread_turns import ThreadShare, Turn
from jackline_server.storage.blob_names import RUN
from jackline_server.storage.order import check_append, check_create
from jackline_server.storage.reading import within_read
from jackline_server.storage.sqlite import turns as sqlite_turns
from jackline_server.storage.sqlite.blobs import find_blobs, hold
from jackline_server.storage.sqlite.commands import deliver, refuse_unsettled, settle
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.deliveries import owe
from jackline_server.storage.sqlite.families import note_parent
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Head, Session
from jackline_server.storage.sqlite.switches import halt_newborn, is_halted
from jackline_server.storage.sqlite.writing import Writing

_FIND_REQUEST = "SELECT run_id, fingerprint FROM requests WHERE tenant = ? AND request_id = ?"
_INSERT_PLAN = "INSERT INTO plans (digest, plan) VALUES (?, ?) ON CONFLICT DO NOTHING"
_INSERT_LABEL = "INSERT INTO labels (name, value, run_key) VALUES (?, ?, ?)"
_INSERT_REQUEST = """
INSERT INTO requests (tenant, request_id, fingerprint, run_id, created_unix_ms) VALUES (?, ?, ?, ?, ?)
"""
_INSERT_RUN = """
INSERT INTO runs (tenant, run_id, workflow, plan_digest, labels, created_unix_ms, epoch, owner,
  lease_until_ms, seen_ms, seen_unix_ms, phase, terminal, ready, wake_unix_ms, is_delayed, open_interrupts,
  pending_commands, summary)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, 0, ?)
"""
_INSERT_EVENT = "INSERT INTO events (run_key, sequence, epoch, meta, content) VALUES (?, ?, ?, ?, ?)"
_TENANT = "SELECT tenant FROM runs WHERE run_key = ?"

_READ = """
SELECT sequence, meta, content FROM events
WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?) AND sequence > ? ORDER BY sequence LIMIT ?
"""


class SqliteJournal:
    """The facts of all runs, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def create(self, new: NewRun) -> Created:
        """As the port says. A run id that is taken is a CONFLICT."""
        check_create(new)
        return await self._writer.run(_create, new)

    async def append(self, append: Append) -> None:
        """As the port says. A finished run takes no further append: Fenced."""
        check_append(append)
        await self._writer.run(_append, append)

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        """As the port says. A hole in what was read is StoreDamaged."""
        return await self._readers.run(_read, (run_id, after_sequence, limit))

    async def plan(self, digest: str) -> bytes:
        """As the port says."""
        return await self._readers.run(_plan, digest)


def _append(session: Session, append: Append) -> None:
    hit("store.write")
    head = _checked(session.head(append.run_id), append)
    if append.finishing and head.pending:
        session.flush()
        refuse_unsettled(session, head, append.settled)
    left = () if append.thread is None else _left_behind(session, head, append.thread)
    if append.blobs:
        session.flush()
        hold(session, _blobs_of(session, head, append.blobs), kind=RUN, holder=append.run_id)
    if append.births or append.messages:
        _bring_forth(session, append)
    if append.deliveries:
        owe(session, head.run_key, append.deliveries)
    for event in append.events:
        session.add_event(head, event.sequence, event.meta, event.content)
    head.sequence += len(append.events)
    _move(session, head, append)
    if head.terminal:
        sqlite_turns.leave(session, head, append, left)


def _bring_forth(session: Session, append: Append) -> None:
    """Create the children that the append starts, and put what it says to other runs into their tables."""
    session.flush()
    for new in append.births:
        if session.head(new.run_id) is None:
            _insert(session, new)
            halt_newborn(session, new.tenant.id, new.run_id)
    deliver(session, append.messages)


def _checked(head: Head | None, append: Append) -> Head:
    """The head of a run that takes this append. Raises HeadMismatch, Fenced."""
    if head is None:
        raise HeadMismatch(expected=append.after_sequence, found=0)
    if append.epoch != head.epoch:
        raise Fenced(f"run {append.run_id}: epoch {append.epoch}, now {head.epoch}")
    if append.after_sequence != head.sequence:
        raise HeadMismatch(expected=append.after_sequence, found=head.sequence)
    if head.terminal:
        raise Fenced(f"run {append.run_id} has finished")
    return head


def _left_behind(session: Session, head: Head, share: ThreadShare) -> list[int]:
    """The keys of the blobs that a run leaves to its thread."""
    session.flush()
    return _blobs_of(session, head, [message.digest for message in share.messages])


def _blobs_of(session: Session, head: Head, digests: Sequence[str]) -> list[int]:
    """The keys of the blobs that an append names."""
    tenant = session.connection.execute(_TENANT, (head.run_key,)).get
    return find_blobs(session, cast("str", tenant), digests)


def _move(session: Session, head: Head, append: Append) -> None:
    """Bring the run's row up to the append."""
    if append.settled:
        session.flush()
        settle(session, head, append.settled)
    told, summary = append.head, append.summary
    if append.finishing or told.phase.terminal:
        head.terminal = True
        head.owner = None
        session.rewrite(head, told, summary=summary, finished_unix_ms=append.finished_unix_ms)
    elif (
        append.settled
        or told.phase is not head.phase
        or told.wake_unix_ms != head.wake_unix_ms
        or told.open_interrupts != head.open_interrupts
        or told.is_delayed is not head.is_delayed
    ):
        session.rewrite(head, told, summary=summary, finished_unix_ms=None)
    elif summary is not None:
        session.advance(head, summary)


def _create(session: Session, new: NewRun) -> Created:
    session.flush()
    connection = session.connection
    if new.request_id:
        known = connection.execute(_FIND_REQUEST, (new.tenant.id, new.request_id)).fetchone()
        if known is not None:
            run_id, fingerprint = cast("tuple[str, bytes]", known)
            creation = Creation.DUPLICATE if fingerprint == new.fingerprint else Creation.CONFLICT
            return Created(creation=creation, run_id=run_id)
    if session.head(new.run_id) is not None:
        return Created(creation=Creation.CONFLICT, run_id=new.run_id)
    if is_halted(session, new.tenant.id):
        return Created(creation=Creation.HALTED, run_id="")
    blobs = find_blobs(session, new.tenant.id, new.blobs)
    if new.thread is not None and not sqlite_turns.can_join(session, new.tenant.id, new.thread):
        return Created(creation=Creation.MOVED, run_id="")
    run_key = _insert(session, new)
    if new.thread is not None:
        sqlite_turns.join(session, run_key, new, new.thread)
    hold(session, blobs, kind=RUN, holder=new.run_id)
    if new.request_id:
        connection.execute(
            _INSERT_REQUEST,
            (new.tenant.id, new.request_id, new.fingerprint, new.run_id, new.created_unix_ms),
        )
    return Created(creation=Creation.CREATED, run_id=new.run_id)


def _insert(session: Session, new: NewRun) -> int:
    """Write the run with its plan, its labels, its parent and its first events; its key."""
    connection = session.connection
    run_key = _insert_run(session, new)
    connection.execute(_INSERT_PLAN, (new.plan_digest, new.plan))
    if new.labels:
        connection.executemany(_INSERT_LABEL, [(name, value, run_key) for name, value in new.labels.items()])
    if new.parent_run_id:
        note_parent(session, run_key, new.parent_run_id)
    epoch = 0 if new.owner is None else 1
    connection.executemany(
        _INSERT_EVENT,
        [(run_key, event.sequence, epoch, event.meta, event.content) for event in (new.first, *new.rest)],
    )
    return run_key


def _insert_run(session: Session, new: NewRun) -> int:
    """Write the run's row, with the lease if it has an owner; its key."""
    owned = new.owner is not None
    now = session.clock.monotonic_ms()
    session.connection.execute(
        _INSERT_RUN,
        (
            new.tenant.id,
            new.run_id,
            new.workflow,
            new.plan_digest,
            json.dumps(dict(new.labels)),
            new.created_unix_ms,
            1 if owned else 0,
            new.owner,
            now + session.lease_ms if owned else None,
            now if owned else None,
            session.clock.unix_ms() if owned else None,
            new.head.phase.value,
            session.is_ready(new.head.phase, pending=0, waits=_waits(new) or new.head.is_delayed),
            new.head.wake_unix_ms,
            new.head.is_delayed,
            new.head.open_interrupts,
            new.summary,
        ),
    )
    return session.connection.last_insert_rowid()


def _waits(new: NewRun) -> bool:
    return new.thread is not None and new.thread.turn is not Turn.NOW


def _read(connection: Database, what: tuple[str, int, int]) -> Sequence[StoredEvent]:
    run_id, after_sequence, limit = what
    rows = cast("Iterable[tuple[int, bytes, bytes]]", connection.execute(_READ, what))
    events = within_read(StoredEvent(*row) for row in rows)
    if events and (events[0].sequence, events[-1].sequence) != (
        after_sequence + 1,
        after_sequence + len(events),
    ):
        raise StoreDamaged(f"run {run_id}: events are missing behind {after_sequence} (limit {limit})")
    return events


def _plan(connection: Database, digest: str) -> bytes:
    row = connection.execute("SELECT plan FROM plans WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise StoreDamaged(f"the plan {digest} is not in the store")
    return cast("tuple[bytes]", row)[0]
