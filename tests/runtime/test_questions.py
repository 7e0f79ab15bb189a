"""A run that asks a person: wrong answers are refused, waiting takes no place, a fork asks too."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Answer
from jackline_server.core.facts import InterruptRaised, Phase, RunFinished, ToolAsk, ToolCallStarted
from jackline_server.core.frozen import change
from jackline_server.core.plan import END, HumanAction, McpAction, Plan, ToolStep
from jackline_server.runtime.ports.leases import Claim, Leases
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import ForkRun, Stage, TighterBounds
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, ScriptedReply
from jackline_server.testing.harness import CALLER, Process, World, process
from jackline_server.tools import human
from jackline_server.tools.results import completed
from tests.runtime.families import sealed

FORM = '{"type":"object","properties":{"nights":{"type":"integer"}},"required":["nights"]}'
ASK = plans.tool(
    "ask",
    kind="human",
    input={"name": "/input/name"},
    action=HumanAction(question="How long does {{ name }} stay?", schema_json=FORM),
    routes={"*": END},
)


@dataclass
class Freed:
    """A store's leases; says when a run is let go of."""

    leases: Leases
    let_go: asyncio.Event = field(default_factory=asyncio.Event)

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        return await self.leases.claim(worker, limit=limit, now_unix_ms=now_unix_ms, called=called)

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        return await self.leases.renew(worker, run_ids)

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        await self.leases.release(worker, run_id, epoch=epoch, heard=heard)
        self.let_go.set()


class Asks:
    """A toolbox with nothing but questions."""

    async def call(self, invocation: Invocation) -> ToolResult:
        action = invocation.step.action
        assert isinstance(action, HumanAction)
        return human.asked(action, invocation)


class AsksInTheMidst:
    """A toolbox whose one tool asks, and is content with any answer."""

    async def call(self, invocation: Invocation) -> ToolResult:
        if invocation.reply is not None:
            return completed(invocation.reply.option)
        return ToolResult(ending=ToolEnding.ASKING, ask=ToolAsk(text="Shall it?", schema_json=FORM))


def no_model(request: ModelRequest) -> ScriptedReply:
    raise AssertionError(f"no model is asked: {request}")


def world(store: Store | None = None, step: ToolStep = ASK) -> World:
    plan: Plan = sealed(plans.plan_of(step))
    return World(
        store=store or memory_store(),
        models=FakeModels(answering=no_model),
        toolbox=Asks(),
        plans={"plan": plan},
    )


async def asked(jackline: Process, run_id: str) -> InterruptRaised:
    """The question, once it is open."""
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async for frame in frames:
        for event in frame.events:
            fact = ProtoCodec().decode(event).fact
            if isinstance(fact, InterruptRaised):
                return fact
    raise AssertionError("the run asked nothing")


def answer(asked: InterruptRaised, text: str, option: str = "accept") -> Answer:
    return Answer(interrupt_id=asked.interrupt_id, option=option, text=text)


async def finished(jackline: Process, run_id: str) -> RunFinished:
    log = await jackline.follow(run_id)
    assert len([one for one in log if isinstance(one.fact, InterruptRaised)]) == 1
    assert len([one for one in log if isinstance(one.fact, ToolCallStarted)]) == 1
    fact = log[-1].fact
    assert isinstance(fact, RunFinished)
    return fact


@pytest.mark.parametrize("text", ["", "two", "[2]", '{"nights": "two"}', "{}"])
async def test_an_answer_that_does_not_fit_is_refused_with_its_reason_and_the_question_stays_open(
    text: str,
) -> None:
    async with process(world()) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(name="Ann")
        question = await asked(jackline, run_id)
        with pytest.raises(Refused) as refused:
            await jackline.control(run_id, answer(question, text))
        receipt = await jackline.control(run_id, answer(question, '{"nights": 2}'), wait=Stage.SETTLED)
        end = await finished(jackline, run_id)
    assert question.question == "How long does Ann stay?"
    assert refused.value.reason is Reason.INVALID_ANSWER
    assert [one.field for one in refused.value.violations] == ["answer.text"]
    assert receipt.applied
    assert (end.phase, end.result_json) == (Phase.SUCCEEDED, '{"nights":2}')


@pytest.mark.parametrize("text", ["", "  ", "\u00a0\n", "\u200b"])
async def test_an_answer_in_words_says_something(text: str) -> None:
    step = replace(ASK, action=HumanAction(question="Who is it?"))
    async with process(world(step=step)) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(name="Ann")
        question = await asked(jackline, run_id)
        with pytest.raises(Refused) as refused:
            await jackline.control(run_id, answer(question, text))
        await jackline.control(run_id, answer(question, " Ann "), wait=Stage.SETTLED)
        end = await finished(jackline, run_id)
    assert refused.value.reason is Reason.INVALID_ANSWER
    assert [one.field for one in refused.value.violations] == ["answer.text"]
    assert (end.phase, end.result_json) == (Phase.SUCCEEDED, '" Ann "')


async def test_words_that_a_tool_would_never_be_told_are_refused_and_the_question_stays_open() -> None:
    midst = plans.tool(
        "ask",
        kind="mcp",
        action=McpAction(connection="desk", tool="ask", arguments_json="{}", tool_digest=""),
        routes={"*": END},
    )
    there = replace(world(step=midst), toolbox=AsksInTheMidst())
    async with process(there) as jackline, asyncio.timeout(60):
        run_id = await jackline.start()
        question = await asked(jackline, run_id)
        with pytest.raises(Refused) as refused:
            await jackline.control(run_id, answer(question, "not today", "decline"))
        receipt = await jackline.control(run_id, answer(question, "", "decline"), wait=Stage.SETTLED)
    assert refused.value.reason is Reason.INVALID_ANSWER
    assert receipt.applied


async def test_a_run_that_waits_for_an_answer_is_in_nobodys_hands() -> None:
    store = memory_store()
    freed = Freed(store.leases)
    async with process(world(change(store, leases=freed))) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(name="Ann")
        question = await asked(jackline, run_id)
        await freed.let_go.wait()
        row = await store.runs.get(DEFAULT_TENANT, run_id)
        await jackline.control(run_id, answer(question, '{"nights": 3}'))
        await finished(jackline, run_id)
    assert row is not None
    assert (row.owner, row.phase) == (None, Phase.WAITING)


async def test_a_question_outlives_the_process_that_asked_it(tmp_path: Path) -> None:
    opened = await open_sqlite(tmp_path / "data")
    try:
        async with process(world(opened.store)) as jackline, asyncio.timeout(20):
            run_id = await jackline.start(name="Ann")
            question = await asked(jackline, run_id)
        async with process(world(opened.store)) as other, asyncio.timeout(20):
            await other.control(run_id, answer(question, '{"nights": 3}'))
            end = await finished(other, run_id)
    finally:
        await opened.close()
    assert end.result_json == '{"nights":3}'


async def test_a_question_is_open_in_a_fork_too_and_each_run_has_an_answer_of_its_own() -> None:
    async with process(world()) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(name="Ann")
        question = await asked(jackline, run_id)
        head = len(await jackline.log(run_id))
        done = await jackline.runtime.runs.fork(
            ForkRun(
                caller=CALLER,
                run_id=run_id,
                request_id="fork",
                fingerprint=b"fork",
                sequence=head,
                workflow="",
                bounds=TighterBounds(),
                labels={},
                steer="",
                deadline_unix_ms=None,
            )
        )
        await jackline.control(done.row.run_id, answer(question, '{"nights": 1}'))
        forked = await jackline.follow(done.row.run_id)
        await jackline.control(run_id, answer(question, '{"nights": 9}'))
        own = await finished(jackline, run_id)
    assert isinstance(forked[-1].fact, RunFinished)
    assert (own.result_json, forked[-1].fact.result_json) == ('{"nights":9}', '{"nights":1}')
