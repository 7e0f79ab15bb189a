"""The Owners role of the SQLite store: until when the processes' holds on runs are good."""

from collections.abc import Sequence
from typing import cast

from jackline_server.runtime.ports.owners import Abandoned, Hold
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.writing import Writing

_HOLD = """
INSERT INTO run_owners (run_key, worker, grace_ms, until_unix_ms)
SELECT run_key, ?, ?, ? FROM runs WHERE run_id = ? AND terminal = 0
ON CONFLICT (run_key, worker) DO UPDATE SET grace_ms = excluded.grace_ms,
  until_unix_ms = excluded.until_unix_ms
"""
_ABANDONED = """
SELECT tenant, run_id FROM (
  SELECT run_key FROM run_owners GROUP BY run_key HAVING max(until_unix_ms) <= ? LIMIT ?
) JOIN runs USING (run_key)
"""
_FORGET = "DELETE FROM run_owners WHERE run_key = (SELECT run_key FROM runs WHERE run_id = ?)"
_BEGIN = "UPDATE run_owners SET until_unix_ms = ? + grace_ms"


class SqliteOwners:
    """The holds of all processes, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def hold(self, worker: str, holds: Sequence[Hold]) -> None:
        """As the port says."""
        await self._writer.run(_hold, (worker, holds))

    async def abandoned(self, *, now_unix_ms: int, limit: int) -> Sequence[Abandoned]:
        """As the port says."""
        return await self._readers.run(_abandoned, (now_unix_ms, limit))

    async def forget(self, run_id: str) -> None:
        """As the port says."""
        await self._writer.run(_forget, run_id)


def begin_graces(connection: Database, *, now_unix_ms: int) -> None:
    """Let every grace begin now: no stream is open, and nobody could come back before. Only at boot."""
    connection.execute(_BEGIN, (now_unix_ms,))


def _hold(session: Session, what: tuple[str, Sequence[Hold]]) -> None:
    session.flush()
    worker, holds = what
    session.connection.executemany(
        _HOLD, [(worker, hold.grace_ms, hold.until_unix_ms, hold.run_id) for hold in holds]
    )


def _abandoned(connection: Database, what: tuple[int, int]) -> Sequence[Abandoned]:
    rows = cast("list[tuple[str, str]]", connection.execute(_ABANDONED, what).fetchall())
    return [Abandoned(tenant=Tenant(tenant), run_id=run_id) for tenant, run_id in rows]


def _forget(session: Session, run_id: str) -> None:
    session.flush()
    session.connection.execute(_FORGET, (run_id,))
