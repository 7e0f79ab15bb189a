"""Bounds of a start: never more than the workflow gives, kept by the run, and never without a price."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.core.facts import Phase, RunFinished, RunStarted, StopReason
from jackline_server.core.plan import Plan, RunBounds
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import TighterBounds
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import World, process, start_request

FREE = plans.Price(input_per_million=0, output_per_million=0)


def plan(bounds: RunBounds, *, priced: bool) -> Plan:
    """One agent whose every answer leads back to it."""
    model = plans.model(price=FREE if priced else None)
    again = plans.agent(routes={"*": plans.AGENT})
    return plans.plan_of(again, bounds=bounds, models={plans.MODEL: model})


def world(bounds: RunBounds, *, priced: bool = True) -> World:
    return World(
        store=memory_store(),
        models=FakeModels(answering=lambda _: ScriptedReply(text="done")),
        toolbox=FakeTools(tools={}),
        plans={"plan": plan(bounds, priced=priced)},
    )


async def refusal(here: World, given: TighterBounds) -> Refused:
    async with process(here) as jackline, asyncio.timeout(5):
        with pytest.raises(Refused) as caught:
            await jackline.runtime.runs.start(replace(start_request(), bounds=given))
    return caught.value


async def test_a_caller_may_tighten_what_the_workflow_gives_and_the_run_keeps_to_it() -> None:
    here = world(plans.run_bounds(steps=50))
    async with process(here) as jackline, asyncio.timeout(5):
        started = await jackline.runtime.runs.start(replace(start_request(), bounds=TighterBounds(steps=3)))
        log = [record.fact for record in await jackline.follow(started.row.run_id)]
    begun, ended = log[0], log[-1]
    assert isinstance(begun, RunStarted)
    assert isinstance(ended, RunFinished)
    assert begun.bounds == plans.run_bounds(steps=3)
    assert (ended.phase, ended.stop_reason) == (Phase.EXHAUSTED, StopReason.STEP_BUDGET)
    assert isinstance(here.models, FakeModels)
    assert len(here.models.requests) == 3


async def test_a_caller_may_not_give_a_run_more_than_the_workflow_does() -> None:
    refused = await refusal(world(plans.run_bounds(steps=50)), TighterBounds(steps=51))
    assert (refused.reason, refused.metadata["limit"]) == (Reason.BOUND_TOO_HIGH, "50")


async def test_a_budget_in_money_is_refused_where_a_price_is_unknown() -> None:
    refused = await refusal(world(plans.run_bounds(), priced=False), TighterBounds(cost_budget_micros=5))
    assert refused.reason is Reason.INVALID_REQUEST
    assert [one.reason for one in refused.violations] == ["unpriced_model"]
    async with process(world(plans.run_bounds(steps=1))) as jackline, asyncio.timeout(5):
        given = TighterBounds(cost_budget_micros=5)
        started = await jackline.runtime.runs.start(replace(start_request(), bounds=given))
        await jackline.follow(started.row.run_id)
