"""`on_limit: ask`: what is asked at a bound, and what each answer leads to."""

from typing import Unpack

import pytest

from jackline_server.core.commands import AdjustBounds, Answer, Steer
from jackline_server.core.facts import (
    BoundsAdjusted,
    CommandRejected,
    InterruptKind,
    InterruptRaised,
    InterruptResolved,
    ModelCallStarted,
    Phase,
    Purpose,
    Rejection,
    Steered,
    StopReason,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import BoundsCap, OnLimit, OnQuestion, Plan, Price, ReflectPlan, RunBounds
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import replayed
from jackline_server.testing import plans
from jackline_server.testing.driving import STARTED_UNIX_MS, Call, Driver, Ends, Reply, Says, Scenario
from jackline_server.testing.instruments import instruments
from jackline_server.testing.plans import StepBoundsFields

LOOK = plans.tool("look")
LOOKS = Says(calls=(Call("look"),))
ANSWER = Says(text="done")
HOUR_MS = 3_600_000


def asking(
    cap: BoundsCap | None = None, run: RunBounds | None = None, **bounds: Unpack[StepBoundsFields]
) -> Plan:
    step = plans.agent(
        tools=(plans.entry("look"),),
        bounds=plans.step_bounds(**bounds),
        on_limit=OnLimit.ASK,
        limit_expiry_ms=HOUR_MS,
    )
    return plans.plan_of(step, LOOK, bounds_cap=cap, bounds=run or plans.run_bounds())


def at_the_question(plan: Plan, *replies: Reply) -> Driver:
    """A run that waits at its first question."""
    driver = Driver(Scenario(plan=plan, replies=replies, tools={"look": lambda _: Ends()})).run()
    assert driver.state.phase is Phase.WAITING
    return driver


def question(driver: Driver) -> InterruptRaised:
    """The newest question."""
    return [fact for fact in driver.facts if isinstance(fact, InterruptRaised)][-1]


def answer(driver: Driver, option: str) -> Driver:
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option=option, text=""))
    return driver


ONE_TURN = asking(max_iterations=1)


# --- the question ------------------------------------------------------------------------------


def test_a_run_waits_at_its_limit_with_a_question_that_says_which() -> None:
    driver = at_the_question(ONE_TURN, LOOKS)
    asked = question(driver)
    assert (asked.kind, asked.limit, asked.limit_leaf) == (
        InterruptKind.LIMIT_REACHED,
        StopReason.MAX_ITERATIONS,
        "step.max_iterations",
    )
    assert asked.options == ("raise", "final_answer", "give_up")
    assert asked.expires_unix_ms == driver.unix_ms + HOUR_MS


@pytest.mark.parametrize(
    ("plan", "leaf"),
    [
        (asking(max_iterations=1), "step.max_iterations"),
        (asking(model_requests=2), "step.model_requests"),
        (asking(tool_calls=1), "step.tool_calls"),
        (asking(token_budget=700), "step.token_budget"),
        (asking(run=plans.run_bounds(token_budget=700)), "run.token_budget"),
    ],
)
def test_every_bound_that_can_be_raised_is_asked_about(plan: Plan, leaf: str) -> None:
    replies = (Says(calls=(Call("look"), Call("look"))),) if "tool" in leaf else (LOOKS, LOOKS, LOOKS)
    driver = at_the_question(plan, *replies)
    assert question(driver).limit_leaf == leaf


@pytest.mark.parametrize(("requests", "told"), [(2, "1 of 2 are used"), (3, "2 of 3 are used")])
def test_a_request_that_is_held_back_is_told_as_the_reason(requests: int, told: str) -> None:
    driver = at_the_question(asking(model_requests=requests), LOOKS, LOOKS, LOOKS)
    assert told in question(driver).question
    assert "held back for the closing answer" in question(driver).question


def test_a_budget_of_money_is_asked_about() -> None:
    priced = plans.model(price=Price(input_per_million=1_000_000, output_per_million=1_000_000))
    step = plans.agent(bounds=plans.step_bounds(cost_budget_micros=100), on_limit=OnLimit.ASK)
    driver = at_the_question(plans.plan_of(step, models={plans.MODEL: priced}))
    assert question(driver).limit_leaf == "step.cost_budget_usd"


def test_a_time_that_is_over_is_not_asked_about() -> None:
    driver = Driver(Scenario(plan=asking(timeout_ms=50), replies=(LOOKS,)))
    assert driver.run_to_end().finished.stop_leaf == "step.timeout"


def test_no_time_passes_while_a_question_about_a_limit_is_open() -> None:
    driver = at_the_question(asking(max_iterations=1, timeout_ms=1_000), LOOKS, ANSWER)
    driver.pass_time(unix_ms=HOUR_MS // 2)
    assert answer(driver, "raise").run_to_end().finished.signal == "default"


def test_a_run_that_nobody_attends_ends_for_review_in_place_of_a_question() -> None:
    started = plans.started(ONE_TURN, on_question=OnQuestion.REVIEW)
    driver = Driver(
        Scenario(plan=ONE_TURN, replies=(LOOKS,), tools={"look": lambda _: Ends()}, started=started)
    )
    finished = driver.run_to_end().finished
    assert (finished.phase, finished.stop_reason, finished.stop_leaf) == (
        Phase.NEEDS_REVIEW,
        StopReason.REVIEW,
        "step.max_iterations",
    )


# --- the answers -------------------------------------------------------------------------------


def test_raising_gives_as_much_again_and_asks_again_at_the_next_limit() -> None:
    driver = at_the_question(ONE_TURN, LOOKS, LOOKS, ANSWER)
    first = question(driver)
    answer(driver, "raise").run()
    assert driver.state.phase is Phase.WAITING
    assert question(driver).interrupt_id != first.interrupt_id
    assert answer(driver, "raise").run_to_end().finished.signal == "default"
    granted = [fact.visit.max_iterations for fact in driver.facts if isinstance(fact, BoundsAdjusted)]
    assert granted == [2, 3]
    assert driver.replayed() == driver.state


def test_raising_stops_at_the_workflows_cap_where_it_is_no_longer_offered() -> None:
    driver = at_the_question(asking(BoundsCap(max_iterations=2), max_iterations=1), LOOKS, LOOKS)
    answer(driver, "raise").run()
    assert question(driver).options == ("final_answer", "give_up")
    assert answer(driver, "give_up").run_to_end().finished.stop_leaf == "step.max_iterations"


def test_raising_the_runs_budget_raises_the_runs() -> None:
    driver = at_the_question(asking(run=plans.run_bounds(token_budget=700)), *(LOOKS,) * 3, ANSWER)
    while driver.state.phase is Phase.WAITING:
        answer(driver, "raise").run()
    assert driver.state.bounds.token_budget == 1_400
    assert driver.finished.signal == "default"


def test_calls_that_were_asked_for_are_made_once_there_is_room() -> None:
    both = Says(calls=(Call("look"), Call("look", '{"b":1}')))
    driver = at_the_question(asking(tool_calls=1), both, ANSWER)
    assert not any(isinstance(fact, ToolCallStarted) for fact in driver.facts)
    assert answer(driver, "raise").run_to_end().finished.signal == "default"
    assert sum(isinstance(fact, ToolCallStarted) for fact in driver.facts) == 2


def test_the_closing_answer_keeps_the_limits_signal() -> None:
    driver = at_the_question(ONE_TURN, LOOKS, ANSWER)
    finished = answer(driver, "final_answer").run_to_end().finished
    calls = [fact for fact in driver.facts if isinstance(fact, ModelCallStarted)]
    assert calls[-1].purpose is Purpose.FINAL_ANSWER
    assert (finished.signal, finished.result_json) == ("max_iterations", '"done"')


def test_room_for_a_closing_answer_is_held_back_from_the_start() -> None:
    driver = at_the_question(asking(model_requests=2), LOOKS, ANSWER)
    assert "final_answer" in question(driver).options
    answer(driver, "final_answer").run_to_end()
    assert driver.state.summaries[0].ledger.model_requests == 2


def test_nobody_who_answers_in_time_is_the_same_as_giving_up() -> None:
    driver = at_the_question(ONE_TURN, LOOKS)
    driver.pass_time(unix_ms=HOUR_MS)
    finished = driver.run_to_end().finished
    assert (finished.signal, finished.stop_leaf) == ("max_iterations", "step.max_iterations")


def test_new_bounds_for_what_is_asked_about_answer_the_question() -> None:
    driver = at_the_question(ONE_TURN, LOOKS, ANSWER)
    driver.send(AdjustBounds(visit=NewVisitBounds(max_iterations=5)))
    assert driver.run_to_end().finished.signal == "default"
    (resolved,) = (fact for fact in driver.facts if isinstance(fact, InterruptResolved))
    assert (resolved.option, resolved.principal) == ("raise", "operator")


@pytest.mark.parametrize(
    "action",
    [
        AdjustBounds(run=NewRunBounds(token_budget=90_000)),
        AdjustBounds(visit=NewVisitBounds(max_iterations=1)),
        AdjustBounds(visit=NewVisitBounds(tool_calls=90)),
    ],
)
def test_new_bounds_that_lift_no_limit_leave_the_question_open(action: AdjustBounds) -> None:
    driver = at_the_question(ONE_TURN, LOOKS)
    driver.send(action)
    driver.run()
    assert driver.state.phase is Phase.WAITING
    assert list(driver.state.oversight.interrupts) == [question(driver).interrupt_id]


def test_an_answer_counts_once() -> None:
    driver = at_the_question(ONE_TURN, LOOKS, ANSWER)
    answer(driver, "raise")
    answer(driver, "give_up").run_to_end()
    (rejected,) = (fact for fact in driver.facts if isinstance(fact, CommandRejected))
    assert rejected.rejection is Rejection.ALREADY_DECIDED
    assert driver.finished.signal == "default"


def test_guidance_waits_for_the_answer_and_is_then_given() -> None:
    driver = at_the_question(ONE_TURN, LOOKS, ANSWER)
    driver.send(Steer(text="the second one"))
    driver.run()
    assert not any(isinstance(fact, Steered | CommandRejected) for fact in driver.facts)
    answer(driver, "raise").run_to_end()
    assert any(isinstance(fact, Steered) for fact in driver.facts)


@pytest.mark.parametrize("option", ["raise", "final_answer", "give_up"])
@pytest.mark.parametrize("commit", range(2, 12))
def test_a_crash_before_or_after_the_question_changes_nothing(option: str, commit: int) -> None:
    def played(crash_after: frozenset[int]) -> Driver:
        scenario = Scenario(
            plan=ONE_TURN,
            replies=(LOOKS, ANSWER, ANSWER),
            tools={"look": lambda _: Ends()},
            crash_after=crash_after,
        )
        driver = Driver(scenario).run()
        if driver.state.phase is Phase.WAITING:
            answer(driver, option).run()
        return driver

    calm, crashed = played(frozenset()), played(frozenset({commit}))
    assert crashed.finished == calm.finished
    assert crashed.replayed() == crashed.state


# --- one question suffices ---------------------------------------------------------------------


def questions(driver: Driver) -> list[str]:
    return [fact.limit_leaf for fact in driver.facts if isinstance(fact, InterruptRaised)]


def adjusted(driver: Driver) -> BoundsAdjusted:
    return [fact for fact in driver.facts if isinstance(fact, BoundsAdjusted)][-1]


def test_raising_the_turns_raises_the_requests_that_they_need_with_them() -> None:
    driver = at_the_question(asking(max_iterations=1, model_requests=2), LOOKS, ANSWER)
    assert "step.model_requests" in question(driver).question
    answer(driver, "raise").run_to_end()
    assert questions(driver) == ["step.max_iterations"]
    assert adjusted(driver).visit == NewVisitBounds(max_iterations=2, model_requests=4)
    assert driver.finished.signal == "default"
    assert driver.replayed() == driver.state


def test_raising_a_budget_of_the_step_raises_that_of_the_run_where_both_are_short() -> None:
    plan = asking(run=plans.run_bounds(token_budget=1_000), token_budget=1_000)
    large = Says(calls=(Call("look"),), usage=Usage(prompt_tokens=950, completion_tokens=0))
    driver = at_the_question(plan, large, ANSWER)
    answer(driver, "raise").run_to_end()
    assert questions(driver) == ["step.token_budget"]
    assert adjusted(driver).visit.token_budget is not None
    assert adjusted(driver).run.token_budget is not None
    assert driver.finished.signal == "default"


def test_a_raise_that_a_cap_would_make_worthless_is_not_offered() -> None:
    plan = asking(BoundsCap(model_requests=2), max_iterations=1, model_requests=2)
    driver = at_the_question(plan, LOOKS)
    assert question(driver).raise_to == 0
    assert "raise" not in question(driver).options


def test_what_needs_no_other_bound_raises_no_other_bound() -> None:
    driver = at_the_question(ONE_TURN, LOOKS, ANSWER)
    assert "also" not in question(driver).question
    answer(driver, "raise").run_to_end()
    assert adjusted(driver).visit == NewVisitBounds(max_iterations=2)


# --- decided again -----------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["raise", "final_answer", "give_up"])
@pytest.mark.parametrize("bounds", [StepBoundsFields(max_iterations=1), StepBoundsFields(tool_calls=1)])
def test_an_answer_with_calls_that_are_not_made_is_decided_again_as_it_was(
    bounds: StepBoundsFields, option: str
) -> None:
    step = plans.agent(
        tools=(plans.entry("look"),),
        bounds=plans.step_bounds(**bounds),
        on_limit=OnLimit.ASK,
        limit_expiry_ms=HOUR_MS,
        reflect=ReflectPlan(every=1, guidance=True),
    )
    two = Says(calls=(Call("look"), Call("look", call_id="b")))
    driver = answer(at_the_question(plans.plan_of(step, LOOK), two, ANSWER, ANSWER), option)
    driver.run()
    log = (
        Entry(fact=fact, active_ms=active_ms, unix_ms=STARTED_UNIX_MS + active_ms)
        for fact, active_ms in driver.log
    )
    found = replayed("run-1", log, driver.state.plan, instruments=instruments())
    assert (found.difference, found.facts) == (None, len(driver.log))
