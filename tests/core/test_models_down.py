"""A model that can't be reached: the next one is asked, or the step waits; all under the same bounds."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort, Action, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    FailureClass,
    ModelCallFailed,
    ModelCallStarted,
    NoticeCode,
    Noticed,
    Phase,
    StopReason,
    Usage,
)
from jackline_server.core.frozen import change
from jackline_server.core.plan import OnLimit, OnModelUnavailable, Plan, Price
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Reply, Says, Scenario

LOOK = plans.tool("look")
DOWN = Fails(failure=FailureClass.UNAVAILABLE, takes_ms=10)
ANSWER = Says(text="done", takes_ms=10)
LOOKS = Says(calls=(Call("look"),), takes_ms=10)
CHEAP = Price(input_per_million=1_000_000, output_per_million=1_000_000)
DEAR = Price(input_per_million=9_000_000, output_per_million=9_000_000)


def plan_with(*fallbacks: str, retries: int = 1, wait: bool = False, **bounds: int) -> Plan:
    """An agent with a tool and these fallbacks; every model has so many retries."""
    on_unavailable = OnModelUnavailable.WAIT if wait else OnModelUnavailable.FAIL
    plan = plans.agent_plan(
        LOOK,
        fallbacks=fallbacks,
        on_model_unavailable=on_unavailable,
        bounds=replace(plans.step_bounds(model_requests=100), **bounds),
    )
    models = {
        name: plans.model(profile=name, retries=retries, price=CHEAP if name == plans.MODEL else DEAR)
        for name in (plans.MODEL, *fallbacks)
    }
    return replace(plan, models=models, bounds=plans.run_bounds(run_timeout_ms=3_600_000))


def with_agent(plan: Plan, **fields: object) -> Plan:
    """The plan with other fields of its agent."""
    return replace(plan, steps={**plan.steps, plans.AGENT: change(plan.steps[plans.AGENT], **fields)})


def driven(
    plan: Plan,
    *replies: Reply,
    sent: Mapping[int, Action] | None = None,
    crash_after: Collection[int] = (),
) -> Driver:
    scenario = Scenario(
        plan=plan,
        replies=replies,
        tools={"look": lambda _: Ends()},
        sent=sent or {},
        crash_after=crash_after,
    )
    return Driver(scenario).run()


def asked(driver: Driver) -> list[str]:
    """The profiles that were asked, in order."""
    return [call.started.model for call in driver.model_calls]


def notices(driver: Driver) -> list[NoticeCode]:
    return [fact.code for fact in driver.facts if isinstance(fact, Noticed)]


# --- fallbacks ---------------------------------------------------------------------------------


def test_once_the_attempts_at_a_model_are_spent_the_next_one_is_asked() -> None:
    driver = driven(plan_with("slow", "far"), DOWN, DOWN, DOWN, DOWN, ANSWER)
    assert asked(driver) == ["fast", "fast", "slow", "slow", "far"]
    assert [call.started.attempt for call in driver.model_calls] == [1, 2, 3, 4, 5]
    assert notices(driver) == [NoticeCode.MODEL_FALLBACK] * 2
    assert driver.finished.phase is Phase.SUCCEEDED


def test_each_attempt_is_reserved_and_charged_at_the_price_of_its_model() -> None:
    used = Usage(prompt_tokens=100, completion_tokens=10)
    broke = Fails(failure=FailureClass.MALFORMED, usage=used, takes_ms=10)
    driver = driven(plan_with("slow", retries=0), broke, Says(text="done", usage=used))
    own, other = driver.model_calls
    assert other.model is driver.state.plan.models["slow"]
    assert own.started.reserved_cost_micros * 9 == other.started.reserved_cost_micros
    assert driver.state.ledger.cost_micros == 110 + 9 * 110


def test_a_fallback_has_the_output_cap_of_its_own_profile() -> None:
    plan = plan_with("slow", retries=0)
    plan = replace(plan, models={**plan.models, "slow": change(plan.models["slow"], max_output_tokens=50)})
    driver = driven(plan, DOWN, ANSWER)
    assert [call.started.max_output_tokens for call in driver.model_calls] == [1_000, 50]


def test_a_fallback_that_a_budget_can_not_pay_is_not_asked() -> None:
    (call,) = driven(plan_with(), ANSWER).model_calls
    budget = 2 * call.started.prompt_tokens + 100  # twice what the first needs, and not nine times
    driver = driven(plan_with("slow", retries=0, cost_budget_micros=budget), DOWN)
    assert asked(driver) == ["fast"]
    assert driver.finished.stop_reason is StopReason.COST_BUDGET


def test_a_visit_stays_with_the_model_that_answered_and_the_next_begins_with_its_own() -> None:
    plan = plan_with("slow", retries=0)
    plan = with_agent(plan, routes={"default": plans.AGENT})
    plan = replace(plan, bounds=change(plan.bounds, steps=2))
    driver = driven(plan, DOWN, LOOKS, LOOKS, ANSWER, ANSWER)
    assert asked(driver) == ["fast", "slow", "slow", "slow", "fast"]


@pytest.mark.parametrize(
    "failure",
    [
        FailureClass.AUTHENTICATION,
        FailureClass.BAD_REQUEST,
        FailureClass.CONTEXT_OVERFLOW,
        FailureClass.INTERNAL,
    ],
)
def test_what_another_model_can_not_mend_ends_the_step(failure: FailureClass) -> None:
    driver = driven(plan_with("slow", wait=True), Fails(failure=failure))
    assert asked(driver) == ["fast"]
    assert (driver.finished.stop_reason, driver.finished.stop_leaf) == (
        StopReason.MODEL_ERROR,
        f"MODEL_{failure.name}",
    )


def test_when_every_model_is_down_the_step_fails_as_the_last_one_did() -> None:
    limited = Fails(failure=FailureClass.RATE_LIMITED, takes_ms=10)
    driver = driven(plan_with("slow", retries=0), DOWN, limited)
    assert (driver.finished.signal, driver.finished.stop_leaf) == ("error", "MODEL_RATE_LIMITED")


def test_a_model_that_used_up_the_time_of_its_request_leaves_the_fallback_its_own() -> None:
    hung = Fails(failure=FailureClass.TIMEOUT, takes_ms=5_000)
    driver = driven(plan_with("slow", model_timeout_ms=5_000), hung, ANSWER)
    assert asked(driver) == ["fast", "slow"]
    assert driver.model_calls[1].total_ms == 5_000


def test_a_closing_answer_is_asked_of_the_fallback_too() -> None:
    plan = plan_with("slow", retries=0, max_iterations=1)
    plan = with_agent(plan, on_limit=OnLimit.FINAL_ANSWER)
    driver = driven(plan, LOOKS, DOWN, ANSWER)
    assert asked(driver) == ["fast", "fast", "slow"]
    assert (driver.finished.signal, driver.finished.result_json) == ("max_iterations", '"done"')


def test_guidance_that_comes_before_the_fallback_is_asked_reaches_it() -> None:
    driver = Driver(Scenario(plan=plan_with("slow", retries=0), replies=[DOWN, ANSWER]))
    driver.run(lambda one: isinstance(one.facts[-1], ModelCallFailed))
    driver.send(Steer(text="be brief"))
    driver.run_to_end()
    assert any("be brief" in message.text for message in driver.model_calls[-1].messages)


@pytest.mark.parametrize("after", range(2, 10))
def test_a_crash_at_any_commit_changes_neither_order_nor_numbers(after: int) -> None:
    plan = plan_with("slow", retries=2)
    driver = driven(plan, DOWN, DOWN, DOWN, ANSWER, ANSWER, crash_after={after})
    started = [fact for fact in driver.facts if isinstance(fact, ModelCallStarted)]
    models = [fact.model for fact in started]
    assert models == sorted(models), "fast comes before slow, and never again"
    assert [fact.attempt for fact in started] == list(range(1, len(started) + 1))
    assert driver.finished.phase is Phase.SUCCEEDED
    assert driver.replayed() == driver.state


# --- waiting -----------------------------------------------------------------------------------


def waits(driver: Driver) -> list[int]:
    return [
        fact.retry_in_ms or 0 for fact in driver.facts if isinstance(fact, ModelCallFailed) and fact.waits
    ]


def test_a_step_that_waits_asks_each_model_once_a_round_and_ever_more_rarely() -> None:
    driver = driven(plan_with("slow", wait=True), *[DOWN] * 4, *[DOWN] * 8, ANSWER)
    assert asked(driver) == ["fast", "fast", "slow", "slow", *["fast", "slow"] * 4, "fast"]
    assert waits(driver) == [1_500, 3_000, 6_000, 12_000, 24_000]
    assert driver.finished.phase is Phase.SUCCEEDED


def test_no_wait_is_longer_than_a_minute_and_none_shorter_than_the_provider_asks() -> None:
    asks = Fails(failure=FailureClass.RATE_LIMITED, retry_after_ms=50_000, takes_ms=10)
    driver = driven(plan_with(retries=0, wait=True), asks, *[DOWN] * 12, ANSWER)
    assert waits(driver)[0] == 50_000
    assert max(waits(driver)) == 50_000
    assert waits(driver)[-1] == 45_000


def test_the_wait_ends_when_the_time_of_the_step_is_over() -> None:
    driver = driven(plan_with(wait=True, timeout_ms=20_000), *[DOWN] * 6)
    assert (driver.finished.signal, driver.finished.stop_leaf) == ("time_exceeded", "step.timeout")
    assert driver.active_ms == 20_000


def test_the_wait_ends_when_the_requests_are_used_up() -> None:
    driver = driven(plan_with(wait=True, model_requests=5), *[DOWN] * 5)
    assert driver.finished.stop_reason is StopReason.REQUEST_BUDGET


def test_after_a_wait_the_models_are_asked_from_the_first_with_all_their_time() -> None:
    hung = Fails(failure=FailureClass.TIMEOUT, takes_ms=5_000)
    driver = driven(plan_with(wait=True, retries=0, model_timeout_ms=5_000), hung, ANSWER)
    assert [call.total_ms for call in driver.model_calls] == [5_000, 5_000]


def test_a_later_turn_has_all_its_attempts_again() -> None:
    driver = driven(plan_with(wait=True), DOWN, DOWN, LOOKS, DOWN, DOWN, DOWN, ANSWER)
    assert [call.started.attempt for call in driver.model_calls] == [1, 2, 3, 1, 2, 3, 4]
    assert waits(driver) == [1_500, 1_500, 3_000]


def test_an_abort_ends_the_wait() -> None:
    abort = Abort(mode=AbortMode.NOW, skip_routes=False)
    driver = driven(plan_with(wait=True, retries=0), DOWN, sent={3: abort})
    assert driver.finished.phase is Phase.ABORTED


def test_a_pause_holds_the_wait_and_after_it_the_run_goes_on() -> None:
    driver = Driver(Scenario(plan=plan_with(wait=True, retries=0), replies=[DOWN, ANSWER]))
    driver.run(lambda one: bool(waits(one)))
    driver.send(Pause())
    driver.run()
    assert (driver.state.phase, asked(driver)) == (Phase.PAUSED, ["fast"])
    driver.send(Resume())
    assert driver.run_to_end().finished.phase is Phase.SUCCEEDED


def test_guidance_that_comes_during_the_wait_is_in_the_next_attempt() -> None:
    driver = Driver(Scenario(plan=plan_with(wait=True, retries=0), replies=[DOWN, ANSWER]))
    driver.run(lambda one: bool(waits(one)))
    driver.send(Steer(text="be brief"))
    driver.run_to_end()
    assert any("be brief" in message.text for message in driver.model_calls[-1].messages)
