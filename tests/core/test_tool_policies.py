"""What follows from a tool's failures, which calls run at the same time, and whose result is used again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort
from jackline_server.core.facts import (
    AbortMode,
    CallProblem,
    CallStatus,
    RunFinished,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
)
from jackline_server.core.plan import (
    Effect,
    OnFailure,
    OnUnknown,
    Plan,
    ToolEntry,
    ToolExecution,
    ToolPolicy,
    ToolStep,
)
from jackline_server.core.state import RunState
from jackline_server.core.steps import Wait
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario, drive

LOOK = plans.tool("look")
READ = plans.tool("read")
SEND = plans.tool("send", Effect.WRITE)
PUT = plans.tool("put", Effect.IDEMPOTENT)
ANSWER = Says(text='{"result": "done"}')
PASSES = Ends(status=CallStatus.FAILED, error="busy", may_pass=True)
STAYS = Ends(status=CallStatus.FAILED, error="broken")
RETRIES = ToolPolicy(retries=2, retry_base_ms=1_000, retry_cap_ms=1_500)


def asks(*calls: Call | str) -> Says:
    return Says(calls=tuple(Call(call) if isinstance(call, str) else call for call in calls))


def with_policy(policy: ToolPolicy, *steps: ToolStep) -> tuple[ToolEntry, ...]:
    return tuple(plans.entry(step.step_id, policy=policy) for step in steps)


def plan_with(policy: ToolPolicy, *steps: ToolStep) -> Plan:
    return plans.agent_plan(*steps, tools=with_policy(policy, *steps))


def statuses(driver: Driver) -> list[CallStatus]:
    return [call.status for call in driver.state.calls.values()]


def ends(driver: Driver) -> list[ToolCallFinished]:
    return [fact for fact in driver.facts if isinstance(fact, ToolCallFinished)]


def finished(driver: Driver) -> RunFinished:
    assert driver.state.finished is not None
    return driver.state.finished


# --- retries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [LOOK, PUT])
def test_a_failure_that_may_pass_is_tried_again_with_the_same_key(step: ToolStep) -> None:
    driver = drive(
        plan_with(RETRIES, step), asks(step.step_id), ANSWER, **{step.step_id: [PASSES, PASSES, Ends()]}
    )
    assert statuses(driver) == [CallStatus.COMPLETED]
    assert {attempt.started.call_key for attempt in driver.attempts} == {"run-1.1"}
    assert [attempt.started.attempt for attempt in driver.attempts] == [1, 2, 3]


def test_the_wait_doubles_under_its_cap() -> None:
    driver = drive(plan_with(RETRIES, LOOK), asks("look"), ANSWER, look=[PASSES, PASSES, Ends()])
    assert [end.retry_in_ms for end in ends(driver)] == [500, 750, None]


def test_what_a_tool_asks_for_is_waited_for_up_to_a_minute() -> None:
    busy = Ends(status=CallStatus.FAILED, may_pass=True, retry_after_ms=7_000)
    for_ever = Ends(status=CallStatus.FAILED, may_pass=True, retry_after_ms=10**9)
    driver = drive(plan_with(RETRIES, LOOK), asks("look"), ANSWER, look=[busy, for_ever, Ends()])
    assert [end.retry_in_ms for end in ends(driver)] == [7_000, 60_000, None]


def test_a_failure_that_stays_and_one_too_many_are_told_to_the_model() -> None:
    driver = drive(plan_with(RETRIES, LOOK), asks("look"), asks("look"), ANSWER, look=[STAYS, *[PASSES] * 3])
    assert statuses(driver) == [CallStatus.FAILED, CallStatus.FAILED]
    assert [end.retry_in_ms is None for end in ends(driver)] == [True, False, False, True]


def test_each_attempt_counts_and_none_is_offered_that_the_caps_leave_no_room_for() -> None:
    tight = plans.agent_plan(LOOK, tools=with_policy(RETRIES, LOOK), bounds=plans.step_bounds(tool_calls=2))
    driver = drive(tight, asks("look"), ANSWER, look=[PASSES, PASSES])
    assert statuses(driver) == [CallStatus.FAILED]
    capped = plans.agent_plan(LOOK, tools=(plans.entry("look", policy=RETRIES, max_calls=1),))
    assert len(drive(capped, asks("look"), ANSWER, look=[PASSES]).attempts) == 1


def test_no_attempt_is_offered_that_would_begin_after_the_deadline() -> None:
    late = plans.agent_plan(LOOK, tools=with_policy(RETRIES, LOOK), bounds=plans.step_bounds(timeout_ms=600))
    driver = drive(late, asks("look"), ANSWER, look=[PASSES])
    assert [end.retry_in_ms for end in ends(driver)] == [None]


def test_a_write_is_never_tried_again_whatever_its_failure_says() -> None:
    assert len(drive(plan_with(RETRIES, SEND), asks("send"), ANSWER, send=[PASSES]).attempts) == 1


def test_a_call_that_waits_holds_back_only_what_may_not_run_beside_it() -> None:
    driver = drive(
        plan_with(RETRIES, LOOK, READ, SEND),
        asks("look", "read", "send"),
        ANSWER,
        look=[PASSES, Ends()],
        read=[Ends()],
        send=[Ends()],
    )
    assert [attempt.step.step_id for attempt in driver.attempts] == ["look", "read", "look", "send"]


def test_a_tool_step_of_the_flow_is_tried_again_too() -> None:
    plan = plans.plan_of(plans.tool("look", policy=RETRIES))
    driver = drive(plan, look=[PASSES, Ends(output=1)])
    assert finished(driver).signal == "default"


@pytest.mark.parametrize("commit", range(3, 9))
def test_a_worker_that_dies_during_the_wait_changes_nothing_but_the_time(commit: int) -> None:
    scenario = Scenario(
        plan=plan_with(RETRIES, LOOK),
        replies=[asks("look"), asks("look"), ANSWER],
        tools={"look": lambda attempt: PASSES if attempt.started.attempt < 3 else Ends()},
        crash_after=frozenset({commit}),
    )
    driver = Driver(scenario)
    driver.run()
    assert all(call.attempts <= 3 for call in driver.state.calls.values())
    assert finished(driver).signal == "default"


def test_an_abort_during_the_wait_starts_no_further_attempt() -> None:
    driver = Driver(Scenario(plan=plan_with(RETRIES, LOOK), replies=[asks("look")], tools={"look": [PASSES]}))
    while not isinstance(driver.step(), Wait):
        pass
    driver.send(Abort(mode=AbortMode.NOW, skip_routes=False))
    driver.run()
    assert finished(driver).signal == "aborted"
    assert len(driver.attempts) == 1


# --- what follows from a failure ---------------------------------------------------------------

FAILS = ToolPolicy(on_error=OnFailure.FAIL)


def test_a_failing_tool_is_observed_unless_it_is_said_to_fail_the_step() -> None:
    observed = drive(plan_with(ToolPolicy(), LOOK), asks("look"), ANSWER, look=[STAYS])
    assert finished(observed).signal == "default"
    failed = drive(plan_with(FAILS, LOOK), asks("look"), look=[STAYS])
    assert (finished(failed).signal, finished(failed).stop_reason, finished(failed).stop_leaf) == (
        "error",
        StopReason.TOOL_ERROR,
        "look",
    )


def test_siblings_that_run_beside_the_failing_one_finish_and_the_others_never_start() -> None:
    driver = drive(
        plan_with(FAILS, LOOK, READ, SEND),
        asks("look", "read", "send"),
        look=[STAYS],
        read=[Ends(takes_ms=500)],
    )
    assert statuses(driver) == [CallStatus.FAILED, CallStatus.COMPLETED, CallStatus.DENIED]


def test_a_failure_counts_only_when_no_further_attempt_follows() -> None:
    policy = ToolPolicy(retries=1, retry_base_ms=10, retry_cap_ms=10, on_error=OnFailure.FAIL)
    assert (
        finished(drive(plan_with(policy, LOOK), asks("look"), ANSWER, look=[PASSES, Ends()])).signal
        == "default"
    )
    assert finished(drive(plan_with(policy, LOOK), asks("look"), look=[PASSES, PASSES])).signal == "error"


@pytest.mark.parametrize(
    ("policy", "signal"),
    [
        (ToolPolicy(on_timeout=OnFailure.FAIL), "error"),
        (ToolPolicy(on_error=OnFailure.FAIL), "default"),
        (ToolPolicy(), "default"),
    ],
)
def test_a_time_that_is_over_follows_its_own_rule(policy: ToolPolicy, signal: str) -> None:
    slow = Ends(status=CallStatus.FAILED, timed_out=True)
    replies = (asks("look"), ANSWER) if signal == "default" else (asks("look"),)
    assert finished(drive(plan_with(policy, LOOK), *replies, look=[slow])).signal == signal


def test_a_call_that_could_not_start_is_no_failure_of_the_tool() -> None:
    driver = drive(plan_with(FAILS, LOOK), asks(Call("look", "[")), asks("nothing"), ANSWER)
    assert finished(driver).signal == "default"


# --- calls that can't start --------------------------------------------------------------------


@pytest.mark.parametrize("bad", [Call("look", "["), Call("look", '{"_x":1}'), Call("nothing")])
@pytest.mark.parametrize("most", [0, 1, 3])
def test_so_many_calls_in_a_row_that_can_not_start_are_told_and_one_more_ends_the_step(
    bad: Call, most: int
) -> None:
    plan = plans.agent_plan(LOOK, invalid_args=most)
    driver = drive(plan, *[asks(bad)] * (most + 1))
    assert (finished(driver).signal, finished(driver).stop_leaf) == ("error", "step.invalid_args")
    told = drive(plan, *[asks(bad)] * most, ANSWER)
    assert finished(told).signal == "default"


def test_a_call_that_runs_lets_the_count_begin_anew() -> None:
    plan = plans.agent_plan(LOOK, invalid_args=1, bounds=plans.step_bounds(max_iterations=20))
    bad, good = asks("nothing"), asks("look")
    driver = drive(plan, bad, good, bad, good, bad, bad, look=[Ends(), Ends()])
    assert finished(driver).stop_leaf == "step.invalid_args"


def test_a_plan_of_before_there_was_a_count_has_no_end_to_them() -> None:
    plan = plans.agent_plan(LOOK, bounds=plans.step_bounds(max_iterations=50, model_requests=50))
    driver = drive(plan, *[asks("nothing")] * 40, ANSWER)
    assert finished(driver).signal == "default"


# --- what runs at the same time ----------------------------------------------------------------


def waves(driver: Driver) -> list[list[str]]:
    """The tools that were announced together."""
    started: Iterable[Sequence[str]] = (
        [fact.tool for fact in commit if isinstance(fact, ToolCallStarted)] for commit in driver.commits
    )
    return [list(names) for names in started if names]


@pytest.mark.parametrize(
    ("execution", "expected"),
    [
        (ToolExecution.BY_EFFECT, [["look", "read"], ["send"], ["put"], ["look"]]),
        (ToolExecution.SEQUENTIAL, [["look"], ["read"], ["send"], ["put"], ["look"]]),
        (ToolExecution.CONCURRENT, [["look", "read", "send", "put", "look"]]),
    ],
)
def test_what_runs_at_the_same_time(execution: ToolExecution, expected: list[list[str]]) -> None:
    plan = plans.agent_plan(LOOK, READ, SEND, PUT, tool_execution=execution)
    driver = drive(
        plan,
        asks("look", "read", "send", "put", "look"),
        ANSWER,
        look=[Ends(), Ends()],
        read=[Ends()],
        send=[Ends()],
        put=[Ends()],
    )
    assert waves(driver) == expected


def test_no_more_run_at_once_than_the_step_allows() -> None:
    plan = plans.agent_plan(SEND, tool_execution=ToolExecution.CONCURRENT, max_parallel=2)
    driver = drive(plan, asks(*["send"] * 5), ANSWER, send=[Ends()] * 5)
    assert [len(wave) for wave in waves(driver)] == [2, 2, 1]


def test_calls_of_one_serial_group_never_run_together() -> None:
    grouped = ToolPolicy(serial_group="desk")
    plan = plans.agent_plan(
        LOOK,
        READ,
        PUT,
        tools=(*with_policy(grouped, LOOK, READ), plans.entry("put")),
        tool_execution=ToolExecution.CONCURRENT,
    )
    driver = drive(
        plan, asks("look", "read", "put", "look"), ANSWER, look=[Ends(), Ends()], read=[Ends()], put=[Ends()]
    )
    assert waves(driver) == [["look", "put"], ["read"], ["look"]]


# --- results that are used again ---------------------------------------------------------------

REUSE = ToolPolicy(reuse=True)


def reused(state: RunState) -> list[str]:
    return [call.reused_from for call in state.calls.values()]


def test_an_equal_call_gets_the_earlier_result_and_costs_no_attempt() -> None:
    same = (Call("look", '{"a":1,"b":[2]}', "first"), Call("look", ' {"b" : [2], "a":1}'))
    plan = plans.agent_plan(LOOK, tools=with_policy(REUSE, LOOK), bounds=plans.step_bounds(tool_calls=1))
    driver = drive(plan, asks(same[0]), asks(same[1]), ANSWER, look=[Ends(output={"found": 1})])
    assert len(driver.attempts) == 1
    assert reused(driver.state) == ["", "first"]
    assert [call.output_json for call in driver.state.calls.values()] == ['{"found":1}'] * 2


def test_equal_calls_of_one_turn_wait_for_the_first() -> None:
    plan = plans.agent_plan(SEND, tools=with_policy(REUSE, SEND), tool_execution=ToolExecution.CONCURRENT)
    driver = drive(plan, asks("send", "send", Call("send", '{"n":1}')), ANSWER, send=[Ends(), Ends()])
    assert waves(driver) == [["send", "send"]]
    assert [bool(origin) for origin in reused(driver.state)] == [False, True, False]


def test_a_call_that_costs_no_attempt_is_held_to_no_cap() -> None:
    once = plans.entry("send", policy=REUSE, max_calls=1)
    driver = drive(
        plans.agent_plan(SEND, tools=(once,)), asks("send", "send"), asks("send"), ANSWER, send=[Ends()]
    )
    assert statuses(driver) == [CallStatus.COMPLETED] * 3


def test_an_equal_call_is_made_if_the_first_one_fails_and_the_cap_allows_it() -> None:
    driver = drive(plan_with(REUSE, LOOK), asks("look", "look"), ANSWER, look=[STAYS, Ends()])
    assert statuses(driver) == [CallStatus.FAILED, CallStatus.COMPLETED]


@pytest.mark.parametrize("on_unknown", [OnUnknown.FAIL, OnUnknown.RETRY])
def test_a_write_that_may_have_taken_effect_is_not_begun_anew_by_its_twin(on_unknown: OnUnknown) -> None:
    once = replace(SEND, on_unknown=on_unknown)
    attempts = 1 if on_unknown is OnUnknown.FAIL else 3
    lost = Ends(status=CallStatus.UNKNOWN, error="the connection was cut")
    driver = drive(plan_with(REUSE, once), asks("send", "send"), ANSWER, send=[lost] * attempts)
    assert statuses(driver) == [CallStatus.UNKNOWN, CallStatus.DENIED]
    assert [call.attempts for call in driver.state.calls.values()] == [attempts, 0]
    assert [call.problem for call in driver.state.calls.values()] == [None, CallProblem.TWIN_UNKNOWN]


def test_a_later_turn_may_ask_for_such_a_write_again() -> None:
    lost = Ends(status=CallStatus.UNKNOWN, error="the connection was cut")
    plan = plan_with(REUSE, replace(SEND, on_unknown=OnUnknown.FAIL))
    driver = drive(plan, asks("send"), asks("send"), ANSWER, send=[lost, Ends()])
    assert statuses(driver) == [CallStatus.UNKNOWN, CallStatus.COMPLETED]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Call("look", '{"n":1}'), Call("look", '{"n":1.0}')),
        (Call("look", '{"n":1}'), Call("look", '{"n":true}')),
        (Call("look", '{"n":1}'), Call("look", '{"n":"1"}')),
        (Call("look", "{}"), Call("look", '{"n":null}')),
        (Call("look", "{}"), Call("read", "{}")),
    ],
)
def test_calls_that_differ_in_anything_share_nothing(first: Call, second: Call) -> None:
    plan = plan_with(REUSE, LOOK, READ)
    driver = drive(plan, asks(first), asks(second), ANSWER, look=lambda _: Ends(), read=lambda _: Ends())
    assert reused(driver.state) == ["", ""]


def test_what_the_workflow_gives_a_call_is_part_of_it() -> None:
    writer = plans.tool("writer", Effect.IDEMPOTENT, output_key="shop")
    bound = plans.entry("look", bind={"shop": "/shop"}, policy=REUSE)
    plan = plans.agent_plan(LOOK, writer, tools=(bound, plans.entry("writer", writes_context=True)))
    driver = drive(
        plan,
        asks("look"),
        asks("writer"),
        asks("look"),
        asks("look"),
        ANSWER,
        look=[Ends(output=1), Ends(output=2)],
        writer=[Ends(output="s2")],
    )
    outputs = [call.output_json for call in driver.state.calls.values() if call.tool == "look"]
    assert outputs == ["1", "2", "2"]


def test_a_call_that_failed_is_asked_again() -> None:
    driver = drive(plan_with(REUSE, LOOK), asks("look"), asks("look"), ANSWER, look=[STAYS, Ends()])
    assert statuses(driver) == [CallStatus.FAILED, CallStatus.COMPLETED]


def test_without_the_word_every_call_is_made() -> None:
    driver = drive(plan_with(ToolPolicy(), LOOK), asks("look"), asks("look"), ANSWER, look=[Ends(), Ends()])
    assert len(driver.attempts) == 2


def test_a_call_that_can_not_start_gets_no_earlier_result() -> None:
    plan = plans.agent_plan(LOOK, tools=with_policy(REUSE, LOOK), allow_effects=frozenset())
    driver = drive(plan, asks("look"), ANSWER)
    assert [end.problem for end in ends(driver)] == [CallProblem.NOT_ALLOWED]
