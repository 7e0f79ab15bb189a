"""Writes whose outcome nobody knows: never repeated without leave, asked about, answered once. Proves S2."""

import json
from dataclasses import replace

import pytest

from jackline_server.core.commands import Action, Answer, SubmitToolResult
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    CommandApplied,
    CommandRejected,
    InterruptRaised,
    InterruptResolved,
    Phase,
    Rejection,
    StopReason,
    TimerFired,
    ToolCallStarted,
)
from jackline_server.core.folding.evolve_calls import MOST_ATTEMPTS
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect, OnQuestion, OnUnknown, Plan
from jackline_server.core.reading.timing import wake_unix_ms
from jackline_server.core.steps import Wait
from jackline_server.testing import plans
from jackline_server.testing.driving import STARTED_UNIX_MS, Call, Driver, Ends, Reply, Says, Scenario, drive

SEND = plans.tool("send", Effect.WRITE, unknown_expiry_ms=1_000)
PUT = plans.tool("put", Effect.IDEMPOTENT)
LOST = Ends(status=CallStatus.UNKNOWN, error="the connection was cut")
SENDS = Says(calls=(Call("send"),))
ANSWER = Says(text="done")


def asking(plan: Plan | None = None, *more: Reply, ends: tuple[Ends, ...] = (LOST,)) -> Driver:
    """A run that waits for an answer about its one write."""
    scenario = Scenario(
        plan=plan or plans.agent_plan(SEND), replies=[SENDS, *(more or (ANSWER,))], tools={"send": list(ends)}
    )
    return Driver(scenario).run()


def question(driver: Driver) -> InterruptRaised:
    (raised,) = [fact for fact in driver.facts if isinstance(fact, InterruptRaised)]
    return raised


def rejections(driver: Driver) -> list[Rejection]:
    return [fact.rejection for fact in driver.facts if isinstance(fact, CommandRejected)]


def told(driver: Driver) -> ToolMessage:
    result = driver.model_calls[-1].messages[-1]
    assert isinstance(result, ToolMessage)
    return result


def test_what_was_said_of_a_cut_call_ends_in_one_stop() -> None:
    late = Ends(status=CallStatus.UNKNOWN, error="The server did not answer in time.")
    asked = question(asking(ends=(late,))).question
    assert asked.endswith("did not answer in time.")
    assert ".." not in asked


# --- asking ------------------------------------------------------------------------------------


def test_a_write_of_unknown_outcome_opens_a_question_and_the_run_waits() -> None:
    driver = asking()
    raised = question(driver)
    assert driver.state.phase is Phase.WAITING
    assert raised.options == ("succeeded", "failed", "retry")
    assert raised.expires_unix_ms == driver.unix_ms + 1_000
    assert driver.step() == Wait(until_active_ms=None)


def test_the_answer_succeeded_completes_the_call_and_the_run_goes_on() -> None:
    driver = asking()
    driver.send(
        Answer(interrupt_id=question(driver).interrupt_id, option="succeeded", text="seen in the books")
    )
    driver.run_to_end()
    assert not told(driver).is_error
    assert json.loads(told(driver).text)["note"] == "seen in the books"
    assert len(driver.attempts) == 1


def test_the_answer_failed_fails_the_call_and_the_run_goes_on() -> None:
    driver = asking()
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="failed", text=""))
    driver.run_to_end()
    assert told(driver).is_error
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.FAILED]


def test_the_answer_retry_makes_the_call_once_more_with_the_same_key() -> None:
    driver = asking(ends=(LOST, Ends(output="sent")))
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="retry", text=""))
    driver.run_to_end()
    assert [attempt.started.call_key for attempt in driver.attempts] == ["run-1.1", "run-1.1"]
    assert told(driver).text == '"sent"'


def test_each_unknown_attempt_opens_a_question_of_its_own() -> None:
    driver = asking(ends=(LOST, LOST))
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="retry", text=""))
    driver.run()
    ids = [fact.interrupt_id for fact in driver.facts if isinstance(fact, InterruptRaised)]
    assert len(set(ids)) == 2
    assert driver.state.phase is Phase.WAITING


def test_retry_is_not_offered_where_no_attempt_is_left() -> None:
    bounds = plans.step_bounds(tool_calls=1)
    assert question(asking(plans.agent_plan(SEND, bounds=bounds))).options == ("succeeded", "failed")
    entry = plans.entry("send", max_calls=1)
    assert question(asking(plans.agent_plan(SEND, tools=(entry,)))).options == ("succeeded", "failed")


def test_an_answer_that_allows_a_repeat_still_keeps_to_the_bounds() -> None:
    plan = plans.agent_plan(SEND, bounds=plans.step_bounds(tool_calls=3))
    twice = Says(calls=(Call("send"), Call("send")))
    driver = Driver(Scenario(plan=plan, replies=[twice, ANSWER], tools={"send": [LOST] * 3})).run()
    for _ in range(2):
        for interrupt_id in tuple(driver.state.oversight.interrupts):
            driver.send(Answer(interrupt_id=interrupt_id, option="retry", text=""))
        driver.run()
    assert driver.state.ledger.tool_calls == 3


def test_a_tool_may_say_for_itself_what_a_call_returned() -> None:
    driver = asking()
    driver.send(SubmitToolResult(call_id=question(driver).call_id, output_json='{"id":9}', error=""))
    driver.run_to_end()
    assert told(driver).text == '{"id":9}'


def test_a_tool_may_say_for_itself_that_a_call_failed() -> None:
    driver = asking()
    driver.send(SubmitToolResult(call_id=question(driver).call_id, output_json=None, error="refused"))
    driver.run_to_end()
    assert "refused" in told(driver).text


def test_a_confirmed_write_reaches_the_context_if_its_entry_says_so() -> None:
    plan = plans.agent_plan(SEND, tools=(plans.entry("send", writes_context=True),))
    driver = asking(plan)
    driver.send(SubmitToolResult(call_id=question(driver).call_id, output_json='{"id":9}', error=""))
    assert driver.run_to_end().state.context["send_result"] == {"id": 9}


# --- answers that can't be taken ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "rejection"),
    [
        (Answer(interrupt_id="unknown-9-9", option="failed", text=""), Rejection.INTERRUPT_NOT_FOUND),
        (Answer(interrupt_id="unknown-1-1", option="maybe", text=""), Rejection.UNKNOWN_OPTION),
        (Answer(interrupt_id="unknown-1-1", option="", text=""), Rejection.UNKNOWN_OPTION),
        (SubmitToolResult(call_id="call_9", output_json="1", error=""), Rejection.CALL_NOT_FOUND),
    ],
)
def test_an_answer_that_fits_no_question_is_rejected_and_the_question_stays(
    action: Action, rejection: Rejection
) -> None:
    driver = asking()
    driver.send(action)
    driver.run()
    assert rejections(driver) == [rejection]
    assert driver.state.phase is Phase.WAITING


def test_a_question_is_answered_once() -> None:
    driver = asking()
    interrupt_id = question(driver).interrupt_id
    driver.send(Answer(interrupt_id=interrupt_id, option="failed", text=""))
    driver.send(Answer(interrupt_id=interrupt_id, option="succeeded", text=""))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.ALREADY_DECIDED]


def test_a_result_for_a_call_that_is_not_in_question_is_rejected() -> None:
    driver = asking()
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="failed", text=""))
    driver.send(SubmitToolResult(call_id=question(driver).call_id, output_json="1", error=""))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.CALL_NOT_OPEN]


# --- expiry ------------------------------------------------------------------------------------


def test_a_question_that_nobody_answers_in_time_ends_the_run_for_review() -> None:
    driver = asking()
    assert wake_unix_ms(driver.state) == question(driver).expires_unix_ms
    driver.pass_time(unix_ms=999)
    assert driver.state.phase is Phase.WAITING
    driver.pass_time(unix_ms=1)
    driver.run()
    end = driver.finished
    assert (end.signal, end.stop_reason, end.phase) == (
        "needs_review",
        StopReason.UNKNOWN_OUTCOME,
        Phase.NEEDS_REVIEW,
    )
    resolved = [fact for fact in driver.facts if isinstance(fact, InterruptResolved | TimerFired)]
    assert len(resolved) == 2


def test_an_answer_after_the_expiry_is_rejected_as_expired() -> None:
    driver = asking()
    driver.pass_time(unix_ms=1_000)
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="failed", text=""))
    driver.run()
    assert rejections(driver) == [Rejection.INTERRUPT_EXPIRED]


# --- the other policies ------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["plan", "start"])
def test_a_run_that_nobody_attends_ends_for_review_at_once(where: str) -> None:
    plan = plans.agent_plan(SEND)
    plan = replace(plan, on_question=OnQuestion.REVIEW) if where == "plan" else plan
    started = plans.started(plan, on_question=OnQuestion.REVIEW)
    driver = Driver(Scenario(plan=plan, started=started, replies=[SENDS], tools={"send": [LOST]}))
    assert driver.run_to_end().finished.signal == "needs_review"


def test_with_fail_the_model_is_told_that_nobody_knows_and_nothing_is_repeated() -> None:
    plan = plans.agent_plan(replace(SEND, on_unknown=OnUnknown.FAIL))
    driver = drive(plan, SENDS, ANSWER, send=[LOST])
    assert told(driver).is_error
    assert "not known" in told(driver).text
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.UNKNOWN]


def test_with_retry_the_call_is_made_again_with_its_key() -> None:
    plan = plans.agent_plan(replace(SEND, on_unknown=OnUnknown.RETRY))
    driver = drive(plan, SENDS, ANSWER, send=[LOST, Ends(output="sent")])
    assert {attempt.started.call_key for attempt in driver.attempts} == {"run-1.1"}
    assert told(driver).text == '"sent"'


def test_with_retry_a_call_that_stays_unknown_is_let_go() -> None:
    retrying = replace(SEND, on_unknown=OnUnknown.RETRY)
    driver = drive(plans.agent_plan(retrying), SENDS, ANSWER, send=[LOST] * MOST_ATTEMPTS)
    assert "not known" in told(driver).text
    flow = drive(plans.plan_of(retrying), send=[LOST] * MOST_ATTEMPTS)
    assert (flow.finished.signal, flow.finished.stop_reason) == ("error", StopReason.TOOL_ERROR)


# --- crashes -----------------------------------------------------------------------------------


def crashed(plan: Plan, replies: list[Reply], ends: dict[str, list[Ends]]) -> Driver:
    """The worker goes away right after the first tool attempt was announced."""
    probe = Driver(Scenario(plan=plan, replies=replies, tools={name: lambda _: Ends() for name in ends}))
    probe.run(until=lambda driver: any(isinstance(fact, ToolCallStarted) for fact in driver.facts))
    commit = 1 + next(
        place
        for place, facts in enumerate(probe.commits)
        if any(isinstance(fact, ToolCallStarted) for fact in facts)
    )
    return Driver(Scenario(plan=plan, replies=replies, tools=ends, crash_after={commit})).run()


def test_a_write_in_flight_when_the_worker_died_is_unknown_and_not_started_again() -> None:
    driver = crashed(plans.agent_plan(SEND), [SENDS, ANSWER], {"send": []})
    assert driver.state.phase is Phase.WAITING
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="succeeded", text=""))
    driver.run_to_end()
    assert sum(isinstance(fact, ToolCallStarted) for fact in driver.facts) == 1


def test_an_idempotent_call_in_flight_is_made_again_with_the_same_key() -> None:
    driver = crashed(plans.agent_plan(PUT), [Says(calls=(Call("put"),)), ANSWER], {"put": [Ends(output=1)]})
    driver.run_to_end()
    keys = [fact.call_key for fact in driver.facts if isinstance(fact, ToolCallStarted)]
    assert keys == ["run-1.1", "run-1.1"]


def test_a_cut_off_call_that_the_bounds_no_longer_allow_is_settled_without_a_claim() -> None:
    plan = plans.agent_plan(PUT, bounds=plans.step_bounds(tool_calls=1))
    driver = crashed(plan, [Says(calls=(Call("put"),)), ANSWER], {"put": []})
    driver.run_to_end()
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.UNKNOWN, CallProblem.OVER_LIMIT)
    assert driver.finished.signal == "default"


def test_an_answer_is_applied_and_named_in_one_commit() -> None:
    driver = asking()
    command = driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="failed", text=""))
    driver.run_to_end()
    applied = next(fact for fact in driver.facts if isinstance(fact, CommandApplied))
    assert applied.command_id == command.command_id
    commit = next(facts for facts in driver.commits if applied in facts)
    assert any(isinstance(fact, InterruptResolved) for fact in commit)


def test_the_clock_of_an_expiry_is_the_wall_clock_alone() -> None:
    driver = asking()
    assert driver.active_ms < 1_000
    assert driver.unix_ms == STARTED_UNIX_MS + driver.active_ms


# --- what the workflow gave --------------------------------------------------------------------


def bound_plan() -> Plan:
    return plans.agent_plan(SEND, tools=(plans.entry("send", bind={"folder": "/input/folder"}),))


def asked_with(plan: Plan, input_json: str) -> Driver:
    scenario = Scenario(
        plan=plan,
        replies=[SENDS, ANSWER],
        tools={"send": [LOST]},
        started=plans.started(plan, input_json=input_json),
    )
    return Driver(scenario).run()


def test_the_question_says_what_the_workflow_gave_the_call() -> None:
    raised = question(asked_with(bound_plan(), '{"folder":"harbour/7"}'))
    assert "harbour/7" in raised.question
    assert "gave" not in question(asking()).question


def test_a_large_value_is_cut_in_the_question() -> None:
    raised = question(asked_with(bound_plan(), json.dumps({"folder": "x" * 9_000})))
    assert 100 < len(raised.question) < 500


def test_the_registry_keeps_what_a_call_was_given() -> None:
    driver = asked_with(bound_plan(), '{"folder":"harbour/7"}')
    driver.send(Answer(interrupt_id=question(driver).interrupt_id, option="succeeded", text=""))
    driver.run_to_end()
    (call,) = driver.state.calls.values()
    assert call.bound == {"folder": "harbour/7"} == driver.attempts[0].bound
