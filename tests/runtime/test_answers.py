"""Answers by a call of `finish` and by the provider's schema, through the real loop and its store."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort, Pause, Resume
from jackline_server.core.facts import (
    AbortMode,
    RunFinished,
    StopReason,
    ToolCallStarted,
)
from jackline_server.core.messages import AssistantMessage, ToolMessage
from jackline_server.core.plan import FINISH, AnswerForm, Completion, Effect, Plan
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Invocation
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process

CONTRACT = '{"type":"object","properties":{"outcome":{"enum":["ok"]},"result":{}},"required":["outcome"]}'
ANSWER = '{"outcome":"ok","result":{"n":1}}'


def plan(form: AnswerForm, completion: Completion = Completion.AUTO) -> Plan:
    outcome = plans.outcome(enum=("ok",), form=form, contract_json=CONTRACT)
    made = plans.agent_plan(plans.tool("change", Effect.WRITE), outcome=outcome, completion=completion)
    return replace(made, digest=hashlib.sha256(ProtoCodec().encode_plan(made)).hexdigest())


def said(request: ModelRequest) -> int:
    return sum(isinstance(message, AssistantMessage) for message in request.messages)


def world(plan: Plan, answering: Callable[[ModelRequest], ScriptedReply], *, tool_ms: int = 0) -> World:
    tools = FakeTools(tools={"change": returns('{"ok":true}')}, wait_ms=lambda _: tool_ms)
    return World(
        store=memory_store(), models=FakeModels(answering=answering), toolbox=tools, plans={"plan": plan}
    )


def ledger_of(world: World) -> list[Invocation]:
    assert isinstance(world.toolbox, FakeTools)
    return world.toolbox.ledger


def requests_of(world: World) -> list[ModelRequest]:
    assert isinstance(world.models, FakeModels)
    return world.models.requests


def end_of(seen: list[Record]) -> RunFinished:
    last = seen[-1].fact
    assert isinstance(last, RunFinished)
    return last


def goes_a_long_way(request: ModelRequest) -> ScriptedReply:
    """Text, a wrong call, a call beside a write."""
    match said(request):
        case 0:
            return ScriptedReply(text="I begin.")
        case 1:
            return ScriptedReply(calls=(("f1", FINISH, '{"outcome":"never"}'),))
        case _:
            return ScriptedReply(calls=(("f2", FINISH, ANSWER), ("c1", "change", "{}")))


async def test_a_call_of_finish_ends_the_run_and_no_toolbox_sees_it() -> None:
    scene = world(plan(AnswerForm.FINISH_TOOL, Completion.EXPLICIT), goes_a_long_way)
    async with process(scene) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        seen = await jackline.follow(run_id)
        messages = await jackline.runtime.runs.messages(DEFAULT_TENANT, run_id, step_id="", visit=0)
    assert end_of(seen).stop_reason is StopReason.FINISH_TOOL
    assert end_of(seen).result_json == '{"n":1}'
    assert [invocation.step.step_id for invocation in ledger_of(scene)] == ["change"]
    owed = [call.call_id for one in messages if isinstance(one, AssistantMessage) for call in one.calls]
    assert owed == [one.call_id for one in messages if isinstance(one, ToolMessage)] == ["f1", "f2", "c1"]


async def test_the_schema_of_the_answer_reaches_the_adapter() -> None:
    scene = world(plan(AnswerForm.NATIVE_SCHEMA), lambda _: ScriptedReply(text=ANSWER))
    async with process(scene) as jackline, asyncio.timeout(10):
        seen = await jackline.follow(await jackline.start())
    assert [request.reply_schema for request in requests_of(scene)] == [CONTRACT]
    assert end_of(seen).signal == "ok"


async def test_an_abort_during_a_call_beside_the_answer_keeps_the_answer_as_partial() -> None:
    scene = world(plan(AnswerForm.FINISH_TOOL, Completion.EXPLICIT), goes_a_long_way, tool_ms=60_000)
    assert isinstance(scene.toolbox, FakeTools)
    async with process(scene) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await scene.toolbox.called.wait()
        await jackline.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=False), wait=Stage.SETTLED)
        seen = await jackline.follow(run_id)
    assert (end_of(seen).signal, end_of(seen).partial, end_of(seen).result_json) == (
        "aborted",
        True,
        '{"n":1}',
    )


async def test_a_pause_between_the_other_call_and_the_answer_changes_nothing() -> None:
    scene = world(plan(AnswerForm.FINISH_TOOL, Completion.EXPLICIT), goes_a_long_way, tool_ms=50)
    assert isinstance(scene.toolbox, FakeTools)
    async with process(scene) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await scene.toolbox.called.wait()
        await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
        await jackline.control(run_id, Resume(), wait=Stage.EFFECTIVE)
        seen = await jackline.follow(run_id)
    assert end_of(seen).result_json == '{"n":1}'
    assert sum(isinstance(record.fact, ToolCallStarted) for record in seen) == 1


async def test_a_process_that_is_stopped_before_the_answer_counts_leaves_it_to_the_next() -> None:
    """The reply with the answer is durable; the write beside it is not under way any more."""
    scene = world(plan(AnswerForm.FINISH_TOOL, Completion.EXPLICIT), goes_a_long_way, tool_ms=100)
    assert isinstance(scene.toolbox, FakeTools)
    async with asyncio.timeout(20):
        async with process(scene, worker="one") as jackline:
            run_id = await jackline.start()
            await scene.toolbox.called.wait()
        async with process(scene, worker="two") as jackline:
            seen = await jackline.follow(run_id)
    assert end_of(seen).stop_reason is StopReason.FINISH_TOOL
    assert len(ledger_of(scene)) == 1
