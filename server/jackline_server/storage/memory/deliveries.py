"""The Deliveries role of the memory store."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.webhooks import (
    LOG_ATTEMPTS,
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
from jackline_server.storage.memory.tables import MemoryDelivery, MemoryRun, MemoryTables


def owe(tables: MemoryTables, run: MemoryRun, deliveries: Sequence[NewDelivery]) -> None:
    """Write what a commit of the run owes."""
    for new in deliveries:
        tables.delivered += 1
        row = DeliveryRow(
            tenant=run.new.tenant,
            delivery_id=new.delivery_id,
            endpoint=new.endpoint,
            event=new.event,
            run_id=run.new.run_id,
            sequence=new.sequence,
            created_unix_ms=new.created_unix_ms,
            state=DeliveryState.PENDING,
            due_unix_ms=new.created_unix_ms,
            settled_unix_ms=None,
            attempts=0,
            log=(),
            position=tables.delivered,
        )
        tables.deliveries[new.delivery_id] = MemoryDelivery(
            row=row, body=new.body, since_ms=new.created_unix_ms
        )


class MemoryDeliveries:
    """The table of deliveries. No method awaits, so each is one atomic step."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def claim(self, endpoint: str, *, now_unix_ms: int, until_unix_ms: int, limit: int) -> Claimed:
        """As the port says."""
        waiting = [
            (one.row.due_unix_ms, one.row.position, one)
            for one in self._tables.deliveries.values()
            if one.row.endpoint == endpoint and one.row.due_unix_ms is not None
        ]
        waiting.sort(key=lambda entry: entry[:2])
        taken = [one for due, _, one in waiting if due <= now_unix_ms][:limit]
        for one in taken:
            one.row = replace(one.row, attempts=one.row.attempts + 1, due_unix_ms=until_unix_ms)
            one.claimed = True
        later = [one.row.due_unix_ms for _, _, one in waiting if one.row.due_unix_ms is not None]
        return Claimed(due=[_due(one) for one in taken], next_unix_ms=min(later, default=None))

    async def settle(self, settled: Settled) -> bool:
        """As the port says."""
        one = self._tables.deliveries.get(settled.delivery_id)
        if one is None or not one.claimed or one.row.attempts != settled.attempt:
            return False
        attempt = AttemptRow(
            attempt=settled.attempt,
            ended_unix_ms=settled.ended_unix_ms,
            took_ms=settled.took_ms,
            outcome=settled.outcome,
            status=settled.status,
        )
        is_over = settled.state is not DeliveryState.PENDING
        kept = (row for row in one.row.log if row.attempt > settled.attempt - LOG_ATTEMPTS)
        one.claimed = False
        one.row = replace(
            one.row,
            state=settled.state,
            due_unix_ms=settled.due_unix_ms,
            settled_unix_ms=settled.ended_unix_ms if is_over else None,
            log=(*kept, attempt),
        )
        return True

    async def sweep(self, sweep: Sweep) -> int:
        """As the port says."""
        found = [one for one in self._tables.deliveries.values() if _is_over(one, sweep)][: sweep.limit]
        for one in found:
            if one.row.due_unix_ms is None:
                del self._tables.deliveries[one.row.delivery_id]
            else:
                one.row = replace(
                    one.row, state=DeliveryState.DEAD, due_unix_ms=None, settled_unix_ms=sweep.now_unix_ms
                )
        return len(found)

    async def page(self, query: DeliveryQuery) -> Sequence[DeliveryRow]:
        """As the port says."""
        rows = [one.row for one in self._tables.deliveries.values() if _matches(one.row, query)]
        rows.sort(key=lambda row: row.position, reverse=True)
        return rows[: query.limit]

    async def count(self, tenant: Tenant, endpoint: str) -> Mapping[DeliveryState, int]:
        """As the port says."""
        rows = (one.row for one in self._tables.deliveries.values())
        return Counter(row.state for row in rows if row.tenant == tenant and row.endpoint == endpoint)

    async def resend(self, tenant: Tenant, delivery_id: str, *, now_unix_ms: int) -> DeliveryRow | None:
        """As the port says."""
        one = self._tables.deliveries.get(delivery_id)
        if one is None or one.row.tenant != tenant:
            return None
        one.since_ms, one.before = now_unix_ms, one.row.attempts
        one.row = replace(
            one.row,
            state=DeliveryState.PENDING,
            due_unix_ms=one.row.due_unix_ms if one.claimed else now_unix_ms,
            settled_unix_ms=None,
        )
        return one.row


def _due(one: MemoryDelivery) -> DueDelivery:
    row = one.row
    return DueDelivery(
        delivery_id=row.delivery_id,
        event=row.event,
        attempt=row.attempts,
        tries=row.attempts - one.before,
        body=one.body,
    )


def _is_over(one: MemoryDelivery, sweep: Sweep) -> bool:
    if one.row.due_unix_ms is not None:
        return not one.claimed and one.since_ms < sweep.pending_before
    before = sweep.dead_before if one.row.state is DeliveryState.DEAD else sweep.delivered_before
    return (one.row.settled_unix_ms or 0) < before


def _matches(row: DeliveryRow, query: DeliveryQuery) -> bool:
    return (
        row.tenant == query.tenant
        and query.endpoint in ("", row.endpoint)
        and query.run_id in ("", row.run_id)
        and query.state in (None, row.state)
        and (query.before is None or row.position < query.before)
    )
