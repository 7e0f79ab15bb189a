"""New bounds for a run that a process drives: at once, durable, once, and only from whom they may come."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import AdjustBounds, Answer, Pause
from jackline_server.core.facts import (
    BoundsAdjusted,
    CommandApplied,
    Fact,
    InterruptRaised,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunFinished,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import BoundsCap, OnLimit, Plan
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.use_cases import Stage, TighterBounds
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process, start_request

FOR_EVER_MS = 1_000_000


def answers(request: ModelRequest, wait_ms: int) -> ScriptedReply:
    if len(request.messages) > 2:
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "look", "{}"),), wait_ms=wait_ms)


def world(
    plan: Plan | None = None,
    *,
    model_ms: int = 0,
    tool_ms: int = 0,
    limits: RunLimits | None = None,
    large: bool = False,
) -> World:
    return World(
        store=memory_store(),
        models=FakeModels(
            answering=lambda request: replace(
                answers(request, model_ms),
                usage=Usage(prompt_tokens=100 if large else 10, completion_tokens=5),
            )
        ),
        toolbox=FakeTools(tools={"look": returns("{}")}, wait_ms=lambda _: tool_ms),
        plans={"plan": plan or plans.agent_plan(plans.tool("look"))},
        limits=limits or RunLimits(),
    )


async def reached(jackline: Process, run_id: str, kind: type[Fact]) -> None:
    """Return once the run has a fact of that kind."""
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async for frame in frames:
        if any(isinstance(ProtoCodec().decode(event).fact, kind) for event in frame.events):
            return


def timeout(run_ms: int) -> AdjustBounds:
    return AdjustBounds(run=NewRunBounds(run_timeout_ms=run_ms))


async def test_a_shorter_timeout_ends_a_call_of_a_model_that_is_under_way() -> None:
    async with process(world(model_ms=FOR_EVER_MS)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await reached(jackline, run_id, ModelCallStarted)
        receipt = await jackline.control(run_id, timeout(100), wait=Stage.EFFECTIVE)
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert receipt.applied
    assert isinstance(facts[-1], RunFinished)
    assert facts[-1].stop_leaf == "run.run_timeout"
    kinds = [type(fact) for fact in facts]
    assert kinds.index(BoundsAdjusted) < kinds.index(ModelCallFailed)


async def test_a_longer_timeout_lets_a_call_of_a_model_that_is_under_way_end_well() -> None:
    plan = plans.plan_of(
        plans.agent(tools=(plans.entry("look"),)),
        plans.tool("look"),
        bounds=plans.run_bounds(run_timeout_ms=400),
    )
    async with process(world(plan, model_ms=600)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await reached(jackline, run_id, ModelCallStarted)
        await jackline.control(run_id, timeout(60_000), wait=Stage.EFFECTIVE)
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert isinstance(facts[-1], RunFinished)
    assert facts[-1].signal == "default"
    assert not any(isinstance(fact, ModelCallFailed) for fact in facts)
    kinds = [type(fact) for fact in facts]
    assert kinds.index(BoundsAdjusted) < kinds.index(ModelReplied)


async def test_new_bounds_are_in_effect_while_a_tool_is_under_way() -> None:
    async with process(world(tool_ms=300)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await reached(jackline, run_id, ToolCallStarted)
        action = AdjustBounds(visit=NewVisitBounds(max_iterations=1))
        receipt = await jackline.control(run_id, action, wait=Stage.EFFECTIVE)
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert receipt.applied
    kinds = [type(fact) for fact in facts]
    assert kinds.index(BoundsAdjusted) < kinds.index(ToolCallFinished)
    assert isinstance(facts[-1], RunFinished)
    assert facts[-1].stop_leaf == "step.max_iterations"


async def test_new_bounds_overtake_no_earlier_command() -> None:
    async with process(world(model_ms=200)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await reached(jackline, run_id, ModelCallStarted)
        await jackline.control(run_id, Pause(), command_id="first")
        await jackline.control(run_id, timeout(60_000), command_id="second", wait=Stage.EFFECTIVE)
        facts = [record.fact for record in await jackline.log(run_id)]
    assert [fact.command_id for fact in facts if isinstance(fact, CommandApplied)] == ["first", "second"]


async def test_a_repeat_changes_nothing_and_gets_the_first_receipt() -> None:
    async with process(world(tool_ms=300)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await reached(jackline, run_id, ToolCallStarted)
        first = await jackline.control(run_id, timeout(50_000), command_id="one", wait=Stage.EFFECTIVE)
        again = await jackline.control(run_id, timeout(50_000), command_id="one", wait=Stage.EFFECTIVE)
        with pytest.raises(Refused) as refused:
            await jackline.control(run_id, timeout(60_000), command_id="one")
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert (again.sequence, again.repeated) == (first.sequence, True)
    assert refused.value.reason is Reason.COMMAND_ID_REUSED
    assert sum(isinstance(fact, BoundsAdjusted) for fact in facts) == 1


async def test_a_paused_run_that_no_process_drives_takes_new_bounds_and_stays_paused() -> None:
    async with process(world(tool_ms=100)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await jackline.control(run_id, Pause(), wait=Stage.SETTLED)
        receipt = await jackline.control(run_id, timeout(50_000), wait=Stage.EFFECTIVE)
        snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
    assert receipt.applied
    assert (snapshot.state.phase.value, snapshot.state.bounds.run_timeout_ms) == ("paused", 50_000)


# --- who may, and how far ----------------------------------------------------------------------


async def refusal(jackline: Process, run_id: str, action: AdjustBounds) -> Refused:
    with pytest.raises(Refused) as refused:
        await jackline.control(run_id, action)
    return refused.value


async def test_who_started_a_run_does_not_adjust_it_where_the_operator_says_so() -> None:
    limits = RunLimits(starter_adjusts=False)
    async with process(world(model_ms=FOR_EVER_MS, limits=limits)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        refused = await refusal(jackline, run_id, timeout(60_000))
    assert (refused.reason, refused.metadata["run_id"]) == (Reason.OWN_RUN, run_id)


async def test_nothing_is_raised_above_the_operators_limit() -> None:
    limits = RunLimits(most=BoundsCap(token_budget=5_000))
    async with process(world(model_ms=FOR_EVER_MS, limits=limits)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        refused = await refusal(jackline, run_id, AdjustBounds(run=NewRunBounds(token_budget=5_001)))
        snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
    assert refused.reason is Reason.BOUND_TOO_HIGH
    assert refused.metadata == {"field": "adjust_bounds.run.token_budget", "limit": "5000"}
    assert snapshot.state.bounds.token_budget == 5_000  # and it began with no more than that


async def test_an_answer_that_raises_a_bound_is_held_to_what_the_operator_allows() -> None:
    step = plans.agent(
        tools=(plans.entry("look"),),
        bounds=plans.step_bounds(token_budget=700),
        on_limit=OnLimit.ASK,
        limit_expiry_ms=FOR_EVER_MS,
    )
    plan = plans.plan_of(step, plans.tool("look"))
    refused: list[Reason] = []
    for limits in (RunLimits(most=BoundsCap(token_budget=1_000)), RunLimits(starter_adjusts=False)):
        async with process(world(plan, limits=limits, large=True)) as jackline, asyncio.timeout(10):
            run_id = await jackline.start()
            await reached(jackline, run_id, InterruptRaised)
            (interrupt_id,) = (
                await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
            ).state.oversight.interrupts
            with pytest.raises(Refused) as refusal_:
                await jackline.control(run_id, Answer(interrupt_id=interrupt_id, option="raise", text=""))
            refused.append(refusal_.value.reason)
            give_up = Answer(interrupt_id=interrupt_id, option="give_up", text="")
            assert (await jackline.control(run_id, give_up, wait=Stage.SETTLED)).applied
    assert refused == [Reason.BOUND_TOO_HIGH, Reason.OWN_RUN]


async def test_a_start_with_more_than_the_operator_allows_is_refused() -> None:
    limits = RunLimits(most=BoundsCap(token_budget=5_000))
    async with process(world(limits=limits)) as jackline, asyncio.timeout(10):
        with pytest.raises(Refused) as refused:
            await jackline.runtime.runs.start(
                replace(start_request(), bounds=TighterBounds(token_budget=6_000))
            )
    assert (refused.value.reason, refused.value.metadata["limit"]) == (Reason.BOUND_TOO_HIGH, "5000")


async def test_a_bound_below_what_is_spent_is_refused_with_what_is() -> None:
    async with process(world(tool_ms=FOR_EVER_MS)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await reached(jackline, run_id, ToolCallStarted)
        refused = await refusal(jackline, run_id, AdjustBounds(visit=NewVisitBounds(model_requests=0)))
    assert refused.reason is Reason.BOUND_TOO_LOW
    assert refused.metadata == {"field": "adjust_bounds.visit.model_requests", "spent": "1"}
