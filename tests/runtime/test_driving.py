"""The runtime drives a run from its start to its terminal event over a real store."""

import asyncio

import pytest

from jackline_server.core.commands import Abort, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    CommandApplied,
    Phase,
    RunFinished,
    RunStarted,
    ToolCallFinished,
)
from jackline_server.core.messages import AssistantMessage, ToolMessage
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports import ModelRequest
from jackline_server.runtime.store_ports import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process
from jackline_server.testing.plans import agent_plan, entry, tool


def two_tools_then_answer(request: ModelRequest) -> ScriptedReply:
    if any(isinstance(message, ToolMessage) for message in request.messages):
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "look", "{}"), ("b", "change", "{}")))


def world(answering=two_tools_then_answer, wait_ms=0) -> World:
    plan = agent_plan(
        tool("look", Effect.READ), tool("change", Effect.WRITE), tools=(entry("look"), entry("change"))
    )
    return World(
        store=memory_store(),
        models=FakeModels(answering=answering),
        toolbox=FakeTools(
            tools={"look": returns('{"found":1}'), "change": returns('{"ok":true}')},
            wait_ms=lambda _: wait_ms,
        ),
        plans={"plan": plan},
    )


async def test_a_run_goes_through_its_tools_to_one_terminal_event() -> None:
    async with process(world()) as jackline:
        run_id = await jackline.start(message="hello")
        async with asyncio.timeout(5):
            seen = await jackline.follow(run_id)
        assert [record.envelope.sequence for record in seen] == list(range(1, len(seen) + 1))
        assert isinstance(seen[0].fact, RunStarted)
        last = seen[-1].fact
        assert isinstance(last, RunFinished)
        assert last.phase is Phase.SUCCEEDED
        assert last.result_json == '"done"'
        finished = [r.fact for r in seen if isinstance(r.fact, ToolCallFinished)]
        assert [fact.status for fact in finished] == [CallStatus.COMPLETED] * 2
        messages = await jackline.runtime.runs.messages(DEFAULT_TENANT, run_id, step_id="", visit=0)
        assert [type(m) for m in messages].count(ToolMessage) == 2
        assert isinstance(messages[-1], AssistantMessage)


async def test_a_late_watcher_sees_the_same_as_a_live_one() -> None:
    async with process(world()) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(5):
            live = await jackline.follow(run_id)
            late = await jackline.follow(run_id)
            half = await jackline.follow(run_id, after=5)
        assert live == late
        assert half == live[5:]


@pytest.mark.parametrize("mode", list(AbortMode))
async def test_an_abort_ends_a_run_whose_tool_hangs(mode: AbortMode) -> None:
    here = world(wait_ms=1_000_000 if mode is AbortMode.NOW else 50)
    async with process(here) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(5):
            while not here.toolbox.ledger:
                await asyncio.sleep(0)
            receipt = await jackline.control(run_id, Abort(mode=mode, skip_routes=False), wait=Stage.SETTLED)
            seen = await jackline.follow(run_id)
        assert receipt.reached
        assert receipt.applied
        assert isinstance(seen[-1].fact, RunFinished)
        assert seen[-1].fact.phase is Phase.ABORTED
        assert len(here.toolbox.ledger) == 1


async def test_a_paused_run_starts_nothing_until_it_is_resumed() -> None:
    here = world(wait_ms=20)
    async with process(here) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(5):
            paused = await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
            assert paused.applied
            snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
            assert snapshot.state.phase is Phase.PAUSED
            calls = len(here.toolbox.ledger)
            while jackline.runtime.scheduler.active():
                await asyncio.sleep(0)
            assert len(here.toolbox.ledger) == calls
            await jackline.control(run_id, Resume(), wait=Stage.EFFECTIVE)
            seen = await jackline.follow(run_id)
        assert isinstance(seen[-1].fact, RunFinished)
        assert seen[-1].fact.phase is Phase.SUCCEEDED


async def test_a_steer_during_a_tool_call_reaches_the_next_turn() -> None:
    here = world(wait_ms=50)
    async with process(here) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(5):
            while not here.toolbox.ledger:
                await asyncio.sleep(0)
            receipt = await jackline.control(run_id, Steer(text="be brief"), wait=Stage.EFFECTIVE)
            seen = await jackline.follow(run_id)
        assert receipt.applied
        assert any(isinstance(r.fact, CommandApplied) for r in seen)
        assert "be brief" in here.models.requests[-1].messages[-1].text
