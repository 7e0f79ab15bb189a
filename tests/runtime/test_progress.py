"""Repetition, reflection and grounding through the runtime: what the model is sent, what cuts a judge off."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    FailureClass,
    Grounded,
    ModelCallFailed,
    NoticeCode,
    Noticed,
    Phase,
    Reflected,
    RunFinished,
    RunRecovered,
    StopReason,
    ToolCallFinished,
    ToolCallRequested,
)
from jackline_server.core.messages import UserMessage
from jackline_server.core.plan import (
    Effect,
    GroundPlan,
    OnJudgeError,
    Plan,
    ReflectPlan,
)
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.models import ModelFailure, ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process

SEND = plans.tool("send", Effect.WRITE)
SENDS = ScriptedReply(calls=(("", "send", '{"to":"ada"}'),))
GROUND = GroundPlan(model=plans.MODEL, threshold_permille=650, max_replans=1, on_error=OnJudgeError.EXIT)


def is_judge(request: ModelRequest) -> bool:
    return "# Answer\n" in request.messages[-1].text


def world(
    plan: Plan, *replies: ScriptedReply | Exception, verdicts: tuple[ScriptedReply | Exception, ...] = ()
) -> World:
    """A model that gives the replies in turn, and the verdicts when it is asked to judge."""
    said, judged = iter(replies), iter(verdicts)
    models = FakeModels(answering=lambda request: next(judged if is_judge(request) else said))
    plan = replace(plan, digest="", models={plans.MODEL: plans.model(retries=0)})
    plan = replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())
    tools = FakeTools(tools={"send": returns('{"sent":true}')})
    return World(store=memory_store(), models=models, toolbox=tools, plans={"plan": plan})


def requests(here: Process) -> list[ModelRequest]:
    models = here.world.models
    assert isinstance(models, FakeModels)
    return models.requests


def end_of(seen: list[Record]) -> RunFinished:
    last = seen[-1].fact
    assert isinstance(last, RunFinished)
    return last


async def played(here: World) -> tuple[list[Record], list[ModelRequest]]:
    async with process(here) as jackline, asyncio.timeout(5):
        seen = await jackline.follow(await jackline.start())
        return seen, requests(jackline)


def facts(seen: list[Record], kind: type[object]) -> list[object]:
    return [record.fact for record in seen if isinstance(record.fact, kind)]


async def test_a_model_that_repeats_a_write_is_told_so_and_then_stopped() -> None:
    repeat = RepeatPlan(by=RepeatBy.ARGS_RESULT, count=2, nudge=True)
    seen, sent = await played(world(plans.agent_plan(SEND, repeat=repeat), SENDS, SENDS, SENDS))
    (notice,) = (fact for fact in facts(seen, Noticed) if isinstance(fact, Noticed))
    assert notice.code is NoticeCode.REPETITION
    assert end_of(seen).stop_reason is StopReason.TOOL_LOOP
    assert notice.text in sent[-1].messages[-1].text
    assert len(facts(seen, ToolCallFinished)) == 3


async def test_a_look_back_stands_in_the_next_request_and_in_the_log_of_the_turn() -> None:
    plan = plans.agent_plan(SEND, reflect=ReflectPlan(every=1, guidance=True))
    seen, sent = await played(world(plan, SENDS, ScriptedReply(text="done")))
    (record,) = (record for record in seen if isinstance(record.fact, Reflected))
    assert (record.envelope.step_id, record.envelope.iteration) == (plans.AGENT, 1)
    assert isinstance(record.fact, Reflected)
    assert record.fact.guidance in sent[-1].messages[-1].text


async def test_a_judge_has_no_tools_and_no_place_in_the_conversation() -> None:
    here = world(
        plans.agent_plan(SEND, ground=GROUND),
        SENDS,
        ScriptedReply(text="It was sent twice."),
        ScriptedReply(text="It was sent."),
        verdicts=(
            ScriptedReply(text='{"score": 0, "unsupported": ["twice"]}', calls=(("", "send", "{}"),)),
            ScriptedReply(text='{"score": 1, "unsupported": []}'),
        ),
    )
    async with process(here) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        seen = await jackline.follow(run_id)
        messages = await jackline.runtime.runs.messages(DEFAULT_TENANT, run_id, step_id="", visit=0)
        judged = [request for request in requests(jackline) if is_judge(request)]
    assert end_of(seen).phase is Phase.SUCCEEDED
    assert [request.tools for request in judged] == [(), ()]
    assert len(facts(seen, ToolCallRequested)) == 1
    assert len(facts(seen, Grounded)) == 2
    assert not any('"score"' in message.text for message in messages)
    notes = [m for m in messages if isinstance(m, UserMessage) and m.provenance == "notice"]
    assert len(notes) == 1
    assert "twice" in notes[0].text


@pytest.mark.parametrize("on_error", list(OnJudgeError))
async def test_a_judge_that_can_t_be_reached_follows_on_error(on_error: OnJudgeError) -> None:
    plan = plans.agent_plan(SEND, ground=replace_on_error(on_error))
    failure = ModelFailure(FailureClass.UNAVAILABLE, "down")
    seen, _ = await played(world(plan, SENDS, ScriptedReply(text="done"), verdicts=(failure,)))
    ignored = on_error is OnJudgeError.IGNORE
    assert end_of(seen).phase is (Phase.SUCCEEDED if ignored else Phase.FAILED)
    assert end_of(seen).partial is not ignored
    assert end_of(seen).result_json == '"done"'


def replace_on_error(on_error: OnJudgeError) -> GroundPlan:
    return replace(GROUND, on_error=on_error)  # pyright: ignore[reportArgumentType]  # a frozen value is a dataclass


def slow_judge() -> World:
    slow = ScriptedReply(text='{"score": 1, "unsupported": []}', wait_ms=1_000_000)
    good = ScriptedReply(text='{"score": 1, "unsupported": []}')
    plan = plans.agent_plan(SEND, ground=GROUND)
    return world(plan, SENDS, ScriptedReply(text="done"), verdicts=(slow, good))


async def until_judged(here: World) -> None:
    """Wait until the judge was asked."""
    models = here.models
    assert isinstance(models, FakeModels)
    answering, asked = models.answering, asyncio.Event()

    def answer(request: ModelRequest) -> ScriptedReply | Exception:
        if is_judge(request):
            asked.set()
        return answering(request)

    models.answering = answer
    await asked.wait()


async def test_an_abort_cuts_the_judge_off_and_keeps_the_answer() -> None:
    here = slow_judge()
    async with process(here) as jackline, asyncio.timeout(5):
        judged = asyncio.ensure_future(until_judged(here))
        run_id = await jackline.start()
        await judged
        await jackline.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=False))
        seen = await jackline.follow(run_id)
        ledger = (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state.ledger
    (failed,) = (fact for fact in facts(seen, ModelCallFailed) if isinstance(fact, ModelCallFailed))
    assert failed.failure is FailureClass.CANCELLED
    assert end_of(seen).phase is Phase.ABORTED
    assert end_of(seen).result_json == '"done"'
    assert (ledger.reserved_tokens, ledger.model_requests) == (0, 3)


async def test_another_worker_judges_the_answer_that_was_waiting() -> None:
    here = slow_judge()
    async with asyncio.timeout(10):
        async with process(here, drain_grace_ms=1) as first:
            judged = asyncio.ensure_future(until_judged(here))
            run_id = await first.start()
            await judged
        async with process(here, worker="worker-2") as second:
            seen = await second.follow(run_id)
    assert end_of(seen).result_json == '"done"'
    assert facts(seen, RunRecovered)
    assert len(facts(seen, Grounded)) == 1
    statuses = [fact.status for fact in facts(seen, ToolCallFinished) if isinstance(fact, ToolCallFinished)]
    assert statuses == [CallStatus.COMPLETED]
