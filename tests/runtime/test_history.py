"""What a model said is kept: its reasoning goes back unchanged, a broken reply stays as far as it came."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

from jackline_server.core.commands import Abort
from jackline_server.core.facts import (
    AbortMode,
    Compacted,
    CompactionKind,
    FailureClass,
    ModelCallFailed,
    Phase,
    RunFinished,
    Usage,
)
from jackline_server.core.messages import AssistantMessage, ToolMessage
from jackline_server.core.plan import CompactionMode, CompactionPlan
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.models import ModelChunk, ModelFailure, ModelRequest, TextChunk
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process
from jackline_server.testing.plans import MODEL, agent_plan, model, tool

SIGNED = '{"thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"c2lnbmVk"}]}'
BROKEN = ModelFailure(FailureClass.CONNECTION, "the connection broke", usage=Usage())


def world(models: FakeModels, *, compaction: CompactionPlan | None = None, output: str = "1") -> World:
    plan = agent_plan(tool("look"), compaction=compaction)
    plan = replace(plan, models={MODEL: model(context_window=4_000, retries=1, retry_base_ms=1)})
    tools = FakeTools(tools={"look": returns(output)})
    return World(store=memory_store(), models=models, toolbox=tools, plans={"plan": plan})


def finished(seen: list[Record]) -> RunFinished:
    last = seen[-1].fact
    assert isinstance(last, RunFinished)
    return last


async def test_reasoning_goes_back_with_the_reply_that_it_belongs_to() -> None:
    def answer(request: ModelRequest) -> ScriptedReply:
        if isinstance(request.messages[-1], ToolMessage):
            return ScriptedReply(text="done")
        return ScriptedReply(reasoning="Hm.", blocks_json=SIGNED, calls=(("a", "look", "{}"),))

    models = FakeModels(answering=answer)
    async with process(world(models)) as jackline, asyncio.timeout(5):
        await jackline.follow(await jackline.start())
    (said,) = [one for one in models.requests[-1].messages if isinstance(one, AssistantMessage)]
    assert said.blocks == ReasoningBlocks(profile=MODEL, model="scripted", field="", blocks_json=SIGNED)


async def test_a_reply_that_breaks_off_is_kept_as_far_as_it_came() -> None:
    replies = [ScriptedReply(text="It is sol", breaks_off=BROKEN), ScriptedReply(text="It is solved.")]
    models = FakeModels(answering=lambda _: replies.pop(0))
    async with process(world(models)) as jackline, asyncio.timeout(5):
        seen = await jackline.follow(await jackline.start())
    (failed,) = [record.fact for record in seen if isinstance(record.fact, ModelCallFailed)]
    assert (failed.text, failed.error) == ("It is sol", "the connection broke")
    assert finished(seen).result_json == '"It is solved."'


async def test_a_run_that_fails_keeps_what_had_come_as_its_partial_result() -> None:
    models = FakeModels(answering=lambda _: ScriptedReply(text="It is sol", breaks_off=BROKEN))
    async with process(world(models)) as jackline, asyncio.timeout(5):
        seen = await jackline.follow(await jackline.start())
    end = finished(seen)
    assert (end.phase, end.partial, end.result_json) == (Phase.FAILED, True, '"It is sol"')


@dataclass
class Hanging:
    """Says a little, then nothing."""

    said: asyncio.Event = field(default_factory=asyncio.Event)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        del request
        yield TextChunk("It is ")
        yield TextChunk("sol")
        self.said.set()
        await asyncio.Event().wait()


async def test_an_aborted_reply_is_kept_as_far_as_it_came() -> None:
    models = Hanging()
    here = replace(world(FakeModels(answering=lambda _: ScriptedReply())), models=models)
    async with process(here) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        await models.said.wait()
        await jackline.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=False), wait=Stage.SETTLED)
        seen = await jackline.follow(run_id)
    (failed,) = [record.fact for record in seen if isinstance(record.fact, ModelCallFailed)]
    assert (failed.failure, failed.text) == (FailureClass.CANCELLED, "It is sol")
    assert (finished(seen).partial, finished(seen).result_json) == (True, '"It is sol"')


async def test_the_loop_sums_up_a_long_conversation_and_goes_on() -> None:
    plan = CompactionPlan(
        mode=CompactionMode.SUMMARISE, at_permille=500, to_permille=200, model=MODEL, prune=None
    )

    def answer(request: ModelRequest) -> ScriptedReply:
        if not request.tools:
            return ScriptedReply(text="Looked.", calls=(("x", "look", "{}"),))
        if "Looked." in request.messages[1].text:
            return ScriptedReply(text="done")
        return ScriptedReply(calls=(("a", "look", "{}"),))

    models = FakeModels(answering=answer)
    here = world(models, compaction=plan, output=f'"{"x" * 3_000}"')
    async with process(here) as jackline, asyncio.timeout(5):
        seen = await jackline.follow(await jackline.start())
    (fact,) = [record.fact for record in seen if isinstance(record.fact, Compacted)]
    assert (fact.kind, fact.summary) == (CompactionKind.SUMMARY, "Looked.")
    assert finished(seen).result_json == '"done"'
