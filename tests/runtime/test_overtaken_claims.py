"""A worker that is slow to read what it claimed, and is overtaken: the claim is over, and so is its part."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import ModelCallStarted
from jackline_server.core.frozen import change
from jackline_server.runtime.ports.journal import Append, Created, Journal, NewRun, StoredEvent
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow, Runs
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import agent_plan
from tests.runtime.families import sealed

LEASE_MS = 15_000
SECONDS = 20


@dataclass(slots=True)
class Hand:
    """The time of a store, which goes on by hand."""

    now_ms: int = 0

    def clock(self) -> StoreClock:
        return StoreClock(unix_ms=lambda: self.now_ms, monotonic_ms=lambda: self.now_ms)


@dataclass(slots=True)
class SlowRuns:
    """Rows that nobody gets to read before they may."""

    runs: Runs
    wanted: asyncio.Event = field(default_factory=asyncio.Event)
    may_read: asyncio.Event = field(default_factory=asyncio.Event)

    async def get(self, tenant: Tenant, run_id: str) -> RunRow | None:
        self.wanted.set()
        await self.may_read.wait()
        return await self.runs.get(tenant, run_id)

    async def find_request(self, tenant: Tenant, request_id: str) -> tuple[str, bytes] | None:
        raise AssertionError(f"unexpected look for {request_id}")

    async def page(self, query: RunQuery) -> RunPage:
        raise AssertionError(f"unexpected list {query}")

    async def living_below(self, tenant: Tenant, run_id: str) -> Sequence[str]:
        raise AssertionError(f"unexpected look below {run_id}")


@dataclass(slots=True)
class WatchedJournal:
    """Logs, and what one process tried to add to them."""

    journal: Journal
    tried: list[Append] = field(default_factory=list[Append])

    async def create(self, new: NewRun) -> Created:
        raise AssertionError(f"unexpected run {new.run_id}")

    async def append(self, append: Append) -> None:
        self.tried.append(append)
        await self.journal.append(append)

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        return await self.journal.read(run_id, after_sequence=after_sequence, limit=limit)

    async def plan(self, digest: str) -> bytes:
        return await self.journal.plan(digest)


async def asked_its_model(jackline: Process, run_id: str) -> None:
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async for frame in frames:
        if any(isinstance(ProtoCodec().decode(one).fact, ModelCallStarted) for one in frame.events):
            return
    raise AssertionError("the run ended without a call")


async def has_let_go_of_all(jackline: Process) -> None:
    scheduler = jackline.runtime.scheduler
    while scheduler.room < scheduler.most_active:  # noqa: ASYNC110 - a turn of the loop is a step
        await asyncio.sleep(0)


async def test_a_worker_that_another_overtook_while_it_read_its_claim_writes_nothing() -> None:
    hand = Hand()
    store = memory_store(clock=hand.clock(), lease_ms=LEASE_MS)
    here = World(
        store=store,
        models=FakeModels(answering=lambda _: ScriptedReply(text="done", wait_ms=1_000_000)),
        toolbox=FakeTools(tools={}),
        plans={"plan": sealed(agent_plan())},
    )
    slow, logs = SlowRuns(store.runs), WatchedJournal(store.journal)
    there = World(
        store=change(store, runs=slow, journal=logs),
        models=FakeModels(answering=lambda _: AssertionError("it asks for a run that is not its own")),
        toolbox=FakeTools(tools={}),
        plans=here.plans,
    )
    async with asyncio.timeout(SECONDS):
        async with process(here, worker="first", drain_grace_ms=0) as first:
            run_id = await first.start()
        async with process(there, worker="slow", lease_ms=LEASE_MS) as overtaken:
            await slow.wanted.wait()
            hand.now_ms += LEASE_MS
            async with process(here, worker="quick", lease_ms=LEASE_MS, drain_grace_ms=0) as quick:
                await asked_its_model(quick, run_id)
                slow.may_read.set()
                await has_let_go_of_all(overtaken)
    assert logs.tried == []
