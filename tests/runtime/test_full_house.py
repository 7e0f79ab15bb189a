"""With every place taken: what ends a run, or changes it, waits for no place; what needs a call does."""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort, Command, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    Fact,
    ModelCallStarted,
    Paused,
    RunFinished,
    RunSuspended,
    Steered,
    StopReason,
)
from jackline_server.core.plan import Effect
from jackline_server.models.limits import Guarded
from jackline_server.runtime.ports.leases import Claim, Leases
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import Process, World, process, start_request
from jackline_server.testing.plans import agent_plan, tool
from tests.runtime.families import sealed

FOR_EVER_MS = 1_000_000
ABORT = Abort(mode=AbortMode.NOW, skip_routes=False)


class Asked:
    """A model whose first calls, `held`, never end; says how often it was asked, and with what."""

    def __init__(self, held: int) -> None:
        self.held = held
        self.requests: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ScriptedReply:
        self.requests.append(request)
        return ScriptedReply(
            text='{"outcome": "resolved", "result": "done"}',
            wait_ms=FOR_EVER_MS if len(self.requests) <= self.held else 0,
        )


@dataclass
class SlowToLetGo:
    """A store's leases; a run is let go of once it may be."""

    leases: Leases
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    may_leave: asyncio.Event = field(default_factory=asyncio.Event)

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        return await self.leases.claim(worker, limit=limit, now_unix_ms=now_unix_ms, called=called)

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        return await self.leases.renew(worker, run_ids)

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        self.leaving.set()
        await self.may_leave.wait()
        await self.leases.release(worker, run_id, epoch=epoch, heard=heard)


def world_of(store: Store, asked: Asked) -> World:
    return World(
        store=store,
        models=Guarded(FakeModels(answering=asked)),
        toolbox=FakeTools(tools={}),
        plans={"plan": sealed(agent_plan(tool("look", Effect.READ)))},
    )


@asynccontextmanager
async def full_house(
    places: int = 1, *, store: Store | None = None
) -> AsyncGenerator[tuple[Process, str, Asked]]:
    """A server with so many places, one of the runs that have them, and what the model was asked."""
    asked = Asked(places)
    world = world_of(store or memory_store(), asked)
    async with asyncio.timeout(20), process(world, max_active_runs=places) as jackline:
        holder = ""
        for _ in range(places):
            holder = await jackline.start()
            await reached(jackline, holder, ModelCallStarted)
        yield jackline, holder, asked


async def reached(jackline: Process, run_id: str, kind: type[Fact]) -> None:
    async for frame in jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False):
        decoded = [ProtoCodec().decode(event).fact for event in frame.events]
        if any(isinstance(fact, kind) for fact in decoded):
            return
    raise AssertionError(f"the run ended without {kind.__name__}")


async def facts_of(jackline: Process, run_id: str) -> list[Fact]:
    return [event.fact for event in await jackline.log(run_id)]


async def test_an_abort_ends_a_queued_run() -> None:
    async with full_house() as (jackline, _, asked):
        queued = await jackline.start()
        await jackline.control(queued, ABORT, wait=Stage.SETTLED)
        end = (await facts_of(jackline, queued))[-1]
        assert isinstance(end, RunFinished)
        assert end.stop_reason is StopReason.OPERATOR
        assert len(asked.requests) == 1


async def test_an_abort_whose_process_died_before_it_took_effect_waits_for_no_place_in_the_next() -> None:
    store = memory_store()
    async with full_house(store=store) as (jackline, holder, _):
        queued = await jackline.start()
    command = Command(
        command_id="stop",
        ordinal=0,
        principal="ops",
        reason="",
        expect_phase=None,
        expect_sequence=None,
        action=ABORT,
    )
    payload = ProtoCodec().encode_command(command)
    await store.commands.submit(queued, command_id="stop", payload=payload, limit=9)
    async with asyncio.timeout(20), process(world_of(store, Asked(1)), max_active_runs=1) as jackline:
        await reached(jackline, queued, RunFinished)
        assert not any(isinstance(fact, RunFinished) for fact in await facts_of(jackline, holder))


async def test_a_deadline_ends_a_queued_run() -> None:
    async with full_house() as (jackline, _, asked):
        deadline = int(time.time() * 1000) + 200
        request = replace(start_request(), deadline_unix_ms=deadline)
        queued = (await jackline.runtime.runs.start(request)).row.run_id
        await reached(jackline, queued, RunFinished)
        end = (await facts_of(jackline, queued))[-1]
        assert isinstance(end, RunFinished)
        assert end.stop_reason is StopReason.DEADLINE
        assert len(asked.requests) == 1


async def test_a_steered_run_is_let_go_of_and_hears_the_guidance_when_its_turn_comes() -> None:
    async with full_house() as (jackline, holder, asked):
        queued = await jackline.start()
        await jackline.control(queued, Steer(text="Look twice."))
        await reached(jackline, queued, RunSuspended)
        assert len(asked.requests) == 1, "it makes no call without a place"
        await jackline.control(holder, ABORT, wait=Stage.SETTLED)
        await reached(jackline, queued, RunFinished)
        assert any(isinstance(fact, Steered) for fact in await facts_of(jackline, queued))
        assert "Look twice." in repr(asked.requests[-1].messages)


async def test_an_abort_that_comes_while_a_run_is_being_let_go_of_is_carried_out() -> None:
    store = memory_store()
    leases = SlowToLetGo(store.leases)
    async with full_house(store=replace(store, leases=leases)) as (jackline, _, asked):
        queued = await jackline.start()
        await jackline.control(queued, Pause())
        await leases.leaving.wait()
        await jackline.control(queued, ABORT)
        leases.may_leave.set()
        await reached(jackline, queued, RunFinished)
        assert len(asked.requests) == 1


async def test_a_paused_run_is_resumed_and_waits_for_a_place() -> None:
    async with full_house() as (jackline, holder, asked):
        queued = await jackline.start()
        await jackline.control(queued, Pause(), wait=Stage.SETTLED)
        await jackline.control(queued, Resume(), wait=Stage.SETTLED)
        await reached(jackline, queued, RunSuspended)
        assert any(isinstance(fact, Paused) for fact in await facts_of(jackline, queued))
        assert len(asked.requests) == 1
        await jackline.control(holder, ABORT, wait=Stage.SETTLED)
        await reached(jackline, queued, RunFinished)
        assert len(asked.requests) == 2


async def test_more_aborts_than_errands_are_all_carried_out() -> None:
    async with full_house(places=4) as (jackline, _, asked):
        queued = [await jackline.start() for _ in range(40)]
        await asyncio.gather(*(jackline.control(run_id, ABORT, wait=Stage.SETTLED) for run_id in queued))
        for run_id in queued:
            assert isinstance((await facts_of(jackline, run_id))[-1], RunFinished)
        assert len(asked.requests) == 4
