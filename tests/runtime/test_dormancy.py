"""A run that waits for a person keeps no place in this process, whatever waits in its command table."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from jackline_server.core.commands import Pause, Resume, Steer
from jackline_server.core.facts import CommandApplied, Paused, Phase, RunFinished, RunRecovered, Steered
from jackline_server.core.frozen import change
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.leases import Claim, Leases
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing.doubles import FakeModels, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import agent_plan, tool

PLAN = agent_plan(tool("look", Effect.WRITE))


@dataclass
class Seen:
    """A store's leases; says which runs were claimed, and when one is let go of."""

    leases: Leases
    claimed: list[str] = field(default_factory=list[str])
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        claims = await self.leases.claim(worker, limit=limit, now_unix_ms=now_unix_ms, called=called)
        self.claimed += [claim.run_id for claim in claims]
        return claims

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        return await self.leases.renew(worker, run_ids)

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        await self.leases.release(worker, run_id, epoch=epoch, heard=heard)
        self.let_go.set()


@dataclass
class Gate:
    """The tool, which is held at its first call."""

    called: asyncio.Event = field(default_factory=asyncio.Event)
    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, invocation: Invocation) -> ToolResult:
        self.called.set()
        await self.open.wait()
        return returns('"found"')(invocation)


def answer(request: ModelRequest) -> ScriptedReply:
    if any(isinstance(message, ToolMessage) for message in request.messages):
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "look", "{}"), ("b", "look", "{}")))


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield memory_store()
        return
    opened = await open_sqlite(tmp_path / "data")
    try:
        yield opened.store
    finally:
        await opened.close()


async def owner_of(jackline: Process, run_id: str) -> str | None:
    row = await jackline.world.store.runs.get(DEFAULT_TENANT, run_id)
    assert row is not None
    return row.owner


async def test_a_pause_pins_nothing_though_guidance_waits_for_its_place(store: Store) -> None:
    seen, gate, models = Seen(store.leases), Gate(), FakeModels(answering=answer)
    world = World(store=change(store, leases=seen), models=models, toolbox=gate, plans={"plan": PLAN})
    async with asyncio.timeout(20), process(world) as jackline:
        run_id = await jackline.start()
        await gate.called.wait()
        await jackline.control(run_id, Steer(text="Be quick."), command_id="steer")
        await jackline.control(run_id, Pause(), command_id="pause")
        gate.open.set()
        await seen.let_go.wait()
        assert await owner_of(jackline, run_id) is None
        assert (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state.phase is Phase.PAUSED
        assert await store.leases.claim("other", limit=10, now_unix_ms=0) == [], "nobody is needed for it"
        await jackline.control(run_id, Resume(), command_id="resume")
        log = await jackline.follow(run_id)
    assert seen.claimed == [run_id]
    order = [
        one.fact.command_id if isinstance(one.fact, CommandApplied) else type(one.fact).__name__
        for one in log
        if isinstance(one.fact, CommandApplied | Paused | Steered | RunFinished)
    ]
    assert order == ["pause", "Paused", "resume", "steer", "Steered", "RunFinished"]
    assert "Be quick." in models.requests[-1].messages[-1].text
    assert isinstance(log[-1].fact, RunFinished)
    assert log[-1].fact.phase is Phase.SUCCEEDED


async def test_a_held_run_that_is_taken_up_for_a_command_is_where_its_sender_saw_it(store: Store) -> None:
    seen, models = Seen(store.leases), FakeModels(answering=answer)
    gate = Gate()
    world = World(store=change(store, leases=seen), models=models, toolbox=gate, plans={"plan": PLAN})
    async with asyncio.timeout(20), process(world) as jackline:
        run_id = await jackline.start()
        await gate.called.wait()
        await jackline.control(run_id, Pause(), command_id="pause")
        gate.open.set()
        await seen.let_go.wait()
        sequence = len(await jackline.log(run_id))
        receipt = await jackline.control(
            run_id, Resume(), command_id="resume", expect_sequence=sequence, wait=Stage.EFFECTIVE
        )
        facts = [one.fact for one in await jackline.follow(run_id)]
    assert receipt.rejection == ""
    assert isinstance(facts[sequence], RunRecovered)
    assert isinstance(facts[-1], RunFinished)
    assert facts[-1].phase is Phase.SUCCEEDED
