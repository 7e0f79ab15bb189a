"""Bugs that the simulator found, each in the smallest form that shows it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from jackline_server.core.commands import Abort
from jackline_server.core.facts import AbortMode, Phase, RunFinished, RunRecovered, ToolCallFinished
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.command_table import Below, CommandRow, Commands, Submission
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow, Runs
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process
from jackline_server.testing.plans import agent_plan, entry, tool


def one_tool_then_answer(request: ModelRequest) -> ScriptedReply:
    if any(isinstance(message, ToolMessage) for message in request.messages):
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "look", "{}"),))


@dataclass(slots=True, kw_only=True)
class LossyCommands:
    """A command table whose answers get lost: so many to `submit`, so many to `pending`."""

    table: Commands
    submits: int = 0
    pendings: int = 0

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        answer = await self.table.submit(
            run_id, command_id=command_id, payload=payload, limit=limit, below=below
        )
        if self.submits:
            self.submits -= 1
            raise StoreUnavailable("the answer was lost")
        return answer

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        if self.pendings:
            self.pendings -= 1
            raise StoreUnavailable("the answer was lost")
        return await self.table.pending(run_id)

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        return await self.table.get(run_id, command_id)

    async def unheard(self, *, limit: int) -> Sequence[str]:
        return await self.table.unheard(limit=limit)


@dataclass(slots=True, kw_only=True)
class UnreachableRuns:
    """Rows that can't be read."""

    async def get(self, tenant: Tenant, run_id: str) -> RunRow | None:
        raise StoreUnavailable("no way")

    async def find_request(self, tenant: Tenant, request_id: str) -> tuple[str, bytes] | None:
        raise StoreUnavailable("no way")

    async def page(self, query: RunQuery) -> RunPage:
        raise StoreUnavailable("no way")

    async def living_below(self, tenant: Tenant, run_id: str) -> Sequence[str]:
        raise StoreUnavailable("no way")


def world(*, submits: int = 0, pendings: int = 0, wait_ms: int = 0, runs: Runs | None = None) -> World:
    store = memory_store()
    lossy = LossyCommands(table=store.commands, submits=submits, pendings=pendings)
    return World(
        store=replace(store, commands=lossy, runs=runs or store.runs),
        models=FakeModels(answering=one_tool_then_answer),
        toolbox=FakeTools(tools={"look": returns("{}")}, wait_ms=lambda _: wait_ms),
        plans={"plan": agent_plan(tool("look", Effect.READ), tools=(entry("look"),))},
    )


@dataclass(slots=True, kw_only=True)
class StubbornTools:
    """A tool that goes on when it is cancelled, until it is let go."""

    begun: asyncio.Event
    let_go: asyncio.Event

    async def call(self, invocation: Invocation) -> ToolResult:
        self.begun.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult(ending=ToolEnding.COMPLETED, output_json="{}")


async def test_an_abort_that_leaves_a_stubborn_call_behind_ends_the_run_as_aborted() -> None:
    tools = StubbornTools(begun=asyncio.Event(), let_go=asyncio.Event())
    here = replace(world(), toolbox=tools)
    async with process(here) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(10):
            await tools.begun.wait()
            receipt = await jackline.control(
                run_id, Abort(mode=AbortMode.NOW, skip_routes=False), wait=Stage.SETTLED
            )
            seen = await jackline.follow(run_id)
        tools.let_go.set()
    assert receipt.applied
    last = seen[-1].fact
    assert isinstance(last, RunFinished)
    assert last.phase is Phase.ABORTED
    assert [record.fact.abandoned for record in seen if isinstance(record.fact, ToolCallFinished)] == [True]


async def test_a_repeat_of_a_command_whose_first_answer_was_lost_is_heard() -> None:
    async with process(world(submits=1, wait_ms=600_000)) as jackline:
        run_id = await jackline.start()
        abort = Abort(mode=AbortMode.NOW, skip_routes=False)
        async with asyncio.timeout(10):
            with pytest.raises(Refused) as refused:
                await jackline.control(run_id, abort, command_id="once")
            assert refused.value.reason is Reason.STORE_UNAVAILABLE
            receipt = await jackline.control(
                run_id, abort, command_id="once", wait=Stage.SETTLED, wait_ms=3_000
            )
            seen = await jackline.follow(run_id)
    assert receipt.reached
    assert receipt.repeated
    assert isinstance(seen[-1].fact, RunFinished)


async def test_a_command_table_that_can_not_be_read_for_a_while_costs_a_run_nothing() -> None:
    async with process(world(pendings=3)) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(10):
            seen = await jackline.follow(run_id)
    assert not [record for record in seen if isinstance(record.fact, RunRecovered)]
    assert isinstance(seen[-1].fact, RunFinished)
    assert seen[-1].fact.phase is Phase.SUCCEEDED


async def test_a_command_whose_nudge_was_lost_is_heard_with_the_next_heartbeat() -> None:
    here = world(wait_ms=600_000)
    async with process(here, lease_ms=300) as jackline, process(here, worker="worker-2") as other:
        run_id = await jackline.start()
        async with asyncio.timeout(10):
            abort = Abort(mode=AbortMode.NOW, skip_routes=False)
            receipt = await other.control(run_id, abort, wait=Stage.SETTLED)
    assert receipt.applied
    assert receipt.reached


async def test_a_watch_over_a_store_that_can_not_be_reached_is_refused_with_that_reason() -> None:
    async with process(world(runs=UnreachableRuns())) as jackline:
        frames = jackline.runtime.runs.watch(DEFAULT_TENANT, "run_1", after_sequence=0, deltas=False)
        with pytest.raises(Refused) as refused:
            await anext(aiter(frames))
    assert refused.value.reason is Reason.STORE_UNAVAILABLE
