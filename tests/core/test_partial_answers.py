"""Every abnormal exit leaves the best partial answer, marked partial."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from jackline_server.core import exits, json_text
from jackline_server.core.commands import Abort
from jackline_server.core.facts import AbortMode, CallStatus, FailureClass, StopReason, Usage
from jackline_server.core.plan import END, AnswerForm, Effect, JsonValue, OnUnknown, Plan
from jackline_server.core.steps import ToolAttempt
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Reply, Says, Scenario

LOOK = plans.tool("look")
SEND = plans.tool("send", Effect.WRITE, on_unknown=OnUnknown.ASK, unknown_expiry_ms=1_000)
HALF = Says(text="half of it", calls=(Call("look"),))
HALF_SENT = Says(text="half of it", calls=(Call("send"),))
NO_REPAIR = plans.outcome(enum=("ok",), repairs=0)
GRACEFUL = Abort(mode=AbortMode.GRACEFUL, skip_routes=False)


def bounded(**bounds: int) -> Plan:
    return plans.agent_plan(LOOK, SEND, bounds=replace(plans.step_bounds(), **bounds))


def looks(_: ToolAttempt) -> Ends:
    return Ends()


def is_lost(_: ToolAttempt) -> Ends:
    return Ends(status=CallStatus.UNKNOWN, error="lost")


def run(plan: Plan, *replies: Reply, **more: object) -> Driver:
    """Drive to the end, letting open questions expire."""
    scenario = Scenario(plan=plan, replies=replies, tools={"look": looks, "send": is_lost})
    driver = Driver(replace(scenario, **more)).run()
    if driver.state.finished is None:
        driver.pass_time(unix_ms=10_000)
        driver.run()
    return driver


EXITS: Mapping[StopReason, Callable[[], Driver]] = {
    StopReason.MAX_ITERATIONS: lambda: run(bounded(max_iterations=1), HALF),
    StopReason.REQUEST_BUDGET: lambda: run(bounded(model_requests=1), HALF),
    StopReason.TOOL_CALL_BUDGET: lambda: run(bounded(tool_calls=0), HALF),
    StopReason.TOKEN_BUDGET: lambda: run(
        bounded(token_budget=3_000), replace(HALF, usage=Usage(prompt_tokens=2_990, completion_tokens=5))
    ),
    StopReason.TIME_BUDGET: lambda: run(bounded(timeout_ms=100), replace(HALF, takes_ms=200)),
    StopReason.STEP_BUDGET: lambda: run(replace(bounded(), bounds=plans.run_bounds(events=6)), HALF),
    StopReason.DEADLINE: lambda: run(
        bounded(),
        HALF,
        started=plans.started(bounded(), deadline_unix_ms=1_700_000_000_050),
    ),
    StopReason.MODEL_ERROR: lambda: run(bounded(), HALF, Fails(failure=FailureClass.BAD_REQUEST)),
    StopReason.INVALID_OUTPUT: lambda: run(plans.agent_plan(outcome=NO_REPAIR), Says(text="half of it")),
    StopReason.UNKNOWN_OUTCOME: lambda: run(bounded(), HALF_SENT),
    StopReason.CRASH_LOOP: lambda: run(bounded(), HALF, crash_after=set(range(4, 40))),
    StopReason.OPERATOR: lambda: run(bounded(), HALF, sent={2: GRACEFUL}),
}
"""How each kind of exit comes about after the model has said something."""


@pytest.mark.parametrize("reason", EXITS, ids=lambda reason: reason.value)
def test_each_abnormal_exit_keeps_what_the_model_said_last(reason: StopReason) -> None:
    end = EXITS[reason]().finished
    assert (end.stop_reason, end.partial, end.result_json) == (reason, True, '"half of it"')
    assert exits.is_reserved(end.signal)


def test_a_run_in_which_nothing_was_said_leaves_no_partial_answer() -> None:
    driver = run(bounded(max_iterations=1), Says(calls=(Call("look"),)))
    assert (driver.finished.partial, driver.finished.result_json) == (False, None)


REJECTED: Mapping[str, tuple[str, JsonValue]] = {
    "the result of a rejected object": ('{"outcome":"no","result":{"a":1}}', {"a": 1}),
    "the whole of an object without a result": ('{"a":1}', {"a": 1}),
    "one in a fence among words": ('So:\n```json\n{"outcome":"no","result":2}\n```\nBye.', 2),
    "the text of what can't be read": ('{"outcome":', '{"outcome":'),
    "the text of what holds NaN": ('{"result":NaN}', '{"result":NaN}'),
    "the text of words": ("no idea", "no idea"),
}


@pytest.mark.parametrize(("text", "kept"), REJECTED.values(), ids=REJECTED.keys())
def test_of_a_rejected_answer_its_result_is_kept_or_else_its_text(text: str, kept: JsonValue) -> None:
    driver = run(plans.agent_plan(outcome=NO_REPAIR), Says(text=text))
    assert json_text.parse(driver.finished.result_json or "") == kept


def test_where_the_answer_is_text_it_is_kept_as_text() -> None:
    plan = plans.agent_plan(
        LOOK, outcome=plans.outcome(form=AnswerForm.TEXT), bounds=plans.step_bounds(max_iterations=1)
    )
    driver = run(plan, Says(text='{"result":1}', calls=(Call("look"),)))
    assert json_text.parse(driver.finished.result_json or "") == '{"result":1}'


# --- between steps -----------------------------------------------------------------------------


def two_steps(**run_bounds: int) -> Plan:
    first = plans.agent(step_id="first", routes={}, next_step="second")
    second = plans.agent(step_id="second")
    return plans.plan_of(first, second, bounds=plans.run_bounds(**run_bounds))


def test_a_run_that_ends_between_steps_keeps_the_result_of_the_last() -> None:
    end = run(two_steps(steps=1), Says(text='{"done":1}')).finished
    assert (end.signal, end.stop_leaf) == ("budget_exceeded", "run.steps")
    assert (end.partial, end.result_json) == (True, '{"done":1}')


def test_a_run_that_is_aborted_between_steps_keeps_the_result_of_the_last() -> None:
    end = run(two_steps(), Says(text='{"done":1}'), sent={3: GRACEFUL}).finished
    assert (end.signal, end.partial, end.result_json) == ("aborted", True, '{"done":1}')


def test_an_aborted_run_still_has_its_partial_answer_after_the_clean_up() -> None:
    undo = plans.tool("undo", routes={"*": END})
    plan = plans.agent_plan(LOOK, undo, routes={"aborted": "undo"})
    scenario = Scenario(
        plan=plan,
        replies=[HALF],
        tools={"undo": [Ends(output={"undone": True})], "look": []},
        sent={2: GRACEFUL},
    )
    end = Driver(scenario).run_to_end().finished
    assert (end.signal, end.partial, end.result_json) == ("aborted", True, '"half of it"')
