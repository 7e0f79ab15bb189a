"""Following a run: replay from the store, then live, to the end.

Owns the loop of one watcher. It delivers every event once, in order, and ends only after the terminal one;
what it hands out is durable. A slow consumer holds nothing but its position: it is served from the store.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from jackline_server.runtime.ports.journal import Journal, StoredEvent
from jackline_server.runtime.ports.run_rows import RunRow, Runs
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.reading.feed import Channel, Feed, Watcher
from jackline_server.runtime.reading.pages import PAGE_EVENTS, Pages
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Frame, Live

HEARTBEAT_MS = 15_000
POLL_MS = 1_000


class Watching:
    """Opens streams over runs."""

    def __init__(self, *, journal: Journal, runs: Runs, feed: Feed) -> None:
        self._pages = Pages(journal)
        self._runs = runs
        self._feed = feed

    async def watch(
        self, tenant: Tenant, run_id: str, *, after_sequence: int, live: Live
    ) -> AsyncGenerator[Frame, None]:
        """The frames after that event; see `service.ports.RunUseCases.watch`."""
        with refusing_store_errors():
            row = await self._runs.get(tenant, run_id)
        if row is None:
            raise not_found(run_id)
        refuse_future(row, after_sequence)
        channel, watcher = self._feed.subscribe(run_id, deltas=live.deltas, progress=live.progress)
        try:
            stream = _Stream(self, row, channel, watcher, after_sequence)
            async with aclosing(stream.frames()) as frames:
                async for frame in frames:
                    yield frame
        finally:
            self._feed.unsubscribe(run_id, watcher)

    async def page(self, channel: Channel, run_id: str, after: int) -> Sequence[StoredEvent]:
        """The next events, from memory where they are kept."""
        kept = channel.after(after, PAGE_EVENTS) if channel.driven or channel.ended else None
        if kept is not None:
            return kept
        return await self._pages.after(run_id, after)

    async def refreshed(self, row: RunRow) -> RunRow:
        """The row as it is now."""
        return await self._runs.get(row.tenant, row.run_id) or row

    @property
    def closing(self) -> bool:
        """True once the server goes down."""
        return self._feed.closing


class _Stream:
    """One watcher's position and what it has been told."""

    def __init__(
        self, watching: Watching, row: RunRow, channel: Channel, watcher: Watcher, after: int
    ) -> None:
        self._watching = watching
        self._row = row
        self._channel = channel
        self._watcher = watcher
        self._position = after
        self._degraded = False
        self._quiet_ms = 0

    async def frames(self) -> AsyncGenerator[Frame, None]:
        while True:
            events = await self._next_events()
            if events:
                self._position = events[-1].sequence
                self._quiet_ms = 0
            if events or self._watcher.has_live or self._quiet_ms >= HEARTBEAT_MS:
                self._quiet_ms = 0
                yield self._frame(events)
            if not events:
                if await self._at_end():
                    return
                if self._watching.closing:
                    raise self._draining()
                await self._pause()

    async def _next_events(self) -> Sequence[StoredEvent]:
        try:
            events = await self._watching.page(self._channel, self._row.run_id, self._position)
        except StoreUnavailable:
            self._tell(degraded=True)
            return ()
        self._tell(degraded=False)
        return events

    def _tell(self, *, degraded: bool) -> None:
        if self._degraded != degraded:
            self._degraded = degraded
            self._quiet_ms = HEARTBEAT_MS

    async def _at_end(self) -> bool:
        if self._channel.ended:
            return self._position >= self._channel.head
        if self._channel.driven or self._degraded:
            return False
        try:
            self._row = await self._watching.refreshed(self._row)
        except StoreUnavailable:
            return False
        return self._row.phase.terminal and self._position >= self._row.head_sequence

    async def _pause(self) -> None:
        step = HEARTBEAT_MS if self._channel.driven else POLL_MS
        step = max(min(step, HEARTBEAT_MS - self._quiet_ms), 1)
        woken = await self._watcher.wait(step)
        if not woken:
            self._quiet_ms += step

    def _frame(self, events: Sequence[StoredEvent]) -> Frame:
        reset, self._watcher.reset = self._watcher.reset, 0
        return Frame(
            events=events,
            deltas=self._watcher.take_deltas(),
            reset=reset,
            sent_through=self._position,
            head=max(self._channel.head, self._row.head_sequence, self._position),
            degraded=self._degraded,
        )

    def _draining(self) -> Refused:
        return Refused(
            Reason.DRAINING,
            f"The server is going down. Watch again after {self._position}.",
            metadata={"sent_through": str(self._position)},
            retry_after_ms=1_000,
        )


def refuse_future(row: RunRow, after_sequence: int) -> None:
    """Refuse to watch from where the run has not come yet. Raises Refused(SEQUENCE_IN_FUTURE)."""
    if after_sequence > row.head_sequence:
        raise Refused(
            Reason.SEQUENCE_IN_FUTURE,
            f"The run has no event {after_sequence}. Start after {row.head_sequence} or earlier.",
            metadata={"head_sequence": str(row.head_sequence)},
        )


def not_found(run_id: str) -> Refused:
    """The answer for a run that is not there or not the caller's."""
    return Refused(
        Reason.RUN_NOT_FOUND,
        "There is no such run. Check the id.",
        metadata={"run_id": run_id},
    )
