"""What a provider reports of a call: believed as far as it can be, told of where it can not, past no cap."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core.facts import (
    Fact,
    FailureClass,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    NoticeCode,
    Noticed,
    RunFinished,
    Usage,
)
from jackline_server.core.plan import Plan, Price
from jackline_server.models.chunks import ChunkReader
from jackline_server.runtime.ports.models import ModelChunk, ModelFailure, ModelRequest, Models
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process

PRICE = Price(input_per_million=1_000_000, output_per_million=2_000_000)
LOOK = plans.tool("look")
FINE = Usage(prompt_tokens=20, completion_tokens=5)


def replies(reports: Sequence[Usage | Exception | None]) -> FakeModels:
    """A model that looks for each report but the last, with which it answers."""
    models = FakeModels(answering=lambda _: ScriptedReply())

    def answering(_: ModelRequest) -> ScriptedReply | Exception:
        report = reports[min(len(models.requests), len(reports)) - 1]
        if isinstance(report, Exception):
            return report
        if len(models.requests) < len(reports):
            return ScriptedReply(calls=(("", "look", "{}"),), usage=report)
        return ScriptedReply(text="done", usage=report)

    models.answering = answering
    return models


async def facts_of(plan: Plan, models: Models) -> list[Fact]:
    world = World(
        store=memory_store(),
        models=models,
        toolbox=FakeTools(tools={"look": returns("{}")}),
        plans={"plan": plan},
    )
    async with process(world) as jackline, asyncio.timeout(20):
        run_id = await jackline.start()
        return [record.fact for record in await jackline.follow(run_id)]


def used(facts: Sequence[Fact]) -> list[Usage]:
    return [fact.usage for fact in facts if isinstance(fact, ModelReplied)]


def told(facts: Sequence[Fact]) -> list[tuple[NoticeCode, str]]:
    return [(fact.code, fact.subject) for fact in facts if isinstance(fact, Noticed)]


def started(facts: Sequence[Fact]) -> list[ModelCallStarted]:
    return [fact for fact in facts if isinstance(fact, ModelCallStarted)]


async def test_usage_that_can_be_is_charged_as_it_was_reported_and_nothing_is_told() -> None:
    usage = Usage(prompt_tokens=30, completion_tokens=9, cached_tokens=20, reasoning_tokens=4)
    facts = await facts_of(plans.agent_plan(LOOK), replies([usage, usage]))
    assert used(facts) == [usage, usage]
    assert told(facts) == []


async def test_usage_that_is_missing_is_estimated_and_told_once_for_the_model() -> None:
    facts = await facts_of(plans.agent_plan(LOOK), replies([None, None, None]))
    reserved = started(facts)[0].prompt_tokens
    assert used(facts)[0].prompt_tokens == reserved
    assert all(usage.estimated and usage.completion_tokens > 0 for usage in used(facts))
    assert told(facts) == [(NoticeCode.COST_UNKNOWN, plans.MODEL)]


HUGE = 2**63 - 1


@pytest.mark.parametrize(
    "usage",
    [
        Usage(prompt_tokens=-1, completion_tokens=5),
        Usage(prompt_tokens=20, completion_tokens=-(2**63)),
        Usage(prompt_tokens=HUGE, completion_tokens=HUGE),
        Usage(prompt_tokens=HUGE, completion_tokens=0),
        Usage(prompt_tokens=20, completion_tokens=HUGE),
        Usage(prompt_tokens=100_000, completion_tokens=5),
        Usage(prompt_tokens=20, completion_tokens=60_000),
    ],
    ids=[
        "negative",
        "least",
        "greatest",
        "prompt",
        "output",
        "more than was sent",
        "more than was asked for",
    ],
)
async def test_usage_that_can_not_be_is_refused_and_told_once_for_the_model(usage: Usage) -> None:
    facts = await facts_of(plans.agent_plan(LOOK), replies([usage, FINE, usage]))
    calls = started(facts)
    charged = used(facts)
    assert [one.estimated for one in charged] == [True, False, True]
    for call, one in zip(calls, charged, strict=True):
        assert 0 <= one.total <= call.reserved_tokens
    assert told(facts) == [(NoticeCode.USAGE_ODD, plans.MODEL)]


async def test_usage_that_is_too_much_is_charged_at_all_that_was_reserved() -> None:
    facts = await facts_of(plans.agent_plan(LOOK), replies([Usage(prompt_tokens=HUGE, completion_tokens=0)]))
    assert used(facts)[0].total == started(facts)[0].reserved_tokens


@pytest.mark.parametrize(
    ("details", "left"),
    [
        ({"cached_tokens": 21}, {"reasoning_tokens": 0}),
        ({"reasoning_tokens": 6}, {}),
        ({"cached_tokens": -1, "reasoning_tokens": 3}, {"reasoning_tokens": 3}),
    ],
)
async def test_a_part_that_is_more_than_its_whole_is_dropped_and_told(
    details: dict[str, int], left: dict[str, int]
) -> None:
    facts = await facts_of(plans.agent_plan(LOOK), replies([replace(FINE, **details)]))
    assert used(facts) == [replace(FINE, **left)]
    assert told(facts) == [(NoticeCode.USAGE_ODD, plans.MODEL)]


async def test_a_failed_attempt_that_reports_too_much_is_charged_at_what_was_reserved() -> None:
    absurd = ModelFailure(
        FailureClass.BAD_REQUEST, "no", usage=Usage(prompt_tokens=HUGE, completion_tokens=-1)
    )
    facts = await facts_of(plans.agent_plan(LOOK), replies([absurd]))
    (failed,) = [fact for fact in facts if isinstance(fact, ModelCallFailed)]
    assert failed.usage.total == started(facts)[0].reserved_tokens
    assert failed.usage.estimated


async def test_a_model_of_unknown_price_is_counted_at_its_ceiling_and_that_is_told_once() -> None:
    model = plans.model(price=PRICE, price_is_ceiling=True)
    plan = replace(plans.agent_plan(LOOK), models={plans.MODEL: model})
    facts = await facts_of(plan, replies([FINE, FINE]))
    assert [fact.cost_micros for fact in facts if isinstance(fact, ModelReplied)] == [30, 30]
    assert told(facts) == [(NoticeCode.COST_UNKNOWN, plans.MODEL)]


# --- as a provider writes it -------------------------------------------------------------------


class Wire:
    """A model that answers with a report as a provider writes it."""

    def __init__(self, report: object) -> None:
        self._report = report

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        del request
        reader = ChunkReader()
        said: dict[str, object] = {"choices": [{"index": 0, "delta": {"content": "done"}}]}
        finish: dict[str, object] = {"index": 0, "delta": {"content": ""}, "finish_reason": "stop"}
        end: dict[str, object] = {"choices": [finish], "usage": self._report}
        for chunk in (said, end):
            for piece in reader.read(chunk):
                yield piece
        for piece in reader.end():
            yield piece


@pytest.mark.parametrize(
    "prompt", ["12", 12.5, float("nan"), float("inf"), True, None, -1, 2**63, 10**30, [12], {"n": 1}, 0]
)
async def test_a_count_that_is_no_count_is_refused_and_told(prompt: object) -> None:
    report = {"prompt_tokens": prompt, "completion_tokens": 5}
    facts = await facts_of(plans.agent_plan(LOOK), Wire(report))
    assert [usage.estimated for usage in used(facts)] == [True]
    assert told(facts) == [(NoticeCode.USAGE_ODD, plans.MODEL)]


# --- whatever is reported ----------------------------------------------------------------------

COUNTS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 200),
    st.integers(0, 20_000),
    st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**64)]),
)
USAGES = st.builds(
    Usage,
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    cached_tokens=COUNTS,
    reasoning_tokens=COUNTS,
    estimated=st.booleans(),
)
BUDGETS = st.one_of(st.none(), st.integers(1, 3_000))
PRICES = st.builds(
    Price,
    input_per_million=st.integers(0, 3_000_000),
    output_per_million=st.integers(0, 3_000_000),
    cached_per_million=st.none() | st.integers(0, 5_000_000),
    reasoning_per_million=st.none() | st.integers(0, 5_000_000),
)


@settings(max_examples=60, deadline=None)
@given(
    reports=st.lists(st.none() | USAGES, min_size=1, max_size=6),
    tokens=st.tuples(BUDGETS, BUDGETS),
    costs=st.tuples(BUDGETS, BUDGETS),
    price=PRICES,
)
def test_whatever_is_reported_no_budget_is_passed_by_more_than_one_reserved_call(
    reports: list[Usage | None],
    tokens: tuple[int | None, int | None],
    costs: tuple[int | None, int | None],
    price: Price,
) -> None:
    plan = replace(
        plans.agent_plan(
            LOOK,
            bounds=plans.step_bounds(token_budget=tokens[0], cost_budget_micros=costs[0]),
        ),
        models={plans.MODEL: plans.model(price=price, max_output_tokens=400)},
        bounds=plans.run_bounds(token_budget=tokens[1], cost_budget_micros=costs[1]),
    )
    facts = asyncio.run(facts_of(plan, replies(reports)))
    assert isinstance(facts[-1], RunFinished)
    spent = cost = 0
    reserved: ModelCallStarted | None = None
    for fact in facts:
        if isinstance(fact, ModelCallStarted):
            reserved = fact
            for cap in tokens:
                assert cap is None or spent + fact.reserved_tokens <= cap
            for cap in costs:
                assert cap is None or cost + fact.reserved_cost_micros <= cap
        if isinstance(fact, ModelReplied):
            assert reserved is not None
            assert 0 <= fact.usage.cached_tokens <= fact.usage.prompt_tokens
            assert 0 <= fact.usage.reasoning_tokens <= fact.usage.completion_tokens
            spent += fact.usage.total
            cost += fact.cost_micros
            for cap in tokens:
                assert cap is None or spent <= cap + reserved.reserved_tokens
            for cap in costs:
                assert cap is None or cost <= cap + reserved.reserved_cost_micros
