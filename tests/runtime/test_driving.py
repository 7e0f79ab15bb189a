"""The runtime drives a run from its start to its terminal event over a real store."""

import asyncio
from dataclasses import dataclass, replace

import pytest

from jackline_server.core.commands import Abort, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    FailureClass,
    ModelCallFailed,
    Phase,
    RunFinished,
    RunStarted,
    ToolCallFinished,
)
from jackline_server.core.messages import AssistantMessage, ToolMessage, UserMessage
from jackline_server.core.plan import Effect, ToolPolicy
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process
from jackline_server.testing.plans import AGENT, MODEL, agent_plan, entry, model, tool


def two_tools_then_answer(request: ModelRequest) -> ScriptedReply:
    if any(isinstance(message, ToolMessage) for message in request.messages):
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "look", "{}"), ("b", "change", "{}")))


@dataclass
class Scene:
    world: World
    models: FakeModels
    tools: FakeTools


def scene(*, tool_ms: int = 0) -> Scene:
    plan = agent_plan(
        tool("look", Effect.READ), tool("change", Effect.WRITE), tools=(entry("look"), entry("change"))
    )
    plan = replace(plan, models={MODEL: model(retries=0)})
    models = FakeModels(answering=two_tools_then_answer)
    tools = FakeTools(
        tools={"look": returns('{"found":1}'), "change": returns('{"ok":true}')}, wait_ms=lambda _: tool_ms
    )
    world = World(store=memory_store(), models=models, toolbox=tools, plans={"plan": plan})
    return Scene(world=world, models=models, tools=tools)


def end_of(seen: list[Record]) -> RunFinished:
    last = seen[-1].fact
    assert isinstance(last, RunFinished)
    return last


async def test_a_run_goes_through_its_tools_to_one_terminal_event() -> None:
    async with process(scene().world) as jackline, asyncio.timeout(5):
        run_id = await jackline.start(message="hello")
        seen = await jackline.follow(run_id)
        messages = await jackline.runtime.runs.messages(DEFAULT_TENANT, run_id, step_id="", visit=0)
    assert [record.envelope.sequence for record in seen] == list(range(1, len(seen) + 1))
    assert isinstance(seen[0].fact, RunStarted)
    assert end_of(seen).phase is Phase.SUCCEEDED
    assert end_of(seen).result_json == '"done"'
    finished = [record.fact for record in seen if isinstance(record.fact, ToolCallFinished)]
    assert [fact.status for fact in finished] == [CallStatus.COMPLETED] * 2
    assert [type(message) for message in messages].count(ToolMessage) == 2
    assert isinstance(messages[-1], AssistantMessage)


async def test_a_read_that_fails_in_a_way_that_may_pass_is_made_again_by_itself() -> None:
    retried = ToolPolicy(retries=2, retry_base_ms=5, retry_cap_ms=5)
    busy = ToolResult(ending=ToolEnding.FAILED, error="busy", may_pass=True)
    done = ToolResult(ending=ToolEnding.COMPLETED, output_json="1")
    world = scene().world
    tools = FakeTools(tools={"look": lambda call: busy if call.attempt < 3 else done, "change": returns("2")})
    plan = agent_plan(
        tool("look", Effect.READ),
        tool("change", Effect.WRITE),
        tools=(entry("look", policy=retried), entry("change", policy=retried)),
    )
    async with (
        process(replace(world, toolbox=tools, plans={"plan": plan})) as jackline,
        asyncio.timeout(5),
    ):
        seen = await jackline.follow(await jackline.start())
    assert [(call.step.step_id, call.attempt) for call in tools.ledger] == [
        ("look", 1),
        ("look", 2),
        ("look", 3),
        ("change", 1),
    ]
    finished = [record.fact for record in seen if isinstance(record.fact, ToolCallFinished)]
    assert [fact.retry_in_ms is None for fact in finished] == [False, False, True, True]
    assert end_of(seen).phase is Phase.SUCCEEDED


async def test_a_late_watcher_sees_the_same_as_a_live_one() -> None:
    async with process(scene().world) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        live = await jackline.follow(run_id)
        late = await jackline.follow(run_id)
        half = await jackline.follow(run_id, after=5)
    assert live == late
    assert half == live[5:]


async def test_a_watcher_finds_what_another_worker_writes_without_being_told() -> None:
    here = scene(tool_ms=500)
    async with (
        process(here.world) as driver,
        process(here.world, worker="worker-2") as other,
        asyncio.timeout(20),
    ):
        run_id = await driver.start()
        seen = await other.follow(run_id)
    assert end_of(seen).phase is Phase.SUCCEEDED
    assert [record.envelope.sequence for record in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize("mode", list(AbortMode))
async def test_an_abort_ends_a_run_whose_tool_is_under_way(mode: AbortMode) -> None:
    here = scene(tool_ms=1_000_000 if mode is AbortMode.NOW else 50)
    async with process(here.world) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        await here.tools.called.wait()
        abort = Abort(mode=mode, skip_routes=False)
        receipt = await jackline.control(run_id, abort, wait=Stage.SETTLED)
        seen = await jackline.follow(run_id)
    assert receipt.reached
    assert receipt.applied
    assert end_of(seen).phase is Phase.ABORTED
    assert len(here.tools.ledger) == 1


async def test_a_paused_run_starts_nothing_and_keeps_no_place_until_it_is_resumed() -> None:
    here = scene(tool_ms=20)
    async with process(here.world) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        paused = await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
        snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
        calls = len(here.tools.ledger)
        await jackline.control(run_id, Resume(), wait=Stage.EFFECTIVE)
        seen = await jackline.follow(run_id)
    assert paused.applied
    assert snapshot.state.phase is Phase.PAUSED
    assert calls < 2
    assert end_of(seen).phase is Phase.SUCCEEDED


async def test_a_steer_during_a_tool_call_reaches_the_next_turn() -> None:
    here = scene(tool_ms=50)
    async with process(here.world) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        await here.tools.called.wait()
        receipt = await jackline.control(run_id, Steer(text="be brief"), wait=Stage.EFFECTIVE)
        await jackline.follow(run_id)
    assert receipt.applied
    newest = here.models.requests[-1].messages[-1]
    assert isinstance(newest, UserMessage)
    assert newest.provenance == "steer:tester"
    assert "be brief" in newest.text


@pytest.mark.parametrize(
    "reply",
    [
        ScriptedReply(calls=tuple((f"c{number}", "look", "{}") for number in range(257))),
        ScriptedReply(text='"' * 600_000),
    ],
    ids=["257 calls", "a megabyte as JSON"],
)
async def test_a_reply_that_no_event_could_hold_is_a_failed_attempt(reply: ScriptedReply) -> None:
    here = scene()
    here.models.answering = lambda _: reply
    async with process(here.world) as jackline, asyncio.timeout(30):
        run_id = await jackline.start()
        failed = next(
            record.fact
            for record in await jackline.follow(run_id)
            if isinstance(record.fact, ModelCallFailed)
        )
    assert failed.failure is FailureClass.MALFORMED
    assert here.tools.ledger == []


@pytest.mark.parametrize(
    ("step_id", "visit", "field"),
    [("nope", 0, "step_id"), (AGENT, 3, "visit"), ("", 3, "visit"), ("look", 1, "visit")],
)
async def test_the_conversation_of_a_step_or_visit_that_there_is_not_is_refused(
    step_id: str, visit: int, field: str
) -> None:
    async with process(scene().world) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        await jackline.follow(run_id)
        runs = jackline.runtime.runs
        with pytest.raises(Refused) as refused:
            await runs.messages(DEFAULT_TENANT, run_id, step_id=step_id, visit=visit)
        still_to_come = await runs.messages(DEFAULT_TENANT, run_id, step_id="look", visit=0)
        assert await runs.messages(DEFAULT_TENANT, run_id, step_id=AGENT, visit=1)
    assert refused.value.reason is Reason.INVALID_REQUEST
    assert [violation.field for violation in refused.value.violations] == [field]
    assert list(still_to_come) == []
