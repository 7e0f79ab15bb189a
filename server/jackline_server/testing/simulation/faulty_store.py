"""A process's way to the shared store: slow, lossy, and cut when the process is gone.

Owns the faults and the record of what the store took. The store behind it is the real memory store.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jackline_server.runtime.ports.command_table import Below, CommandRow, Submission
from jackline_server.runtime.ports.journal import Append, Created, Creation, NewRun, StoredEvent
from jackline_server.runtime.ports.leases import Claim
from jackline_server.runtime.ports.owners import Abandoned, Hold
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.runtime.ports.switches import Engaged, Engagement, Engaging, Releasing
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.threads import (
    Appended,
    Appending,
    SteerDone,
    Steering,
    ThreadRow,
    ThreadView,
)
from jackline_server.testing.simulation.weather import Weather
from jackline_server.testing.validators.history import Commit

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Line:
    """One process's connection. `cut` ends it: whatever is asked for fails, and nothing takes effect."""

    weather: Weather
    worker: str
    now_ms: Callable[[], int]
    commits: list[Commit]
    cut: bool = False

    async def ask(self, call: Callable[[], Awaitable[T]], *, mutates: bool = False) -> T:
        """Make one call of the store."""
        self._check()
        await self.weather.before(mutates=mutates)
        self._check()
        answer = await call()
        await self.weather.after()
        return answer

    def committed(self, run: str, *, epoch: int, after: int, count: int) -> None:
        """Note what the store took."""
        self.commits.append(
            Commit(run=run, worker=self.worker, epoch=epoch, after=after, count=count, at_ms=self.now_ms())
        )

    def _check(self) -> None:
        if self.cut:
            raise StoreDamaged("this process is gone")


def faulty(store: Store, line: Line) -> Store:
    """The store as the process at the end of that line has it."""
    return Store(
        journal=FaultyJournal(line=line, store=store),
        runs=FaultyRuns(line=line, store=store),
        commands=FaultyCommands(line=line, store=store),
        leases=FaultyLeases(line=line, store=store),
        revisions=store.revisions,
        blobs=FaultyBlobs(line=line, store=store),
        threads=FaultyThreads(line=line, store=store),
        deliveries=store.deliveries,
        switches=FaultySwitches(line=line, store=store),
        owners=FaultyOwners(line=line, store=store),
        durability=store.durability,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyJournal:
    """The Journal role."""

    line: Line
    store: Store

    async def create(self, new: NewRun) -> Created:
        """As the port says."""

        async def call() -> Created:
            created = await self.store.journal.create(new)
            if created.creation is Creation.CREATED:
                self.line.committed(new.run_id, epoch=int(new.owner is not None), after=0, count=1)
            return created

        return await self.line.ask(call, mutates=True)

    async def append(self, append: Append) -> None:
        """As the port says."""

        async def call() -> None:
            await self.store.journal.append(append)
            after, count = append.after_sequence, len(append.events)
            self.line.committed(append.run_id, epoch=append.epoch, after=after, count=count)
            for new in append.births:
                self.line.committed(new.run_id, epoch=0, after=0, count=1)

        await self.line.ask(call, mutates=True)

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        """As the port says."""
        return await self.line.ask(
            lambda: self.store.journal.read(run_id, after_sequence=after_sequence, limit=limit)
        )

    async def plan(self, digest: str) -> bytes:
        """As the port says."""
        return await self.line.ask(lambda: self.store.journal.plan(digest))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyRuns:
    """The Runs role."""

    line: Line
    store: Store

    async def get(self, tenant: Tenant, run_id: str) -> RunRow | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.runs.get(tenant, run_id))

    async def find_request(self, tenant: Tenant, request_id: str) -> tuple[str, bytes] | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.runs.find_request(tenant, request_id))

    async def page(self, query: RunQuery) -> RunPage:
        """As the port says."""
        return await self.line.ask(lambda: self.store.runs.page(query))

    async def living_below(self, tenant: Tenant, run_id: str) -> Sequence[str]:
        """As the port says."""
        return await self.line.ask(lambda: self.store.runs.living_below(tenant, run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyCommands:
    """The Commands role."""

    line: Line
    store: Store

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        """As the port says."""
        return await self.line.ask(
            lambda: self.store.commands.submit(
                run_id, command_id=command_id, payload=payload, limit=limit, below=below
            ),
            mutates=True,
        )

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        """As the port says."""
        return await self.line.ask(lambda: self.store.commands.pending(run_id))

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.commands.get(run_id, command_id))

    async def unheard(self, *, limit: int) -> Sequence[str]:
        """As the port says."""
        return await self.line.ask(lambda: self.store.commands.unheard(limit=limit))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyLeases:
    """The Leases role."""

    line: Line
    store: Store

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        """As the port says."""
        return await self.line.ask(
            lambda: self.store.leases.claim(worker, limit=limit, now_unix_ms=now_unix_ms, called=called),
            mutates=True,
        )

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        """As the port says."""
        return await self.line.ask(lambda: self.store.leases.renew(worker, run_ids), mutates=True)

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        """As the port says."""
        await self.line.ask(
            lambda: self.store.leases.release(worker, run_id, epoch=epoch, heard=heard), mutates=True
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyBlobs:
    """The Blobs role."""

    line: Line
    store: Store

    async def put(self, tenant: Tenant, data: bytes) -> str:
        """As the port says."""
        return await self.line.ask(lambda: self.store.blobs.put(tenant, data), mutates=True)

    async def size(self, tenant: Tenant, digest: str) -> int | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.blobs.size(tenant, digest))

    async def read(self, tenant: Tenant, digest: str, *, offset: int, limit: int) -> bytes | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.blobs.read(tenant, digest, offset=offset, limit=limit))

    async def sweep(self, *, limit: int) -> int:
        """As the port says."""
        return await self.line.ask(lambda: self.store.blobs.sweep(limit=limit), mutates=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyThreads:
    """The Threads role."""

    line: Line
    store: Store

    async def newest(self, tenant: Tenant, thread_id: str, *, limit: int, size: int) -> ThreadView | None:
        """As the port says."""
        return await self.line.ask(
            lambda: self.store.threads.newest(tenant, thread_id, limit=limit, size=size)
        )

    async def after(
        self, tenant: Tenant, thread_id: str, position: int, *, limit: int, size: int
    ) -> ThreadView | None:
        """As the port says."""
        return await self.line.ask(
            lambda: self.store.threads.after(tenant, thread_id, position, limit=limit, size=size)
        )

    async def page(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        """As the port says."""
        return await self.line.ask(lambda: self.store.threads.page(tenant, before=before, limit=limit))

    async def append(self, appending: Appending) -> Appended:
        """As the port says."""
        return await self.line.ask(lambda: self.store.threads.append(appending), mutates=True)

    async def steer(self, steering: Steering) -> SteerDone:
        """As the port says."""
        return await self.line.ask(lambda: self.store.threads.steer(steering), mutates=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultySwitches:
    """The Switches role."""

    line: Line
    store: Store

    async def engage(self, engaging: Engaging) -> Engaged:
        """As the port says."""
        return await self.line.ask(lambda: self.store.switches.engage(engaging), mutates=True)

    async def release(self, releasing: Releasing) -> Engagement | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.switches.release(releasing), mutates=True)

    async def newest(self, tenant: Tenant) -> Engagement | None:
        """As the port says."""
        return await self.line.ask(lambda: self.store.switches.newest(tenant))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyOwners:
    """The Owners role."""

    line: Line
    store: Store

    async def hold(self, worker: str, holds: Sequence[Hold]) -> None:
        """As the port says."""
        await self.line.ask(lambda: self.store.owners.hold(worker, holds), mutates=True)

    async def abandoned(self, *, now_unix_ms: int, limit: int) -> Sequence[Abandoned]:
        """As the port says."""
        return await self.line.ask(lambda: self.store.owners.abandoned(now_unix_ms=now_unix_ms, limit=limit))

    async def forget(self, run_id: str) -> None:
        """As the port says."""
        await self.line.ask(lambda: self.store.owners.forget(run_id), mutates=True)
