"""The Leases role of the SQLite store, and the voiding of all leases at boot.

Times are of this boot's monotonic clock. The store's lock says that no other process lives, so a boot
voids every lease at once: it raises the epoch of owned runs, and brings the last sign of their owners,
which only the wall clock remembers, onto its own clock, clamped into the lease time.
"""

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple, cast

from jackline_server.runtime.ports.leases import Claim
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.clocks import StoreClock, silence_ms
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.deliveries import void_claims
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.writer import Writer

_FREE = """
SELECT run_id, run_key, tenant, epoch, seen_ms FROM (
  SELECT * FROM (
    SELECT run_id, run_key, tenant, epoch, seen_ms, created_unix_ms FROM runs
    WHERE ready = 1 AND (owner IS NULL OR lease_until_ms <= :now){among}
    ORDER BY created_unix_ms, run_id LIMIT :limit
  )
  UNION
  SELECT run_id, run_key, tenant, epoch, seen_ms, created_unix_ms FROM runs
  WHERE wake_unix_ms <= :now_unix AND terminal = 0 AND (owner IS NULL OR lease_until_ms <= :now)
)
ORDER BY created_unix_ms, run_id LIMIT :limit
"""
_ANY = _FREE.format(among="")
_CALLED = _FREE.format(among=" AND pending_commands > 0 AND run_id IN (SELECT value FROM json_each(:called))")
_TAKE = """
UPDATE runs SET epoch = ?, owner = ?, lease_until_ms = ?, seen_ms = ?, seen_unix_ms = ? WHERE run_key = ?
"""
_RENEW = "UPDATE runs SET lease_until_ms = ?, seen_ms = ?, seen_unix_ms = ? WHERE run_key = ?"
_RELEASE = """
UPDATE runs SET owner = NULL, lease_until_ms = NULL, seen_ms = NULL, seen_unix_ms = NULL WHERE run_key = ?
"""
_REST = """
UPDATE runs SET ready = 0 WHERE run_key = ?1 AND NOT EXISTS (
  SELECT 1 FROM commands WHERE run_key = ?1 AND state = 'pending' AND ordinal > ?2
)
"""
"""Whoever puts another command says again that a worker is needed."""

_SILENT = "SELECT run_key, seen_unix_ms FROM runs WHERE seen_unix_ms IS NOT NULL AND terminal = 0"
_BRIDGE = "UPDATE runs SET seen_ms = ? WHERE run_key = ?"
_VOID = "UPDATE runs SET epoch = epoch + 1, owner = NULL, lease_until_ms = NULL WHERE owner IS NOT NULL"


class SqliteLeases:
    """Who drives which run, in SQLite."""

    def __init__(self, *, writer: Writer) -> None:
        self._writer = writer

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        """As the port says."""
        return await self._writer.run(_claim, _Wish(worker, limit, now_unix_ms, called))

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        """As the port says."""
        return await self._writer.run(_renew, (worker, run_ids))

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        """As the port says."""
        await self._writer.run(_release, (worker, run_id, epoch, heard))


def void_leases(connection: Database, *, clock: StoreClock, lease_ms: int) -> int:
    """Void all leases, those of deliveries too, in one transaction; how many runs had one. Only at boot."""
    now, now_unix = clock.monotonic_ms(), clock.unix_ms()
    connection.execute("BEGIN IMMEDIATE")
    silent = cast("list[tuple[int, int]]", connection.execute(_SILENT).fetchall())
    bridged = [
        (now - silence_ms(now_ms=now_unix, seen_ms=seen_unix, lease_ms=lease_ms), run_key)
        for run_key, seen_unix in silent
    ]
    connection.executemany(_BRIDGE, bridged)
    connection.execute(_VOID)
    voided = connection.changes()
    void_claims(connection, now_unix_ms=now_unix)
    connection.execute("COMMIT")
    return voided


class _Wish(NamedTuple):
    worker: str
    limit: int
    now_unix_ms: int
    called: Collection[str] | None


def _claim(session: Session, wish: _Wish) -> Sequence[Claim]:
    session.flush()
    now, now_unix = session.clock.monotonic_ms(), session.clock.unix_ms()
    values: dict[str, str | int] = {"now": now, "now_unix": wish.now_unix_ms, "limit": wish.limit}
    if wish.called is None:
        found = session.connection.execute(_ANY, values)
    else:
        found = session.connection.execute(_CALLED, {**values, "called": json.dumps(list(wish.called))})
    rows = cast("list[tuple[str, int, str, int, int | None]]", found.fetchall())
    claims: list[Claim] = []
    for run_id, run_key, tenant, epoch, seen_ms in rows:
        gap = None
        if seen_ms is not None:
            gap = silence_ms(now_ms=now, seen_ms=seen_ms, lease_ms=session.lease_ms)
        lease = (epoch + 1, wish.worker, now + session.lease_ms, now, now_unix, run_key)
        session.connection.execute(_TAKE, lease)
        session.drop(run_id)
        claims.append(Claim(tenant=Tenant(tenant), run_id=run_id, epoch=epoch + 1, gap_ms=gap))
    return claims


def _renew(session: Session, wish: tuple[str, Sequence[str]]) -> frozenset[str]:
    worker, run_ids = wish
    session.flush()
    now, now_unix = session.clock.monotonic_ms(), session.clock.unix_ms()
    lost: set[str] = set()
    kept: list[tuple[int, int, int, int]] = []
    for run_id in run_ids:
        head = session.head(run_id)
        if head is None or head.owner != worker:
            lost.add(run_id)
        else:
            kept.append((now + session.lease_ms, now, now_unix, head.run_key))
    session.connection.executemany(_RENEW, kept)
    return frozenset(lost)


def _release(session: Session, wish: tuple[str, str, int, int]) -> None:
    worker, run_id, epoch, heard = wish
    session.flush()
    head = session.head(run_id)
    if head is not None and head.epoch == epoch and head.owner == worker:
        session.connection.execute(_RELEASE, (head.run_key,))
        if heard and not session.is_ready(head.phase, pending=0, waits=head.waits or head.is_delayed):
            session.connection.execute(_REST, (head.run_key, heard))
        head.owner = None
