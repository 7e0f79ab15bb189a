"""Reading one run: its row, and the state of its durable facts.

Owns the choice between a run driven here, whose durable state is at hand, and one that is replayed.
"""

from dataclasses import replace

from jackline_server.core.plan import Plan
from jackline_server.runtime.driving.scheduler import Scheduler
from jackline_server.runtime.ports.codec import Codec, UnknownFact
from jackline_server.runtime.ports.run_rows import RunRow, Runs
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.reading.feed import Feed
from jackline_server.runtime.reading.loading import Loading
from jackline_server.runtime.reading.watching import not_found
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Snapshot


class Snapshots:
    """Reads runs. The store's own errors pass through."""

    def __init__(
        self, *, runs: Runs, loading: Loading, scheduler: Scheduler, codec: Codec, feed: Feed
    ) -> None:
        self._runs = runs
        self._codec = codec
        self._loading = loading
        self._scheduler = scheduler
        self._feed = feed

    async def row(self, tenant: Tenant, run_id: str) -> RunRow:
        """The run's row. Raises Refused(RUN_NOT_FOUND)."""
        row = await self._runs.get(tenant, run_id)
        if row is None:
            raise not_found(run_id)
        return row

    def fresh(self, row: RunRow) -> RunRow:
        """The row with the summary of the run's durable state, if it is driven here."""
        state = self._scheduler.durable_state(row.run_id)
        if state is None or row.phase.terminal or state.finished is not None:
            return row
        summary = self._codec.summarize(
            state, created_unix_ms=row.created_unix_ms, finished_unix_ms=row.finished_unix_ms
        )
        return replace(row, summary=summary, head_sequence=state.sequence)

    async def of(self, row: RunRow) -> Snapshot:
        """The run of that row. Raises Refused(DATA_VERSION_NEWER)."""
        state = self._scheduler.durable_state(row.run_id)
        if state is None or state.sequence < row.head_sequence:
            try:
                state = await self._loading.state(row)
            except UnknownFact:
                raise _of_newer_version(row) from None
        return Snapshot(row=row, state=state, waits=self._feed.waits(row.run_id))

    async def plan(self, row: RunRow) -> Plan:
        """The plan of the run of that row. Raises Refused(DATA_VERSION_NEWER)."""
        try:
            return await self._loading.plan(row.plan_digest)
        except UnknownFact:
            raise _of_newer_version(row) from None


def _of_newer_version(row: RunRow) -> Refused:
    return Refused(
        Reason.DATA_VERSION_NEWER,
        "A newer version wrote this run. Ask a server of that version.",
        metadata={"run_id": row.run_id},
    )
