"""The Owners role of the memory store."""

from collections.abc import Sequence

from jackline_server.runtime.ports.owners import Abandoned, Hold
from jackline_server.storage.memory.tables import MemoryTables


class MemoryOwners:
    """The holds of all processes. No method awaits, so each is one atomic step."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def hold(self, worker: str, holds: Sequence[Hold]) -> None:
        """As the port says."""
        for hold in holds:
            run = self._tables.runs.get(hold.run_id)
            if run is not None and not run.terminal:
                self._tables.holds.setdefault(hold.run_id, {})[worker] = hold

    async def abandoned(self, *, now_unix_ms: int, limit: int) -> Sequence[Abandoned]:
        """As the port says."""
        found = [
            Abandoned(tenant=self._tables.runs[run_id].new.tenant, run_id=run_id)
            for run_id, holds in self._tables.holds.items()
            if all(hold.until_unix_ms <= now_unix_ms for hold in holds.values())
        ]
        return found[:limit]

    async def forget(self, run_id: str) -> None:
        """As the port says."""
        self._tables.holds.pop(run_id, None)
