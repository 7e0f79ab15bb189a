"""Runs whose tools wait before anything is called: who is shown it, and what is left of it in the log."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from jackline_server.core.commands import Abort
from jackline_server.core.facts import AbortMode, Phase, RunFinished, ToolCallFinished
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitFor
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.runtime.use_cases import Stage, ToolWaiting
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, ScriptedReply
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import plan_of, tool
from jackline_server.tools.guards import Guard, Place
from jackline_server.tools.results import completed

PLACE = ToolWait(what=WaitFor.PLACE, connection="orders", count=1)


@dataclass(frozen=True)
class Orders:
    """The one connection of these tests: one call at a time."""

    name: str = "orders"
    concurrency: int = 1
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker()


@dataclass
class Counter:
    """A toolbox whose calls all go over that connection. `waits` is set once one has to wait."""

    guard: Guard = field(default_factory=lambda: Guard(Orders()))
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, invocation: Invocation) -> ToolResult:
        def told(wait: ToolWait | None) -> None:
            invocation.on_wait(wait)
            self.waits.set()

        async def done() -> ToolResult:
            return completed("done")

        deadline = asyncio.get_running_loop().time() + invocation.timeout_ms / 1000
        return await self.guard.run(deadline, done, on_wait=told)


@asynccontextmanager
async def crowded() -> AsyncGenerator[tuple[Process, Counter, Place]]:
    """A process whose tools have one place, and that place, taken."""
    tools = Counter()
    place = await tools.guard.take(asyncio.get_running_loop().time() + 1)
    world = World(
        store=memory_store(),
        models=FakeModels(answering=lambda _: ScriptedReply(text="done")),
        toolbox=tools,
        plans={"plan": plan_of(tool("look"))},
    )
    async with process(world) as jackline, asyncio.timeout(20):
        yield jackline, tools, place


async def waiting_of(jackline: Process, run_id: str) -> list[ToolWait]:
    return [call.wait for call in (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).waits]


async def shown(jackline: Process, run_id: str, place: Place) -> list[ToolWaiting]:
    """The waits that a watcher is shown, who lets the call begin once it has seen one."""
    found: list[ToolWaiting] = []
    async for frame in jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=True):
        found += [delta.waiting for delta in frame.deltas if delta.waiting is not None]
        if found:
            place.release()
    return found


async def test_watchers_are_shown_that_a_call_waits_also_those_who_come_late() -> None:
    async with crowded() as (jackline, tools, place):
        run_id = await jackline.start()
        await tools.waits.wait()
        late = await shown(jackline, run_id, place)
        assert [(one.call.wait, one.call.step_id) for one in late][:1] == [(PLACE, "look")]
        assert not late[0].is_over
        assert all(one.is_over for one in late[1:])


async def test_who_reads_a_run_is_told_what_its_calls_wait_for_until_they_begin() -> None:
    async with crowded() as (jackline, tools, place):
        run_id = await jackline.start()
        await tools.waits.wait()
        assert await waiting_of(jackline, run_id) == [PLACE]
        place.release()
        await jackline.follow(run_id)
        assert await waiting_of(jackline, run_id) == []


async def test_the_log_keeps_how_long_a_call_waited_and_nothing_of_one_that_did_not() -> None:
    async with crowded() as (jackline, tools, place):
        first = await jackline.start()
        await tools.waits.wait()
        loop = asyncio.get_running_loop()
        loop.call_later(0.2, place.release)
        waited = [one.fact for one in await jackline.follow(first) if isinstance(one.fact, ToolCallFinished)]
        assert [150 <= fact.waited_ms <= fact.duration_ms for fact in waited] == [True]
        second = await jackline.start()
        at_once = [
            one.fact for one in await jackline.follow(second) if isinstance(one.fact, ToolCallFinished)
        ]
        assert [fact.waited_ms for fact in at_once] == [0]


async def test_a_run_that_is_aborted_while_its_call_waits_leaves_no_wait() -> None:
    async with crowded() as (jackline, tools, place):
        run_id = await jackline.start()
        await tools.waits.wait()
        await jackline.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=False), wait=Stage.SETTLED)
        last = (await jackline.follow(run_id))[-1].fact
        assert isinstance(last, RunFinished)
        assert last.phase is Phase.ABORTED
        assert await waiting_of(jackline, run_id) == []
        place.release()
        assert tools.guard.waiting == 0
