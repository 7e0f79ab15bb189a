"""The model is told that a budget is nearly used: once for each budget and scope, again if it was raised."""

from dataclasses import replace

import pytest

from jackline_server.core.commands import AdjustBounds
from jackline_server.core.facts import Fact, ModelCallStarted, NoticeCode, Noticed, RunStarted, Usage
from jackline_server.core.new_bounds import NO_RUN_BOUNDS, NO_VISIT_BOUNDS, NewRunBounds, NewVisitBounds
from jackline_server.core.plan import Plan, Price
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import replayed
from jackline_server.testing import plans
from jackline_server.testing.driving import STARTED_UNIX_MS, Call, Driver, Ends, Says, Scenario, drive
from jackline_server.testing.instruments import instruments

LOOK = plans.tool("look")
ANSWER = Says(text="done")
DOLLAR_A_TOKEN = Price(input_per_million=1_000_000, output_per_million=1_000_000)


def looks(tokens: int) -> Says:
    return Says(calls=(Call("look"),), usage=Usage(prompt_tokens=tokens, completion_tokens=0))


def visit(**bounds: int) -> AdjustBounds:
    return AdjustBounds(run=NO_RUN_BOUNDS, visit=NewVisitBounds(**bounds))


def run(**bounds: int) -> AdjustBounds:
    return AdjustBounds(run=NewRunBounds(**bounds), visit=NO_VISIT_BOUNDS)


def told(driver: Driver) -> list[str]:
    return [
        fact.subject
        for fact in driver.facts
        if isinstance(fact, Noticed) and fact.code is NoticeCode.BUDGET_NEARLY_USED
    ]


def a_plan(*, step: dict[str, int], run: dict[str, int]) -> Plan:
    """A plan with budgets of both scopes, at a micro a token."""
    return replace(
        plans.agent_plan(LOOK, bounds=plans.step_bounds(**step)),
        bounds=plans.run_bounds(**run),
        models={plans.MODEL: plans.model(price=DOLLAR_A_TOKEN)},
    )


def test_each_budget_of_each_scope_is_told_of_once() -> None:
    plan = a_plan(
        step={"token_budget": 10_000, "cost_budget_micros": 11_000},
        run={"token_budget": 12_000, "cost_budget_micros": 13_000},
    )
    driver = drive(plan, looks(8_000), looks(800), looks(800), looks(80), ANSWER, look=[Ends()] * 4)
    assert told(driver) == ["step.token_budget", "step.cost_budget_usd", "run.token_budget"]
    assert driver.replayed() == driver.state


def test_what_is_told_names_the_budget_and_whose_it_is_and_stands_before_the_next_call() -> None:
    plan = a_plan(step={}, run={"cost_budget_micros": 10_000})
    driver = drive(plan, looks(8_000), ANSWER, look=[Ends()])
    place = next(at for at, fact in enumerate(driver.facts) if isinstance(fact, Noticed))
    assert isinstance(driver.facts[place + 1], ModelCallStarted)
    words = driver.model_calls[1].messages[-1].text
    assert "cost budget of the whole run" in words
    assert "cost budget" not in driver.model_calls[0].messages[-1].text


def test_a_further_visit_is_told_of_its_own_budget_and_not_again_of_the_run_s() -> None:
    again = plans.agent(
        tools=(plans.entry("look"),),
        routes={"again": plans.AGENT, "*": "end"},
        outcome=plans.outcome(enum=("again", "ok")),
        bounds=plans.step_bounds(token_budget=10_000),
    )
    plan = plans.plan_of(again, LOOK, bounds=plans.run_bounds(token_budget=10_000))
    small = Usage(prompt_tokens=100, completion_tokens=0)
    replies = (
        looks(8_000),
        Says(text='{"outcome":"again"}', usage=small),
        Says(text='{"outcome":"ok"}', usage=small),
    )
    assert told(drive(plan, *replies, look=[Ends()])) == ["step.token_budget", "run.token_budget"]

    roomy = replace(plan, bounds=plans.run_bounds(token_budget=100_000))
    twice = (looks(8_000), replies[1], looks(8_000), replies[2])
    assert told(drive(roomy, *twice, look=[Ends()] * 2)) == ["step.token_budget"] * 2


@pytest.mark.parametrize(
    ("step", "run", "raises", "budget"),
    [
        ({"token_budget": 10_000}, {}, visit(token_budget=20_000), "step.token_budget"),
        ({}, {"token_budget": 10_000}, run(token_budget=20_000), "run.token_budget"),
        ({"cost_budget_micros": 10_000}, {}, visit(cost_budget_micros=20_000), "step.cost_budget_usd"),
        ({}, {"cost_budget_micros": 10_000}, run(cost_budget_micros=20_000), "run.cost_budget_usd"),
    ],
)
def test_a_budget_that_was_raised_is_told_of_again_once_it_is_nearly_used_again(
    step: dict[str, int], run: dict[str, int], raises: AdjustBounds, budget: str
) -> None:
    replies = [looks(8_000), looks(100), looks(8_000), looks(100), ANSWER]
    driver = Driver(Scenario(plan=a_plan(step=step, run=run), replies=replies, tools={"look": [Ends()] * 4}))
    driver.run(until=lambda one: len(one.model_calls) == 2)
    driver.send(raises)
    driver.run_to_end()
    assert told(driver) == [budget, budget]
    assert driver.replayed() == driver.state


def test_a_bound_that_was_raised_says_nothing_of_the_others() -> None:
    plan = a_plan(step={"token_budget": 10_000}, run={"token_budget": 10_000})
    driver = Driver(
        Scenario(plan=plan, replies=[looks(8_000), looks(100), ANSWER], tools={"look": [Ends()] * 2})
    )
    driver.run(until=lambda one: len(one.model_calls) == 2)
    driver.send(run(token_budget=90_000))
    driver.run_to_end()
    assert told(driver) == ["step.token_budget", "run.token_budget"]


def as_before(fact: Fact) -> Fact:
    """The fact as it was recorded when one notice, without a name, stood for the budgets of step and run."""
    match fact:
        case RunStarted():
            return replace(fact, bounds=plans.run_bounds(token_budget=10_000))
        case Noticed():
            return replace(fact, subject="")
        case _:
            return fact


def test_a_log_in_which_one_notice_stood_for_every_budget_is_decided_the_same() -> None:
    plan = a_plan(step={"token_budget": 10_000}, run={})
    driver = drive(plan, looks(8_000), looks(100), ANSWER, look=[Ends()] * 2)
    assert told(driver) == ["step.token_budget"]
    of_before = [
        Entry(fact=as_before(fact), active_ms=active_ms, unix_ms=STARTED_UNIX_MS)
        for fact, active_ms in driver.log
    ]
    walked = replayed("run-1", of_before, plan, instruments=instruments())
    assert walked.difference is None
    assert walked.facts == len(of_before)
