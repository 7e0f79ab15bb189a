"""Tool calls: which start, with what, in which order, and what the others are told."""

from dataclasses import replace

import pytest

from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.plan import Effect, Plan
from jackline_server.core.steps import ToolAttempt
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario, ToolScript, drive

LOOK = plans.tool("look")
READ = plans.tool("read")
SEND = plans.tool("send", Effect.WRITE)
PUT = plans.tool("put", Effect.IDEMPOTENT)
ANSWER = Says(text="done")
STRICT = (
    '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}'
)


def asks(*calls: Call | str) -> Says:
    return Says(calls=tuple(Call(call) if isinstance(call, str) else call for call in calls))


def only_call(driver: Driver) -> tuple[CallStatus, CallProblem | None]:
    (call,) = driver.state.calls.values()
    return call.status, call.problem


# --- what can't start --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nothing", "", "LOOK", "look ", "answer", "look\x00", "other", "\ud800"])
def test_a_name_that_the_model_made_up_is_an_error_result_and_appears_as_other(name: str) -> None:
    driver = drive(plans.agent_plan(LOOK), asks(Call(name)), ANSWER)
    assert only_call(driver) == (CallStatus.DENIED, CallProblem.UNKNOWN_TOOL)
    requested = [fact for fact in driver.facts if isinstance(fact, ToolCallRequested)]
    assert [fact.tool for fact in requested] == ["other"]


def test_a_made_up_name_never_reaches_a_tool_that_is_called_other() -> None:
    plan = plans.agent_plan(plans.tool("other"))
    driver = drive(plan, asks("nothing", "other"), ANSWER, other=[Ends()])
    assert [call.problem for call in driver.state.calls.values()] == [CallProblem.UNKNOWN_TOOL, None]


def test_a_tool_of_the_workflow_that_the_step_was_not_given_is_unknown_to_it() -> None:
    plan = plans.agent_plan(LOOK, SEND, tools=(plans.entry("look"),))
    assert only_call(drive(plan, asks("send"), ANSWER)) == (CallStatus.DENIED, CallProblem.UNKNOWN_TOOL)


def test_a_tool_of_an_effect_that_the_step_does_not_allow_is_refused() -> None:
    plan = plans.agent_plan(SEND, allow_effects=frozenset({Effect.READ}))
    assert only_call(drive(plan, asks("send"), ANSWER)) == (CallStatus.DENIED, CallProblem.NOT_ALLOWED)


@pytest.mark.parametrize(
    "arguments", ["{", "[]", '"{}"', "null", "{'n': 1}", '{"n": NaN}', '{"n":1,"n":2}', "n=1", "\ud800"]
)
def test_arguments_that_are_no_json_object_are_never_taken_for_an_empty_one(arguments: str) -> None:
    driver = drive(plans.agent_plan(LOOK), asks(Call("look", arguments)), ANSWER)
    assert only_call(driver) == (CallStatus.DENIED, CallProblem.MALFORMED_ARGUMENTS)


@pytest.mark.parametrize("arguments", ["{}", '{"n":"1"}', '{"n":1.5}', '{"n":1,"x":2}', '{"n":null}'])
def test_arguments_that_do_not_fit_go_back_to_the_model_and_nothing_is_coerced(arguments: str) -> None:
    plan = plans.agent_plan(LOOK, tools=(plans.entry("look", parameters_json=STRICT),))
    driver = drive(plan, asks(Call("look", arguments)), ANSWER)
    assert only_call(driver) == (CallStatus.DENIED, CallProblem.INVALID_ARGUMENTS)


@pytest.mark.parametrize("arguments", ['{"shop":"evil"}', '{"_key":1}', '{"n":1,"shop":null}'])
def test_bound_and_private_arguments_can_not_be_set(arguments: str) -> None:
    plan = plans.agent_plan(LOOK, tools=(plans.entry("look", bind={"shop": "/input/shop"}),))
    driver = drive(plan, asks(Call("look", arguments)), ANSWER)
    assert only_call(driver) == (CallStatus.DENIED, CallProblem.INVALID_ARGUMENTS)


def test_no_arguments_at_all_are_an_empty_object() -> None:
    driver = drive(plans.agent_plan(LOOK), asks(Call("look", " ")), ANSWER, look=[Ends()])
    assert driver.attempts[0].arguments == {}


def test_the_good_calls_of_a_batch_run_although_others_are_refused() -> None:
    driver = drive(plans.agent_plan(LOOK), asks("nothing", "look", Call("look", "[")), ANSWER, look=[Ends()])
    assert [call.status for call in driver.state.calls.values()] == [
        CallStatus.DENIED,
        CallStatus.COMPLETED,
        CallStatus.DENIED,
    ]


# --- what a tool is given ----------------------------------------------------------------------


def test_bound_values_come_from_the_context_beside_the_models_arguments() -> None:
    bind = {"shop": "/input/shop", "none": "/input/none", "second": "/input/list/1", "odd": "/input/a~1b"}
    plan = plans.agent_plan(LOOK, tools=(plans.entry("look", bind=bind),))
    first = plans.started(plan, input_json='{"shop":"s1","list":[1,2],"a/b":3}')
    scenario = Scenario(
        plan=plan, started=first, replies=[asks(Call("look", '{"id":7}')), ANSWER], tools={"look": [Ends()]}
    )
    (attempt,) = Driver(scenario).run_to_end().attempts
    assert attempt.arguments == {"id": 7}
    assert attempt.bound == {"shop": "s1", "second": 2, "odd": 3}


def test_a_call_is_bounded_by_the_shortest_of_its_times() -> None:
    bounds = plans.step_bounds(tool_timeout_ms=5_000, timeout_ms=60_000)
    slow = replace(LOOK, timeout_ms=9_000)
    assert (
        drive(plans.agent_plan(slow, bounds=bounds), asks("look"), ANSWER, look=[Ends()])
        .attempts[0]
        .timeout_ms
        == 5_000
    )
    quick = replace(LOOK, timeout_ms=1_000)
    assert (
        drive(plans.agent_plan(quick, bounds=bounds), asks("look"), ANSWER, look=[Ends()])
        .attempts[0]
        .timeout_ms
        == 1_000
    )
    late = replace(bounds, timeout_ms=150)
    driver = Driver(
        Scenario(plan=plans.agent_plan(slow, bounds=late), replies=[asks("look")], tools={"look": [Ends()]})
    )
    driver.run()
    assert driver.attempts[0].timeout_ms == 50


def test_each_call_has_a_key_of_the_run_and_its_place_and_attempts_share_it() -> None:
    plan = plans.agent_plan(replace(SEND, on_unknown=plans.OnUnknown.RETRY))
    unknown = Ends(status=CallStatus.UNKNOWN, error="lost")
    driver = drive(plan, asks("send", "send"), ANSWER, send=[unknown, Ends(), Ends()])
    keys = [attempt.started.call_key for attempt in driver.attempts]
    assert keys == ["run-1.1", "run-1.1", "run-1.2"]
    assert [attempt.started.attempt for attempt in driver.attempts] == [1, 2, 1]


# --- ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "é", "a\nb", "\x00"])
def test_an_id_that_is_missing_or_odd_becomes_one_of_ours(given: str) -> None:
    driver = drive(plans.agent_plan(LOOK), asks(Call("look", call_id=given)), ANSWER, look=[Ends()])
    assert list(driver.state.calls) == ["call_1"]


def test_an_id_that_is_used_again_becomes_one_of_ours_in_and_across_turns() -> None:
    same = Call("look", call_id="same")
    driver = drive(plans.agent_plan(LOOK), asks(same, same), asks(same), ANSWER, look=[Ends()] * 3)
    assert list(driver.state.calls) == ["same", "call_2", "call_3"]


def test_an_id_of_ours_gives_way_to_the_models_own() -> None:
    taken = Call("look", call_id="call_2")
    driver = drive(plans.agent_plan(LOOK), asks(taken, "look"), ANSWER, look=[Ends()] * 2)
    assert list(driver.state.calls) == ["call_2", "call_2_"]


# --- order -------------------------------------------------------------------------------------


def done(_: ToolAttempt) -> Ends:
    return Ends()


def waves(plan: Plan, *names: str) -> list[list[str]]:
    tools: dict[str, ToolScript] = {"look": done, "read": done, "send": done, "put": done}
    driver = Driver(Scenario(plan=plan, replies=[asks(*names), ANSWER], tools=tools))
    driver.run_to_end()
    commits = [[fact for fact in commit if isinstance(fact, ToolCallStarted)] for commit in driver.commits]
    return [[fact.tool for fact in commit] for commit in commits if commit]


def test_reads_run_together_and_everything_else_alone_and_in_order() -> None:
    plan = plans.agent_plan(LOOK, READ, SEND, PUT)
    assert waves(plan, "look", "read", "send", "put", "look", "send") == [
        ["look", "read"],
        ["send"],
        ["put"],
        ["look"],
        ["send"],
    ]


@pytest.mark.parametrize("together", [1, 2, 3])
def test_no_more_reads_run_together_than_may(together: int) -> None:
    plan = plans.agent_plan(LOOK, max_parallel=together)
    assert [len(wave) for wave in waves(plan, *["look"] * 6)] == [together] * (6 // together)


def test_results_are_facts_in_the_order_of_completion() -> None:
    ends = [Ends(output="slow", takes_ms=90), Ends(output="quick", takes_ms=10)]
    driver = drive(plans.agent_plan(LOOK), asks("look", "look"), ANSWER, look=ends)
    finished = [fact for fact in driver.facts if isinstance(fact, ToolCallFinished)]
    assert [fact.output_json for fact in finished] == ['"quick"', '"slow"']


@pytest.mark.parametrize("status", [CallStatus.FAILED, CallStatus.CANCELLED])
def test_one_failing_tool_ends_neither_its_siblings_nor_the_run(status: CallStatus) -> None:
    failed = Ends(status=status, error="no")
    driver = drive(plans.agent_plan(LOOK), asks("look", "look"), ANSWER, look=[failed, Ends()])
    assert [call.status for call in driver.state.calls.values()] == [status, CallStatus.COMPLETED]
    assert driver.finished.signal == "default"


# --- writing to the context --------------------------------------------------------------------


def test_a_tools_output_reaches_the_context_only_if_its_entry_says_so() -> None:
    output = Ends(output={"input": "overwritten?", "paid": 3})
    quiet = drive(plans.agent_plan(SEND), asks("send"), ANSWER, send=[output])
    assert "send_result" not in quiet.state.context
    plan = plans.agent_plan(SEND, tools=(plans.entry("send", writes_context=True),))
    loud = drive(plan, asks("send"), ANSWER, send=[output])
    assert loud.state.context["send_result"] == {"input": "overwritten?", "paid": 3}
    assert loud.state.context["input"] == {}


@pytest.mark.parametrize("status", [CallStatus.FAILED, CallStatus.CANCELLED])
def test_a_call_that_did_not_complete_writes_nothing(status: CallStatus) -> None:
    plan = plans.agent_plan(LOOK, tools=(plans.entry("look", writes_context=True),))
    driver = drive(plan, asks("look"), ANSWER, look=[Ends(status=status, error="no")])
    assert "look_result" not in driver.state.context
