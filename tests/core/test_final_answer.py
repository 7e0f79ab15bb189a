"""`on_limit: final_answer`: one call without tools after the limit, paid for from the start."""

from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort
from jackline_server.core.deciding.turns import CLOSING_OUTPUT_TOKENS
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    ModelReplied,
    Phase,
    Purpose,
    StopReason,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.messages import ToolMessage, UserMessage
from jackline_server.core.plan import ModelStep, OnLimit, Plan
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Says, Scenario, drive

LOOK = plans.tool("look")
LOOKS = Says(calls=(Call("look"),))
CLOSING = Says(text="as far as I got")


def closing_plan(**bounds: int) -> Plan:
    step_bounds = replace(plans.step_bounds(), **bounds)
    return plans.agent_plan(LOOK, bounds=step_bounds, on_limit=OnLimit.FINAL_ANSWER)


def is_closing(driver: Driver) -> bool:
    return driver.model_calls[-1].started.purpose is Purpose.FINAL_ANSWER


def test_after_the_last_turn_one_call_without_tools_is_made_and_the_signal_stays_the_limits() -> None:
    driver = drive(closing_plan(max_iterations=2), LOOKS, LOOKS, CLOSING, look=[Ends(), Ends()])
    assert is_closing(driver)
    assert driver.model_calls[-1].tools == ()
    end = driver.finished
    assert (end.signal, end.stop_reason, end.phase) == (
        "max_iterations",
        StopReason.MAX_ITERATIONS,
        Phase.EXHAUSTED,
    )
    assert (end.partial, end.result_json) == (True, '"as far as I got"')
    assert driver.state.ledger.iterations == 2


@pytest.mark.parametrize("cap", [0, 1, 2, 4])
def test_the_closing_answers_request_is_held_back_from_the_start(cap: int) -> None:
    turns = max(cap - 1, 0)
    driver = drive(
        closing_plan(model_requests=cap), *[LOOKS] * turns, *[CLOSING] * min(cap, 1), look=[Ends()] * turns
    )
    assert driver.state.ledger.model_requests == cap
    assert driver.finished.stop_reason is StopReason.REQUEST_BUDGET
    assert driver.finished.partial == (cap > 0)


def test_room_for_the_closing_answer_is_held_back_from_the_tokens() -> None:
    prompt = drive(closing_plan(), CLOSING).model_calls[0].started.prompt_tokens
    budget = 2 * prompt + CLOSING_OUTPUT_TOKENS + 100
    driver = Driver(Scenario(plan=closing_plan(token_budget=budget), replies=[CLOSING]))
    driver.run()
    assert driver.model_calls[0].started.max_output_tokens == 100


def test_tokens_used_up_lead_to_a_closing_answer_inside_the_budget() -> None:
    plan = closing_plan(token_budget=4_000)
    used = replace(LOOKS, usage=Usage(prompt_tokens=3_200, completion_tokens=200))
    driver = drive(plan, used, CLOSING, look=[Ends()])
    assert is_closing(driver)
    assert driver.finished.stop_leaf == "step.token_budget"
    assert driver.state.ledger.tokens <= 4_000


def test_a_closing_answer_that_does_not_fit_is_skipped() -> None:
    plan = closing_plan(token_budget=4_000)
    used = replace(LOOKS, usage=Usage(prompt_tokens=3_990, completion_tokens=9))
    driver = drive(plan, used, look=[Ends()])
    assert driver.finished.stop_leaf == "step.token_budget"
    assert driver.finished.result_json is None


def test_after_a_batch_over_the_total_the_closing_call_shows_that_nothing_of_it_ran() -> None:
    driver = drive(closing_plan(tool_calls=1), Says(calls=(Call("look"), Call("look"))), CLOSING)
    assert not any(isinstance(fact, ToolCallStarted) for fact in driver.facts)
    results = [message for message in driver.model_calls[-1].messages if isinstance(message, ToolMessage)]
    assert len(results) == 2
    assert all(message.is_error for message in results)
    assert driver.finished.stop_reason is StopReason.TOOL_CALL_BUDGET
    assert {call.status for call in driver.state.calls.values()} == {CallStatus.DENIED}


def test_a_closing_reply_that_asks_for_tools_starts_none_and_is_not_asked_again() -> None:
    greedy = Says(text="one more look", calls=(Call("look"),))
    driver = drive(closing_plan(max_iterations=1), LOOKS, greedy, look=[Ends()])
    assert len(driver.model_calls) == 2
    assert len(driver.attempts) == 1
    assert driver.finished.signal == "max_iterations"
    assert driver.finished.result_json == '"one more look"'


def test_a_closing_answer_outside_its_contract_is_kept_as_it_is_and_not_mended() -> None:
    plan = closing_plan(max_iterations=0)
    step = plan.step(plans.AGENT)
    assert isinstance(step, ModelStep)
    plan = replace(plan, steps={plans.AGENT: replace(step, outcome=plans.outcome(enum=("ok",), repairs=5))})
    driver = drive(plan, Says(text="sorry"))
    assert driver.finished.signal == "max_iterations"
    assert driver.finished.result_json == '"sorry"'


def test_a_closing_call_that_fails_is_tried_again_within_the_requests_and_then_let_go() -> None:
    driver = drive(closing_plan(max_iterations=0, model_requests=3), *[Fails()] * 3)
    assert driver.finished.signal == "max_iterations"
    assert driver.state.ledger.model_requests == 3
    assert driver.finished.result_json is None


@pytest.mark.parametrize("commit", range(2, 12))
def test_a_crash_around_a_closing_call_leaves_one_answer_to_the_same_limit(commit: int) -> None:
    plan = closing_plan(max_iterations=1)
    driver = Driver(
        Scenario(
            plan=plan,
            replies=[LOOKS, CLOSING],
            tools={"look": lambda _: Ends()},
            crash_after={commit},
        )
    )
    driver.run_to_end()
    assert driver.finished.signal == "max_iterations"
    assert sum(isinstance(fact, ModelReplied) for fact in driver.facts) == 2


def test_no_closing_call_follows_a_timeout() -> None:
    driver = drive(closing_plan(timeout_ms=100), replace(LOOKS, takes_ms=100))
    assert len(driver.model_calls) == 1
    assert driver.finished.signal == "time_exceeded"


def test_no_closing_call_follows_an_abort() -> None:
    abort = Abort(mode=AbortMode.GRACEFUL, skip_routes=False)
    scenario = Scenario(plan=closing_plan(), replies=[LOOKS], sent={2: abort})
    driver = Driver(scenario).run_to_end()
    assert len(driver.model_calls) == 1
    assert driver.finished.signal == "aborted"


def test_the_closing_prompt_says_that_it_is_the_last() -> None:
    driver = drive(closing_plan(max_iterations=0), CLOSING)
    last = driver.model_calls[0].messages[-1]
    assert isinstance(last, UserMessage)
    assert "limits of this step" in last.text
