"""A deadline is a time of day: everything counts, wherever the run stands, and whoever takes it over."""

import asyncio
import time
from dataclasses import replace

from jackline_server.core.commands import Pause
from jackline_server.core.facts import (
    Fact,
    InterruptRaised,
    ModelCallStarted,
    Paused,
    RunFinished,
    StopReason,
    TimerFired,
    TimerKind,
)
from jackline_server.core.plan import Effect, OnLimit, Plan
from jackline_server.models.limits import Guarded
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process, start_request
from tests.runtime.families import sealed

FOR_EVER_MS = 1_000_000
LOOK = plans.tool("look", Effect.READ)


def world(*, model_ms: int = 0, plan: Plan | None = None) -> World:
    def answering(request: ModelRequest) -> ScriptedReply:
        if len(request.messages) > 2:
            return ScriptedReply(text="done")
        return ScriptedReply(calls=(("a", "look", "{}"),), wait_ms=model_ms)

    return World(
        store=memory_store(),
        models=Guarded(FakeModels(answering=answering)),
        toolbox=FakeTools(tools={"look": returns("{}")}),
        plans={"plan": sealed(plan or plans.agent_plan(LOOK))},
    )


async def started(jackline: Process, in_ms: int) -> tuple[str, int]:
    deadline = int(time.time() * 1000) + in_ms
    answer = await jackline.runtime.runs.start(replace(start_request(), deadline_unix_ms=deadline))
    return answer.row.run_id, deadline


async def reached(jackline: Process, run_id: str, kind: type[Fact]) -> None:
    async for frame in jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False):
        log = await jackline.log(run_id)
        if frame.events and any(isinstance(record.fact, kind) for record in log):
            return


async def check_ended_at(jackline: Process, run_id: str, deadline: int) -> list[Fact]:
    records = await jackline.follow(run_id)
    facts = [record.fact for record in records]
    end = facts[-1]
    assert isinstance(end, RunFinished)
    assert (end.signal, end.stop_reason, end.stop_leaf) == (
        "time_exceeded",
        StopReason.DEADLINE,
        "run.deadline",
    )
    assert [fact.kind for fact in facts if isinstance(fact, TimerFired)] == [TimerKind.DEADLINE]
    assert deadline <= records[-1].envelope.unix_ms < deadline + 5_000
    return facts


async def test_it_ends_a_run_whose_model_is_being_asked() -> None:
    async with process(world(model_ms=FOR_EVER_MS)) as jackline, asyncio.timeout(20):
        await check_ended_at(jackline, *await started(jackline, 300))


async def test_it_ends_a_run_that_is_paused() -> None:
    async with process(world(model_ms=100)) as jackline, asyncio.timeout(20):
        run_id, deadline = await started(jackline, 600)
        await reached(jackline, run_id, ModelCallStarted)
        await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
        facts = await check_ended_at(jackline, run_id, deadline)
    assert any(isinstance(fact, Paused) for fact in facts)


async def test_it_ends_a_run_that_waits_for_a_person() -> None:
    asks = plans.agent_plan(
        LOOK,
        on_limit=OnLimit.ASK,
        limit_expiry_ms=FOR_EVER_MS,
        bounds=plans.step_bounds(max_iterations=1),
    )
    async with process(world(plan=asks)) as jackline, asyncio.timeout(20):
        run_id, deadline = await started(jackline, 500)
        await reached(jackline, run_id, InterruptRaised)
        await check_ended_at(jackline, run_id, deadline)


async def test_it_ends_a_run_that_nobody_drove_when_it_passed() -> None:
    a_world = world(model_ms=200)
    async with process(a_world, worker="one") as jackline, asyncio.timeout(20):
        run_id, deadline = await started(jackline, 400)
        await reached(jackline, run_id, ModelCallStarted)
        await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.call_later(max(deadline / 1000 - time.time(), 0), over.set)
    await over.wait()
    async with process(a_world, worker="two") as jackline, asyncio.timeout(20):
        await check_ended_at(jackline, run_id, deadline)
