"""The Deliveries role of the SQLite store: messages that commits owe, their attempts, what became of them.

Owns those tables. The Journal writes new ones inside its own operations, with `owe`. A claimed delivery has a
mark, so that the next boot, which knows that no other process lives, has it sent at once.
"""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from jackline_server.failpoints import hit
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.webhooks import (
    LOG_ATTEMPTS,
    AttemptOutcome,
    AttemptRow,
    Claimed,
    DeliveryQuery,
    DeliveryRow,
    DeliveryState,
    DueDelivery,
    NewDelivery,
    Settled,
    Sweep,
)
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.writing import Writing

_INSERT = """
INSERT INTO deliveries (tenant, delivery_id, endpoint, event, run_id, sequence, created_unix_ms,
  since_unix_ms, state, due_unix_ms, claimed, attempts, tried_before, body)
SELECT tenant, ?, ?, ?, run_id, ?, ?, ?, 'pending', ?, 0, 0, 0, ? FROM runs WHERE run_key = ?
"""
_DUE = """
SELECT delivery_key, delivery_id, event, attempts, tried_before, body FROM deliveries
WHERE endpoint = ? AND due_unix_ms <= ? ORDER BY due_unix_ms, delivery_key LIMIT ?
"""
_ANY_DUE = "SELECT 1 FROM deliveries WHERE endpoint = ? AND due_unix_ms <= ? LIMIT 1"
_NEXT = "SELECT min(due_unix_ms) FROM deliveries WHERE endpoint = ? AND due_unix_ms IS NOT NULL"
_CLAIM = "UPDATE deliveries SET attempts = attempts + 1, claimed = 1, due_unix_ms = ? WHERE delivery_key = ?"
_SETTLE = """
UPDATE deliveries SET state = ?, due_unix_ms = ?, settled_unix_ms = ?, claimed = 0
WHERE delivery_id = ? AND attempts = ? AND claimed = 1 RETURNING delivery_key
"""
_LOG = """
INSERT INTO delivery_attempts (delivery_key, attempt, ended_unix_ms, took_ms, outcome, status)
VALUES (?, ?, ?, ?, ?, ?)
"""
_TRIM = "DELETE FROM delivery_attempts WHERE delivery_key = ? AND attempt <= ?"
_VOID = "UPDATE deliveries SET claimed = 0, due_unix_ms = ? WHERE claimed = 1"

_RESEND = """
UPDATE deliveries SET state = 'pending', due_unix_ms = CASE claimed WHEN 1 THEN due_unix_ms ELSE ?1 END,
  settled_unix_ms = NULL, since_unix_ms = ?1, tried_before = attempts
WHERE tenant = ?2 AND delivery_id = ?3
"""
_EXPIRE = """
UPDATE deliveries SET state = 'dead', due_unix_ms = NULL, settled_unix_ms = ?1 WHERE delivery_key IN (
  SELECT delivery_key FROM deliveries
  WHERE due_unix_ms IS NOT NULL AND claimed = 0 AND since_unix_ms < ?2 LIMIT ?3
)
"""
_OVER = """
SELECT delivery_key FROM (
  SELECT delivery_key FROM deliveries WHERE state = 'delivered' AND settled_unix_ms < ?1
  UNION ALL
  SELECT delivery_key FROM deliveries WHERE state = 'dead' AND settled_unix_ms < ?2
) LIMIT ?3
"""
_ANY_OVER = """
SELECT EXISTS (SELECT 1 FROM deliveries WHERE state = 'delivered' AND settled_unix_ms < ?1)
  OR EXISTS (SELECT 1 FROM deliveries WHERE state = 'dead' AND settled_unix_ms < ?2)
  OR EXISTS (SELECT 1 FROM deliveries WHERE due_unix_ms IS NOT NULL AND claimed = 0 AND since_unix_ms < ?3)
"""
_REMOVE = "DELETE FROM deliveries WHERE delivery_key = ?"
_REMOVE_LOG = "DELETE FROM delivery_attempts WHERE delivery_key = ?"

_COLUMNS = """
SELECT delivery_key, tenant, delivery_id, endpoint, event, run_id, sequence, created_unix_ms, state,
  due_unix_ms, settled_unix_ms, attempts,
  (SELECT json_group_array(json_array(attempt, ended_unix_ms, took_ms, outcome, status) ORDER BY attempt)
    FROM delivery_attempts WHERE delivery_attempts.delivery_key = deliveries.delivery_key)
FROM deliveries WHERE tenant = ?
"""
_ONE = f"{_COLUMNS} AND delivery_id = ?"
_COUNT = "SELECT state, count(*) FROM deliveries WHERE tenant = ? AND endpoint = ? GROUP BY state"
_OF_ENDPOINT = " AND endpoint = ?"
_OF_RUN = " AND run_id = ?"
_IN_STATE = " AND state = ?"
_BEFORE = " AND delivery_key < ?"
_NEWEST_FIRST = " ORDER BY delivery_key DESC LIMIT ?"

_Row = tuple[int, str, str, str, str, str, int, int, str, int | None, int | None, int, str]


class SqliteDeliveries:
    """The table of deliveries, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def claim(self, endpoint: str, *, now_unix_ms: int, until_unix_ms: int, limit: int) -> Claimed:
        """As the port says. Where nothing is due, which is the rule, no commit is made."""
        found = await self._readers.run(_look, (endpoint, now_unix_ms))
        if found is not None:
            return found
        return await self._writer.run(_claim, (endpoint, now_unix_ms, until_unix_ms, limit))

    async def settle(self, settled: Settled) -> bool:
        """As the port says."""
        return await self._writer.run(_settle, settled)

    async def sweep(self, sweep: Sweep) -> int:
        """As the port says. Where nothing is over, no commit is made."""
        times = (sweep.delivered_before, sweep.dead_before, sweep.pending_before)
        if not await self._readers.run(_is_any_over, times):
            return 0
        return await self._writer.run(_sweep, sweep)

    async def page(self, query: DeliveryQuery) -> Sequence[DeliveryRow]:
        """As the port says."""
        return await self._readers.run(_page, query)

    async def count(self, tenant: Tenant, endpoint: str) -> Mapping[DeliveryState, int]:
        """As the port says."""
        return await self._readers.run(_count, (tenant.id, endpoint))

    async def resend(self, tenant: Tenant, delivery_id: str, *, now_unix_ms: int) -> DeliveryRow | None:
        """As the port says."""
        return await self._writer.run(_resend, (now_unix_ms, tenant.id, delivery_id))


def owe(session: Session, run_key: int, deliveries: Sequence[NewDelivery]) -> None:
    """Write what a commit of the run owes, inside it."""
    session.connection.executemany(
        _INSERT,
        [
            (
                new.delivery_id,
                new.endpoint,
                new.event,
                new.sequence,
                new.created_unix_ms,
                new.created_unix_ms,
                new.created_unix_ms,
                new.body,
                run_key,
            )
            for new in deliveries
        ],
    )


def void_claims(connection: Database, *, now_unix_ms: int) -> None:
    """Have everything that was being sent be due at once. Only at boot."""
    connection.execute(_VOID, (now_unix_ms,))


def _look(connection: Database, which: tuple[str, int]) -> Claimed | None:
    """Nothing and when to look again; None if something is due."""
    if connection.execute(_ANY_DUE, which).fetchone() is not None:
        return None
    return Claimed(due=(), next_unix_ms=_next(connection, which[0]))


def _next(connection: Database, endpoint: str) -> int | None:
    return cast("int | None", connection.execute(_NEXT, (endpoint,)).get)


def _claim(session: Session, wish: tuple[str, int, int, int]) -> Claimed:
    session.flush()
    connection = session.connection
    endpoint, now, until, limit = wish
    rows = connection.execute(_DUE, (endpoint, now, limit)).fetchall()
    due: list[DueDelivery] = []
    for key, delivery_id, event, attempts, before, body in cast(
        "list[tuple[int, str, str, int, int, bytes]]", rows
    ):
        connection.execute(_CLAIM, (until, key))
        due.append(
            DueDelivery(
                delivery_id=delivery_id,
                event=event,
                attempt=attempts + 1,
                tries=attempts + 1 - before,
                body=body,
            )
        )
    return Claimed(due=due, next_unix_ms=_next(connection, endpoint))


def _settle(session: Session, settled: Settled) -> bool:
    hit("webhook.settle")
    session.flush()
    connection = session.connection
    is_over = settled.state is not DeliveryState.PENDING
    row = connection.execute(
        _SETTLE,
        (
            settled.state.value,
            settled.due_unix_ms,
            settled.ended_unix_ms if is_over else None,
            settled.delivery_id,
            settled.attempt,
        ),
    ).fetchone()
    if row is None:
        return False
    (key,) = cast("tuple[int]", row)
    connection.execute(
        _LOG,
        (
            key,
            settled.attempt,
            settled.ended_unix_ms,
            settled.took_ms,
            settled.outcome.value,
            settled.status,
        ),
    )
    connection.execute(_TRIM, (key, settled.attempt - LOG_ATTEMPTS))
    return True


def _is_any_over(connection: Database, times: tuple[int, int, int]) -> bool:
    return bool(connection.execute(_ANY_OVER, times).get)


def _sweep(session: Session, sweep: Sweep) -> int:
    session.flush()
    connection = session.connection
    connection.execute(_EXPIRE, (sweep.now_unix_ms, sweep.pending_before, sweep.limit))
    expired = connection.changes()
    over = connection.execute(
        _OVER, (sweep.delivered_before, sweep.dead_before, sweep.limit - expired)
    ).fetchall()
    connection.executemany(_REMOVE_LOG, over)
    connection.executemany(_REMOVE, over)
    return expired + len(over)


def _page(connection: Database, query: DeliveryQuery) -> Sequence[DeliveryRow]:
    text, values = _COLUMNS, cast("list[str | int]", [query.tenant.id])
    for condition, value in (
        (_OF_ENDPOINT, query.endpoint or None),
        (_OF_RUN, query.run_id or None),
        (_IN_STATE, None if query.state is None else query.state.value),
        (_BEFORE, query.before),
    ):
        if value is not None:
            text += condition
            values.append(value)
    rows = connection.execute(text + _NEWEST_FIRST, (*values, query.limit)).fetchall()
    return [_row(cast("_Row", row)) for row in rows]


def _count(connection: Database, which: tuple[str, str]) -> Mapping[DeliveryState, int]:
    rows = cast("list[tuple[str, int]]", connection.execute(_COUNT, which).fetchall())
    return {DeliveryState(state): number for state, number in rows}


def _resend(session: Session, wish: tuple[int, str, str]) -> DeliveryRow | None:
    session.flush()
    session.connection.execute(_RESEND, wish)
    row = session.connection.execute(_ONE, wish[1:]).fetchone()
    return None if row is None else _row(cast("_Row", row))


def _row(row: _Row) -> DeliveryRow:
    (
        key,
        tenant,
        delivery_id,
        endpoint,
        event,
        run_id,
        sequence,
        created,
        state,
        due,
        settled,
        attempts,
        log,
    ) = row
    return DeliveryRow(
        tenant=Tenant(tenant),
        delivery_id=delivery_id,
        endpoint=endpoint,
        event=event,
        run_id=run_id,
        sequence=sequence,
        created_unix_ms=created,
        state=DeliveryState(state),
        due_unix_ms=due,
        settled_unix_ms=settled,
        attempts=attempts,
        log=[
            AttemptRow(
                attempt=attempt,
                ended_unix_ms=ended,
                took_ms=took,
                outcome=AttemptOutcome(outcome),
                status=status,
            )
            for attempt, ended, took, outcome, status in cast(
                "list[tuple[int, int, int, str, int]]", json.loads(log)
            )
        ],
        position=key,
    )
