"""Following a run with all that it starts, and all that those start.

Owns which runs belong to one stream, how they are woven together, and when it ends: after the last of them.
Each run is followed by itself (`watching`), so that order, completeness and resuming hold for each by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from jackline_server.core.facts import ChildStarted
from jackline_server.core.frozen import change
from jackline_server.runtime.ports.codec import Codec, UnknownFact
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.run_rows import RunQuery, Runs
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.reading.watching import Watching
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Frame, Live

AT_ONCE = 64
"""Runs of one stream that are followed at once without having started any; further ones come after. Those
that have are not counted: they wait for what is below them, and may not keep it from being seen."""

_AHEAD = 8
"""Frames that wait for the consumer, at most: a slow one holds up its own stream and nothing else."""

_PAGE = 100
_NOTHING_LIVE = Live()


class FamilyWatching:
    """Opens streams over families."""

    def __init__(self, *, watching: Watching, runs: Runs, codec: Codec) -> None:
        self._watching = watching
        self._runs = runs
        self._codec = codec

    async def watch(
        self, tenant: Tenant, run_id: str, *, after_sequence: int, live: Live, positions: Mapping[str, int]
    ) -> AsyncGenerator[Frame, None]:
        """The frames of the run after that event, and of its children after their `positions`.

        A child without one is sent from its first event. Live pieces are those of the run alone. See
        `service.ports.RunUseCases.watch`.
        """
        weaving = _Weaving(self, tenant, run_id, positions)
        weaving.follow_root(after_sequence, live)
        try:
            while (frame := await weaving.next()) is not None:
                yield frame
        finally:
            await weaving.close()

    def one(self, tenant: Tenant, run_id: str, *, after: int, live: Live) -> AsyncGenerator[Frame, None]:
        """The frames of one run alone."""
        return self._watching.watch(tenant, run_id, after_sequence=after, live=live)

    def started_by(self, event: StoredEvent) -> str:
        """The child that an event says was started; empty for any other event."""
        try:
            fact = self._codec.decode(event).fact
        except UnknownFact:
            return ""
        return fact.child_run_id if isinstance(fact, ChildStarted) else ""

    async def children_of(self, tenant: Tenant, run_id: str) -> list[str]:
        """The children that a run has started so far, oldest first."""
        found: list[str] = []
        before: tuple[int, str] | None = None
        while True:
            query = RunQuery(
                tenant=tenant,
                labels={},
                parent_run_id=run_id,
                oldest_first=True,
                before=before,
                limit=_PAGE,
            )
            with refusing_store_errors():
                rows = (await self._runs.page(query)).rows
            found.extend(row.run_id for row in rows)
            if len(rows) < _PAGE:
                return found
            before = rows[-1].created_unix_ms, rows[-1].run_id


class _Weaving:
    """One stream: a task for each run that is followed, and what they have ready."""

    def __init__(
        self, family: FamilyWatching, tenant: Tenant, run_id: str, positions: Mapping[str, int]
    ) -> None:
        self._family = family
        self._tenant = tenant
        self._root = run_id
        self._positions = positions
        self._ready: asyncio.Queue[Frame | BaseException | None] = asyncio.Queue(_AHEAD)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open = 0
        self._through = self._head = 0

    def follow_root(self, after: int, live: Live) -> None:
        self._through = self._head = after
        self._follow(self._root, after, live)

    async def next(self) -> Frame | None:
        """The next frame; None once every run has ended. Raises what following one of them raised."""
        while self._open:
            found = await self._ready.get()
            if found is None:
                self._open -= 1
            elif isinstance(found, BaseException):
                raise found
            else:
                return self._placed(found)
        return None

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _placed(self, frame: Frame) -> Frame:
        """The frame with where the whole stream stands: that is the root's business."""
        if not frame.run_id:
            self._through, self._head = frame.sent_through, frame.head
            return frame
        return change(
            frame,
            sent_through=self._through,
            head=self._head,
            positions={frame.run_id: frame.sent_through},
        )

    def _follow(self, run_id: str, after: int, live: Live = _NOTHING_LIVE) -> None:
        if run_id not in self._tasks:
            self._open += 1
            self._tasks[run_id] = asyncio.create_task(self._following(run_id, after, live))

    async def _following(self, run_id: str, after: int, live: Live) -> None:
        """Hand over the frames of a run, and have its children followed. The task ends here."""
        place = _Place(self._room)
        try:
            if run_id != self._root:
                await place.take()
            await self._hand_over(run_id, after, live, place)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whoever reads the stream gets it
            await self._ready.put(error)
        else:
            await self._ready.put(None)
        finally:
            place.leave()

    async def _hand_over(self, run_id: str, after: int, live: Live, place: "_Place") -> None:
        if after:  # those whose start was sent before
            for child in await self._family.children_of(self._tenant, run_id):
                self._follow_below(child, place)
        frames = self._family.one(self._tenant, run_id, after=after, live=live)
        async with aclosing(frames):
            async for frame in frames:
                for event in frame.events:
                    child = self._family.started_by(event)
                    if child:
                        self._follow_below(child, place)
                if run_id == self._root:
                    await self._ready.put(frame)
                elif frame.events:
                    await self._ready.put(change(frame, run_id=run_id))

    def _follow_below(self, run_id: str, place: "_Place") -> None:
        """Have a child followed, whose parent waits for it and gives up its own place for good."""
        place.leave()
        self._follow(run_id, self._positions.get(run_id, 0))


class _Place:
    """One of the places for runs that are followed at once."""

    __slots__ = ("_is_held", "_room")

    def __init__(self, room: asyncio.Semaphore) -> None:
        self._room = room
        self._is_held = False

    async def take(self) -> None:
        await self._room.acquire()
        self._is_held = True

    def leave(self) -> None:
        if self._is_held:
            self._is_held = False
            self._room.release()
