"""Bounds of a live run that are changed: which may be, and what holds from then on. Proves B1 in the core."""

import pytest

from jackline_server.core.commands import AdjustBounds, Command, Pause, Resume
from jackline_server.core.facts import (
    BoundsAdjusted,
    CommandApplied,
    CommandRejected,
    ForkOrigin,
    ModelCallStarted,
    ModelReplied,
    Phase,
    Rejection,
    StepFinished,
    StepStarted,
    StopReason,
)
from jackline_server.core.new_bounds import NO_RUN_BOUNDS, NO_VISIT_BOUNDS, NewRunBounds, NewVisitBounds
from jackline_server.core.plan import BoundsCap, OnQuestion, Plan, Price, StepBounds
from jackline_server.core.recorded import boundaries, forking
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Reply, Says, Scenario

LOOK = plans.tool("look")
LOOKS = Says(calls=(Call("look"),))
ANSWER = Says(text="done")


def begun(plan: Plan, *replies: Reply, until: type = ModelReplied) -> Driver:
    """A run up to its first fact of that kind."""
    driver = Driver(Scenario(plan=plan, replies=replies, tools={"look": lambda _: Ends()}))
    return driver.run(until=lambda d: any(isinstance(fact, until) for fact in d.facts))


def looking(cap: BoundsCap | None = None, bounds: StepBounds | None = None) -> Plan:
    step = plans.agent(tools=(plans.entry("look"),), bounds=bounds or plans.step_bounds())
    return plans.plan_of(step, LOOK, bounds_cap=cap)


def adjust(*, run: NewRunBounds = NO_RUN_BOUNDS, visit: NewVisitBounds = NO_VISIT_BOUNDS) -> AdjustBounds:
    return AdjustBounds(run=run, visit=visit)


def rejected(driver: Driver, action: AdjustBounds) -> Rejection | None:
    """What the next boundary says to the command; None if it applies it."""
    command: Command = driver.send(action)
    driver.step()
    for fact in driver.facts:
        if isinstance(fact, CommandRejected) and fact.command_id == command.command_id:
            return fact.rejection
    assert any(isinstance(f, CommandApplied) and f.command_id == command.command_id for f in driver.facts)
    return None


# --- what holds from then on -------------------------------------------------------------------


def test_more_turns_are_made_where_a_visit_may_make_more() -> None:
    driver = begun(looking(bounds=plans.step_bounds(max_iterations=1)), LOOKS, LOOKS, ANSWER)
    driver.send(adjust(visit=NewVisitBounds(max_iterations=3)))
    assert driver.run_to_end().finished.signal == "default"
    assert sum(isinstance(fact, ModelCallStarted) for fact in driver.facts) == 3


def test_a_lower_bound_ends_the_visit_at_once() -> None:
    driver = begun(looking(), LOOKS)
    driver.send(adjust(visit=NewVisitBounds(max_iterations=1)))
    finished = driver.run_to_end().finished
    assert (finished.signal, finished.stop_leaf) == ("max_iterations", "step.max_iterations")


@pytest.mark.parametrize(
    ("visit", "leaf"),
    [
        (NewVisitBounds(model_requests=1), "step.model_requests"),
        (NewVisitBounds(tool_calls=0), "step.tool_calls"),
        (NewVisitBounds(timeout_ms=120), "step.timeout"),
    ],
)
def test_each_bound_of_a_visit_can_be_set(visit: NewVisitBounds, leaf: str) -> None:
    driver = begun(looking(), LOOKS)
    driver.send(adjust(visit=visit))
    assert driver.run_to_end().finished.stop_leaf == leaf


@pytest.mark.parametrize(
    ("run", "leaf"),
    [
        (NewRunBounds(run_timeout_ms=120), "run.run_timeout"),
        (NewRunBounds(events=8), "run.events"),
    ],
)
def test_each_bound_of_a_run_can_be_set(run: NewRunBounds, leaf: str) -> None:
    driver = begun(looking(), LOOKS)
    driver.send(adjust(run=run))
    assert driver.run_to_end().finished.stop_leaf == leaf


def test_a_budget_of_tokens_can_be_set_for_the_visit_and_for_the_run() -> None:
    for scope in ("step", "run"):
        driver = begun(looking(), LOOKS)
        budget = driver.state.ledger.tokens + 5
        action = (
            adjust(visit=NewVisitBounds(token_budget=budget))
            if scope == "step"
            else adjust(run=NewRunBounds(token_budget=budget))
        )
        driver.send(action)
        assert driver.run_to_end().finished.stop_leaf == f"{scope}.token_budget"


def test_a_run_may_visit_more_steps_than_it_was_started_with() -> None:
    first = plans.agent(step_id="first", next_step="second", routes={})
    second = plans.agent(step_id="second", routes={})
    plan = plans.plan_of(first, second, flow=("first", "second"), bounds=plans.run_bounds(steps=1))
    driver = begun(plan, ANSWER, ANSWER)
    driver.send(adjust(run=NewRunBounds(steps=2)))
    assert driver.run_to_end().finished.phase is Phase.SUCCEEDED


def test_a_visits_bounds_are_its_own_and_the_next_visit_has_those_of_the_plan() -> None:
    step = plans.agent(
        tools=(plans.entry("look"),),
        bounds=plans.step_bounds(max_iterations=1),
        routes={"max_iterations": plans.AGENT},
    )
    plan = plans.plan_of(step, LOOK, bounds=plans.run_bounds(steps=2))
    driver = begun(plan, LOOKS, LOOKS, LOOKS)
    driver.send(adjust(visit=NewVisitBounds(max_iterations=2)))
    driver.run_to_end()
    turns = [summary.ledger.iterations for summary in driver.state.summaries]
    assert turns == [2, 1]


def test_what_is_not_named_stays_as_it_was() -> None:
    plan = plans.agent_plan(LOOK)
    driver = begun(plan, LOOKS, ANSWER)
    driver.send(adjust(run=NewRunBounds(token_budget=9_000)))
    driver.run_to_end()
    assert driver.state.bounds == plans.run_bounds(token_budget=9_000)
    assert driver.replayed() == driver.state


def test_a_longer_timeout_holds_for_the_wait_before_another_attempt() -> None:
    plan = looking(bounds=plans.step_bounds(timeout_ms=500))
    driver = begun(plan, Fails(), ANSWER, until=ModelCallStarted)
    driver.send(adjust(visit=NewVisitBounds(timeout_ms=60_000)))
    assert driver.run_to_end().finished.signal == "default"


def test_new_bounds_reach_a_paused_run_and_leave_it_paused() -> None:
    driver = begun(looking(bounds=plans.step_bounds(max_iterations=1)), LOOKS, ANSWER)
    driver.send(Pause())
    driver.send(adjust(visit=NewVisitBounds(max_iterations=2)))
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    driver.send(Resume())
    assert driver.run_to_end().finished.signal == "default"


# --- what can't be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "action"),
    [
        (BoundsCap(token_budget=50_000), adjust(run=NewRunBounds(token_budget=50_001))),
        (BoundsCap(token_budget=50_000), adjust(visit=NewVisitBounds(token_budget=50_001))),
        (BoundsCap(cost_budget_micros=5), adjust(run=NewRunBounds(cost_budget_micros=6))),
        (BoundsCap(cost_budget_micros=5), adjust(visit=NewVisitBounds(cost_budget_micros=6))),
        (BoundsCap(run_timeout_ms=9_000), adjust(run=NewRunBounds(run_timeout_ms=9_001))),
        (BoundsCap(run_timeout_ms=9_000), adjust(visit=NewVisitBounds(timeout_ms=9_001))),
        (BoundsCap(steps=200), adjust(run=NewRunBounds(steps=201))),
        (BoundsCap(events=30_000), adjust(run=NewRunBounds(events=30_001))),
        (BoundsCap(max_iterations=9), adjust(visit=NewVisitBounds(max_iterations=10))),
        (BoundsCap(model_requests=9), adjust(visit=NewVisitBounds(model_requests=10))),
        (BoundsCap(tool_calls=9), adjust(visit=NewVisitBounds(tool_calls=10))),
    ],
)
def test_nothing_is_raised_above_the_workflows_cap(cap: BoundsCap, action: AdjustBounds) -> None:
    driver = begun(looking(cap), LOOKS)
    assert rejected(driver, action) is Rejection.BOUND_TOO_HIGH
    assert not any(isinstance(fact, BoundsAdjusted) for fact in driver.facts)


def test_a_bound_may_be_raised_up_to_the_cap() -> None:
    driver = begun(looking(BoundsCap(token_budget=50_000)), LOOKS)
    assert rejected(driver, adjust(run=NewRunBounds(token_budget=50_000))) is None
    assert driver.state.bounds.token_budget == 50_000


@pytest.mark.parametrize(
    "action",
    [
        adjust(run=NewRunBounds(token_budget=1)),
        adjust(run=NewRunBounds(run_timeout_ms=1)),
        adjust(run=NewRunBounds(events=2)),
        adjust(visit=NewVisitBounds(model_requests=0)),
        adjust(visit=NewVisitBounds(token_budget=1)),
        adjust(visit=NewVisitBounds(timeout_ms=1)),
    ],
)
def test_nothing_is_lowered_below_what_is_spent(action: AdjustBounds) -> None:
    driver = begun(looking(), LOOKS)
    assert rejected(driver, action) is Rejection.BOUND_TOO_LOW


def test_one_bound_that_can_not_be_leaves_all_of_them_as_they_were() -> None:
    driver = begun(looking(), LOOKS)
    action = adjust(run=NewRunBounds(token_budget=50_000), visit=NewVisitBounds(model_requests=0))
    assert rejected(driver, action) is Rejection.BOUND_TOO_LOW
    assert driver.state.bounds == plans.run_bounds()


def test_a_run_between_steps_or_in_a_tool_step_has_no_visit_with_bounds() -> None:
    driver = begun(plans.plan_of(LOOK), until=StepStarted)
    assert rejected(driver, adjust(visit=NewVisitBounds(max_iterations=9))) is Rejection.NO_BOUNDED_VISIT
    assert rejected(driver, adjust(run=NewRunBounds(steps=9))) is None


def test_a_budget_of_money_needs_the_price_of_every_model() -> None:
    driver = begun(looking(), LOOKS)
    money = adjust(run=NewRunBounds(cost_budget_micros=9))
    assert rejected(driver, money) is Rejection.PRICE_UNKNOWN
    priced = plans.model(price=Price(input_per_million=0, output_per_million=0))
    step = plans.agent(tools=(plans.entry("look"),))
    driver = begun(plans.plan_of(step, LOOK, models={plans.MODEL: priced}), LOOKS)
    assert rejected(driver, money) is None


def test_bounds_for_a_run_that_ends_first_are_rejected_by_its_end() -> None:
    driver = begun(plans.agent_plan(), ANSWER, until=StepFinished)
    driver.run_to_end()
    driver.send(adjust(run=NewRunBounds(steps=200)))
    assert driver.finished.stop_reason is StopReason.DEFAULT


# --- forks -------------------------------------------------------------------------------------


def test_a_fork_has_the_bounds_that_it_is_given_and_no_grant_of_the_other_run() -> None:
    fact = BoundsAdjusted(
        principal="operator",
        run=NewRunBounds(token_budget=90_000),
        visit=NewVisitBounds(max_iterations=90),
    )
    fork = forking.Fork(
        origin=ForkOrigin(run_id="run-0", sequence=9),
        principal="starter",
        bounds=plans.run_bounds(),
        on_question=OnQuestion.WAIT,
        deadline_unix_ms=None,
        epoch=1,
        unix_ms=0,
    )
    taken = forking.taken_over(boundaries.Entry(fact=fact, active_ms=5, unix_ms=5), fork)
    assert taken == BoundsAdjusted(principal="operator", run=NO_RUN_BOUNDS, visit=NO_VISIT_BOUNDS)
