"""Bounds: each is exact at 0, at 1 and at N, in every scope in which it exists. Proves B1 without a crash."""

import re
from dataclasses import replace

import pytest

from jackline_server.core.bounds import LEAST_OUTPUT_TOKENS, estimate, price_of
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    FailureClass,
    FinishReason,
    ModelCallStarted,
    NoticeCode,
    Noticed,
    Phase,
    Purpose,
    StopReason,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.messages import ToolMessage, UserMessage
from jackline_server.core.plan import Effect, OnLimit, Plan, Price
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Says, Scenario, drive, then_for_ever

LOOK = plans.tool("look")
LOOKS = Says(calls=(Call("look"),))
ANSWER = Says(text="done")
PRICE = Price(input_per_million=1_000_000, output_per_million=2_000_000)


def forever(plan: Plan) -> Driver:
    """A model that calls a tool in every turn, for as long as it is let."""
    replies = then_for_ever((), LOOKS)
    driver = Driver(Scenario(plan=plan, replies=replies, tools={"look": lambda _: Ends(output=1)}))
    driver.run()
    return driver


def ended(driver: Driver) -> tuple[str, StopReason, str]:
    end = driver.finished
    return end.signal, end.stop_reason, end.stop_leaf


# --- turns and requests ------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [0, 1, 2, 5])
def test_a_visit_makes_exactly_as_many_turns_as_it_may(cap: int) -> None:
    driver = forever(plans.agent_plan(LOOK, bounds=plans.step_bounds(max_iterations=cap)))
    assert len(driver.model_calls) == cap
    assert ended(driver) == ("max_iterations", StopReason.MAX_ITERATIONS, "step.max_iterations")
    assert driver.finished.phase is Phase.EXHAUSTED


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_the_last_turn_may_answer(cap: int) -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(max_iterations=cap))
    looks = cap - 1
    driver = drive(plan, *(LOOKS for _ in range(looks)), ANSWER, look=[Ends()] * looks)
    assert driver.finished.signal == "default"


@pytest.mark.parametrize("cap", [0, 1, 2, 5])
def test_a_visit_makes_exactly_as_many_requests_as_it_may(cap: int) -> None:
    driver = forever(plans.agent_plan(LOOK, bounds=plans.step_bounds(model_requests=cap)))
    assert len(driver.model_calls) == cap
    assert ended(driver) == ("budget_exceeded", StopReason.REQUEST_BUDGET, "step.model_requests")


def test_failed_attempts_are_requests_but_no_turns() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(max_iterations=1, model_requests=3))
    driver = drive(plan, Fails(), Fails(), ANSWER)
    assert driver.finished.signal == "default"
    assert (driver.state.ledger.iterations, driver.state.ledger.model_requests) == (1, 3)
    assert [call.started.attempt for call in driver.model_calls] == [1, 2, 3]
    assert {call.started.iteration for call in driver.model_calls} == {1}


def test_a_retry_that_no_request_is_left_for_is_not_made() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(model_requests=1))
    driver = drive(plan, Fails())
    assert ended(driver) == ("budget_exceeded", StopReason.REQUEST_BUDGET, "step.model_requests")


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_model_is_tried_again_exactly_as_often_as_its_profile_says(retries: int) -> None:
    plan = replace(plans.agent_plan(), models={plans.MODEL: plans.model(retries=retries)})
    driver = drive(plan, *(Fails() for _ in range(retries + 1)))
    assert ended(driver) == ("error", StopReason.MODEL_ERROR, "MODEL_UNAVAILABLE")


@pytest.mark.parametrize("failure", [failure for failure in FailureClass if not failure.may_pass])
def test_a_failure_that_can_not_pass_is_not_tried_again(failure: FailureClass) -> None:
    driver = drive(plans.agent_plan(), Fails(failure=failure))
    assert ended(driver) == ("error", StopReason.MODEL_ERROR, f"MODEL_{failure.name}")


def test_retries_end_with_the_model_timeout_of_the_whole_request() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(model_timeout_ms=1_000))
    driver = drive(plan, Fails(takes_ms=600))
    assert ended(driver) == ("error", StopReason.MODEL_ERROR, "MODEL_UNAVAILABLE")


def test_a_wait_that_the_provider_asks_for_is_kept_but_never_over_a_minute() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(model_timeout_ms=100_000))
    driver = drive(plan, Fails(retry_after_ms=10_000_000), ANSWER)
    waited = driver.log[-4][1]
    assert 60_000 <= waited < 70_000


def test_repairs_use_requests_and_no_turn() -> None:
    plan = plans.agent_plan(
        bounds=plans.step_bounds(max_iterations=1, model_requests=2), outcome=plans.outcome(enum=("ok",))
    )
    driver = drive(plan, Says(text="what?"), Says(text='{"outcome":"ok"}'))
    assert driver.finished.signal == "ok"
    assert [call.started.purpose for call in driver.model_calls] == [Purpose.TURN, Purpose.REPAIR]
    assert driver.state.ledger.iterations == 1


def test_tools_that_a_mended_answer_asks_for_run_only_if_a_turn_is_left_to_see_their_results() -> None:
    def ended(turns: int, *more: Says) -> Driver:
        plan = plans.agent_plan(
            LOOK,
            bounds=plans.step_bounds(max_iterations=turns),
            outcome=plans.outcome(enum=("ok",), repairs=2),
        )
        return drive(plan, Says(text="no"), LOOKS, *more, look=[Ends()] * len(more))

    refused = ended(1)
    assert refused.finished.stop_reason is StopReason.MAX_ITERATIONS
    assert not refused.attempts
    assert len(ended(2, Says(text='{"outcome":"ok"}')).attempts) == 1


def test_a_repair_that_no_request_is_left_for_is_not_made() -> None:
    plan = plans.agent_plan(
        bounds=plans.step_bounds(model_requests=1), outcome=plans.outcome(enum=("ok",), repairs=9)
    )
    driver = drive(plan, Says(text="what?"))
    assert ended(driver) == ("budget_exceeded", StopReason.REQUEST_BUDGET, "step.model_requests")


# --- tool calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [0, 1, 2, 5])
def test_a_visit_makes_exactly_as_many_tool_calls_as_it_may(cap: int) -> None:
    driver = forever(plans.agent_plan(LOOK, bounds=plans.step_bounds(tool_calls=cap)))
    assert len(driver.attempts) == cap
    assert ended(driver) == ("budget_exceeded", StopReason.TOOL_CALL_BUDGET, "step.tool_calls")


@pytest.mark.parametrize(("asked", "start"), [(1, 1), (2, 2), (3, 0), (8, 0)])
def test_of_a_batch_over_the_total_none_starts(asked: int, start: int) -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(tool_calls=2, max_iterations=1))
    driver = drive(plan, Says(calls=(Call("look"),) * asked), look=[Ends()] * start)
    assert len(driver.attempts) == start
    statuses = {call.status for call in driver.state.calls.values()}
    assert statuses == {CallStatus.COMPLETED if start else CallStatus.DENIED}


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_calls_over_their_tools_own_cap_are_error_results_and_the_loop_goes_on(cap: int) -> None:
    plan = plans.agent_plan(LOOK, tools=(plans.entry("look", max_calls=cap),))
    driver = drive(plan, Says(calls=(Call("look"),) * 4), ANSWER, look=[Ends()] * cap)
    assert driver.finished.signal == "default"
    problems = [call.problem for call in driver.state.calls.values()]
    assert problems == [None] * cap + [CallProblem.OVER_TOOL_LIMIT] * (4 - cap)
    results = [message for message in driver.model_calls[1].messages if isinstance(message, ToolMessage)]
    assert [message.is_error for message in results] == [False] * cap + [True] * (4 - cap)


def test_excess_calls_of_one_tool_do_not_count_against_the_total() -> None:
    plan = plans.agent_plan(
        LOOK, tools=(plans.entry("look", max_calls=1),), bounds=plans.step_bounds(tool_calls=1)
    )
    driver = drive(plan, Says(calls=(Call("look"),) * 4), ANSWER, look=[Ends()])
    assert driver.finished.signal == "default"


def test_calls_that_can_not_start_are_not_counted() -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(tool_calls=0))
    driver = drive(plan, Says(calls=(Call("nothing"), Call("look", "[]"))), ANSWER)
    assert driver.state.ledger.tool_calls == 0
    assert driver.finished.signal == "default"


def test_a_new_visit_of_a_step_starts_its_own_counts_and_the_runs_go_on() -> None:
    again = plans.agent(
        routes={"again": plans.AGENT, "*": "end"}, outcome=plans.outcome(enum=("again", "ok"))
    )
    plan = plans.plan_of(replace(again, bounds=plans.step_bounds(max_iterations=1)))
    driver = drive(plan, Says(text='{"outcome":"again"}'), Says(text='{"outcome":"ok"}'))
    assert driver.finished.signal == "ok"
    assert [summary.ledger.iterations for summary in driver.state.summaries] == [1, 1]
    assert (driver.state.ledger.iterations, driver.state.ledger.steps) == (2, 2)


# --- tokens and money --------------------------------------------------------------------------


def test_the_budget_of_a_run_is_not_given_again_to_a_second_visit() -> None:
    again = plans.agent(
        routes={"again": plans.AGENT, "*": "end"}, outcome=plans.outcome(enum=("again", "ok"))
    )
    plan = plans.plan_of(again, bounds=plans.run_bounds(token_budget=1_000))
    spends = Usage(prompt_tokens=950, completion_tokens=10)
    driver = drive(plan, Says(text='{"outcome":"again"}', usage=spends))
    assert ended(driver) == ("budget_exceeded", StopReason.TOKEN_BUDGET, "run.token_budget")
    assert driver.state.ledger.steps == 2


def one_call(**run: int) -> Driver:
    plan = replace(plans.agent_plan(), models={plans.MODEL: plans.model(price=PRICE)})
    bounds = plans.run_bounds(token_budget=run.get("run_tokens"), cost_budget_micros=run.get("run_cost"))
    step = plans.agent(
        bounds=plans.step_bounds(token_budget=run.get("step_tokens"), cost_budget_micros=run.get("step_cost"))
    )
    plan = replace(plan, bounds=bounds, steps={plans.AGENT: step})
    driver = Driver(Scenario(plan=plan, replies=[ANSWER]))
    driver.run()
    return driver


PROMPT = one_call().model_calls[0].started.prompt_tokens
LEAST_COST = price_of(PRICE, prompt_tokens=PROMPT, completion_tokens=LEAST_OUTPUT_TOKENS)


@pytest.mark.parametrize("scope", ["run", "step"])
@pytest.mark.parametrize(
    ("budget", "cap"),
    [
        (0, None),
        (1, None),
        (PROMPT + LEAST_OUTPUT_TOKENS - 1, None),
        (PROMPT + LEAST_OUTPUT_TOKENS, LEAST_OUTPUT_TOKENS),
        (PROMPT + 100, 100),
        (PROMPT + 100_000, 1_000),
    ],
)
def test_the_output_cap_shrinks_to_fit_the_tokens_left_before_a_call_is_refused(
    scope: str, budget: int, cap: int | None
) -> None:
    driver = one_call(**{f"{scope}_tokens": budget})
    if cap is None:
        assert not driver.model_calls
        assert ended(driver) == ("budget_exceeded", StopReason.TOKEN_BUDGET, f"{scope}.token_budget")
    else:
        assert driver.model_calls[0].started.max_output_tokens == cap
        assert driver.model_calls[0].started.reserved_tokens <= budget


@pytest.mark.parametrize("scope", ["run", "step"])
@pytest.mark.parametrize(
    ("budget", "cap"),
    [
        (0, None),
        (1, None),
        (LEAST_COST - 1, None),
        (LEAST_COST, LEAST_OUTPUT_TOKENS),
        (PROMPT + 200, 100),
        (PROMPT + 100_000, 1_000),
    ],
)
def test_the_output_cap_shrinks_to_fit_the_money_left_before_a_call_is_refused(
    scope: str, budget: int, cap: int | None
) -> None:
    driver = one_call(**{f"{scope}_cost": budget})
    if cap is None:
        assert not driver.model_calls
        assert ended(driver) == ("budget_exceeded", StopReason.COST_BUDGET, f"{scope}.cost_budget_usd")
    else:
        assert driver.model_calls[0].started.max_output_tokens == cap
        assert driver.model_calls[0].started.reserved_cost_micros <= budget


def test_the_tighter_scope_wins_and_the_exit_names_it() -> None:
    assert one_call(run_tokens=10, step_tokens=100_000).finished.stop_leaf == "run.token_budget"
    assert one_call(run_tokens=100_000, step_tokens=10).finished.stop_leaf == "step.token_budget"


def test_a_free_model_is_never_stopped_by_a_money_budget() -> None:
    plan = replace(plans.agent_plan(), bounds=plans.run_bounds(cost_budget_micros=0))
    assert drive(plan, ANSWER).finished.signal == "default"
    free = replace(
        plan, models={plans.MODEL: plans.model(price=Price(input_per_million=0, output_per_million=0))}
    )
    assert drive(free, ANSWER).finished.signal == "default"


def test_a_call_that_costs_more_than_it_reserved_is_the_last_one() -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(token_budget=PROMPT + 500))
    driver = drive(plan, replace(LOOKS, usage=Usage(prompt_tokens=9_000, completion_tokens=9)), look=[Ends()])
    assert driver.finished.stop_leaf == "step.token_budget"
    assert driver.state.ledger.tokens == 9_009


def test_what_a_call_holds_is_held_in_both_scopes_until_it_is_settled() -> None:
    driver = Driver(Scenario(plan=plans.agent_plan(), replies=[], crash_after={3}))
    driver.run(until=lambda d: any(isinstance(fact, ModelCallStarted) for fact in d.facts))
    started = next(fact for fact in driver.facts if isinstance(fact, ModelCallStarted))
    visit = driver.state.visit
    assert visit is not None
    assert visit.ledger.reserved_tokens == driver.state.ledger.reserved_tokens == 0
    assert visit.ledger.tokens == driver.state.ledger.tokens == started.reserved_tokens
    assert driver.state.usage.estimated


def test_a_run_has_used_what_its_calls_used_and_parts_of_a_count_are_not_added_to_it() -> None:
    cached = Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=60, reasoning_tokens=15)
    driver = drive(
        plans.agent_plan(LOOK), replace(LOOKS, usage=cached), replace(ANSWER, usage=cached), look=[Ends()]
    )
    assert driver.state.usage == Usage(
        prompt_tokens=200, completion_tokens=40, cached_tokens=120, reasoning_tokens=30
    )
    assert driver.state.ledger.tokens == 240


def test_a_failed_attempt_is_charged_what_it_used() -> None:
    driver = drive(plans.agent_plan(), Fails(usage=Usage(prompt_tokens=40, completion_tokens=2)), ANSWER)
    assert driver.state.ledger.tokens == 42 + PROMPT + 10


def test_the_output_cap_never_exceeds_the_window() -> None:
    plan = replace(plans.agent_plan(), models={plans.MODEL: plans.model(context_window=PROMPT + 50)})
    assert drive(plan, ANSWER).model_calls[0].started.max_output_tokens == 50


def test_the_model_is_told_once_when_four_fifths_of_a_budget_are_used() -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(token_budget=10_000))
    big = replace(LOOKS, usage=Usage(prompt_tokens=8_000, completion_tokens=0))
    small = replace(LOOKS, usage=Usage(prompt_tokens=100, completion_tokens=0))
    driver = drive(plan, big, small, ANSWER, look=[Ends(), Ends()])
    told = [fact for fact in driver.facts if isinstance(fact, Noticed)]
    assert [fact.code for fact in told] == [NoticeCode.BUDGET_NEARLY_USED]
    assert not shown_to(driver, 0, told[0].text)
    assert shown_to(driver, 1, told[0].text)
    assert shown_to(driver, 2, told[0].text)


def shown_to(driver: Driver, call: int, text: str) -> bool:
    messages = driver.model_calls[call].messages
    return any(isinstance(message, UserMessage) and text in message.text for message in messages)


def test_just_under_four_fifths_nothing_is_said() -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(token_budget=10_000))
    driver = drive(
        plan, replace(LOOKS, usage=Usage(prompt_tokens=7_999, completion_tokens=0)), ANSWER, look=[Ends()]
    )
    assert not any(isinstance(fact, Noticed) for fact in driver.facts)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 4), ("a", 5), ("abcd", 5), ("abcde", 6), ("é", 5), ("\U0001f600" * 4, 8)]
)
def test_a_text_is_estimated_by_its_bytes_and_a_constant(text: str, tokens: int) -> None:
    assert estimate([text]) == tokens


def test_money_is_rounded_up() -> None:
    tiny = Price(input_per_million=1, output_per_million=0)
    assert price_of(tiny, prompt_tokens=0, completion_tokens=5) == 0
    assert price_of(tiny, prompt_tokens=1, completion_tokens=0) == 1
    assert price_of(tiny, prompt_tokens=1_000_000, completion_tokens=0) == 1
    assert price_of(tiny, prompt_tokens=1_000_001, completion_tokens=0) == 2


# --- steps and events --------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [0, 1, 2, 5])
def test_a_run_visits_exactly_as_many_steps_as_it_may(cap: int) -> None:
    plan = plans.plan_of(
        plans.router("a", {}, {"default": "b"}),
        plans.router("b", {}, {"default": "a"}),
        bounds=plans.run_bounds(steps=cap),
    )
    driver = drive(plan)
    assert driver.state.ledger.steps == cap
    assert ended(driver) == ("budget_exceeded", StopReason.STEP_BUDGET, "run.steps")


def test_a_run_whose_last_step_is_the_last_one_allowed_ends_as_that_step_did() -> None:
    plan = replace(plans.agent_plan(), bounds=plans.run_bounds(steps=1))
    assert drive(plan, ANSWER).finished.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("cap", [0, 1, 2, 10, 50])
def test_a_full_log_ends_the_run_with_nothing_but_its_closing_facts(cap: int) -> None:
    generous = plans.step_bounds(max_iterations=1_000, model_requests=1_000, tool_calls=1_000)
    plan = replace(plans.agent_plan(LOOK, bounds=generous), bounds=plans.run_bounds(events=cap))
    driver = forever(plan)
    assert ended(driver) == ("budget_exceeded", StopReason.STEP_BUDGET, "run.events")
    late = driver.facts[max(cap + 2, 1) :]
    assert not any(isinstance(fact, ModelCallStarted | ToolCallStarted) for fact in late)
    assert len(driver.facts) <= cap + 5


# --- what a limit leaves behind ----------------------------------------------------------------


def test_a_limit_leaves_the_newest_text_as_a_partial_result() -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(max_iterations=1))
    driver = drive(plan, Says(text="so far: 3", calls=(Call("look"),)), look=[Ends()])
    assert driver.finished.partial
    assert driver.finished.result_json == '"so far: 3"'


def test_a_limit_without_any_text_has_no_result() -> None:
    driver = forever(plans.agent_plan(LOOK, bounds=plans.step_bounds(max_iterations=1)))
    assert driver.finished.result_json is None
    assert not driver.finished.partial


def test_writes_count_like_reads() -> None:
    write = plans.tool("write", Effect.WRITE)
    plan = plans.agent_plan(write, bounds=plans.step_bounds(tool_calls=1))
    driver = drive(
        plan, Says(calls=(Call("write"),)), Says(calls=(Call("write"),)), write=[Ends(output={"ok": True})]
    )
    assert ended(driver)[1] is StopReason.TOOL_CALL_BUDGET


def test_a_truncated_reply_with_calls_is_a_turn_like_any_other() -> None:
    driver = drive(
        plans.agent_plan(LOOK),
        Says(calls=(Call("look", '{"a": "b'),), finish=FinishReason.LENGTH),
        ANSWER,
    )
    assert [call.problem for call in driver.state.calls.values()] == [CallProblem.MALFORMED_ARGUMENTS]


# --- what a budget lacked ----------------------------------------------------------------------


def numbers(text: str) -> list[int]:
    return [int(one) for one in re.findall(r"\d+", text)]


def test_a_token_budget_that_was_never_touched_says_what_the_call_needs() -> None:
    plan = replace(plans.agent_plan(), bounds=plans.run_bounds(token_budget=1))
    driver = drive(plan)
    needed, left, budget = numbers(driver.finished.error)
    assert (left, budget) == (1, 1)
    enough = replace(plan, bounds=plans.run_bounds(token_budget=needed))
    assert len(drive(enough, ANSWER).model_calls) == 1
    short = replace(plan, bounds=plans.run_bounds(token_budget=needed - 1))
    assert drive(short).model_calls == []


def test_a_cost_budget_that_was_never_touched_says_what_the_call_needs() -> None:
    priced = {plans.MODEL: plans.model(price=PRICE)}
    plan = replace(plans.agent_plan(), models=priced, bounds=plans.run_bounds(cost_budget_micros=1))
    driver = drive(plan)
    needed, left, budget = (
        round(float(one) * 1_000_000) for one in re.findall(r"\$([\d.]+)", driver.finished.error)
    )
    assert (left, budget) == (1, 1)
    enough = replace(plan, bounds=plans.run_bounds(cost_budget_micros=needed))
    assert len(drive(enough, ANSWER).model_calls) == 1
    short = replace(plan, bounds=plans.run_bounds(cost_budget_micros=needed - 1))
    assert drive(short).model_calls == []


def test_room_that_is_kept_for_a_closing_answer_is_part_of_what_is_needed() -> None:
    plan = plans.agent_plan(on_limit=OnLimit.FINAL_ANSWER)
    plan = replace(plan, bounds=plans.run_bounds(token_budget=1))
    closing = drive(plan)
    plain = drive(replace(plans.agent_plan(), bounds=plan.bounds))
    assert numbers(closing.finished.error)[0] > numbers(plain.finished.error)[0] + 512 - LEAST_OUTPUT_TOKENS


def priced(**prices: int) -> Plan:
    """A plan whose model has these prices beside a dollar in and two out."""
    price = Price(input_per_million=1_000_000, output_per_million=2_000_000, **prices)
    return replace(plans.agent_plan(), models={plans.MODEL: plans.model(price=price)})


def test_parts_of_a_prompt_and_of_a_reply_are_charged_at_their_own_prices() -> None:
    usage = Usage(prompt_tokens=100, completion_tokens=50, cached_tokens=40, reasoning_tokens=20)
    answer = Says(text="done", usage=usage)
    parts = drive(priced(cached_per_million=250_000, reasoning_per_million=5_000_000), answer)
    assert parts.state.ledger.cost_micros == 60 + 10 + 2 * 30 + 5 * 20
    whole = drive(priced(), answer)
    assert whole.state.ledger.cost_micros == 100 + 2 * 50
    free = drive(priced(cached_per_million=0, reasoning_per_million=0), answer)
    assert free.state.ledger.cost_micros == 60 + 2 * 30


def test_a_call_is_reserved_at_the_dearest_that_its_parts_may_cost() -> None:
    def reserved(**prices: int) -> int:
        return drive(priced(**prices), ANSWER).model_calls[0].started.reserved_cost_micros

    usual = reserved()
    assert reserved(cached_per_million=0, reasoning_per_million=0) == usual
    started = drive(priced(), ANSWER).model_calls[0].started
    prompt, output = started.prompt_tokens, started.max_output_tokens
    assert reserved(cached_per_million=4_000_000) == 4 * prompt + 2 * output
    assert reserved(reasoning_per_million=9_000_000) == prompt + 9 * output
