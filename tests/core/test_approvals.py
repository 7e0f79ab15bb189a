"""Calls that may start only if somebody lets them: bound to what was shown, good for one, decided in time."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest

from jackline_server.core import json_text
from jackline_server.core.approval_plans import ApprovalPlan, OnExpiry
from jackline_server.core.commands import (
    Abort,
    Action,
    Answer,
    Approve,
    EditAndApprove,
    Pause,
    Reject,
    Resume,
)
from jackline_server.core.facts import (
    AbortMode,
    CallProblem,
    CallStatus,
    CommandRejected,
    ForkOrigin,
    InterruptKind,
    InterruptRaised,
    NoticeCode,
    Noticed,
    Phase,
    Rejection,
    StopReason,
    ToolCallStarted,
)
from jackline_server.core.messages import AssistantMessage, ToolMessage
from jackline_server.core.plan import END, Effect, JsonValue, OnQuestion, Plan, ToolExecution
from jackline_server.core.reading.timing import wake_unix_ms
from jackline_server.core.reading.transcript import EDITED
from jackline_server.core.state import Interrupt
from jackline_server.core.steps import ToolAttempt, Wait
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario, ToolScript

SCHEMA = '{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}'
PAY = plans.tool("pay", Effect.DESTRUCTIVE, input={})
LOOK = plans.tool("look", input={})
SEVEN = Call("pay", '{"sum":7}')


def ended(attempt: ToolAttempt) -> Ends:
    return Ends(output="paid" if attempt.step.step_id == "pay" else "seen")


ENDS: Mapping[str, ToolScript] = {"pay": ended, "look": ended}


def paying(approval: ApprovalPlan | None = None, bind: Mapping[str, str] | None = None) -> Plan:
    """An agent that pays, which somebody has to let it, and looks."""
    entry = plans.entry(
        "pay", parameters_json=SCHEMA, approval=approval or plans.approval(), bind=dict(bind or {})
    )
    step = plans.agent(tools=(entry, plans.entry("look")), invalid_args=3)
    return plans.plan_of(step, PAY, LOOK)


def driven(plan: Plan, *calls: Call, said: int = 1, **started: JsonValue) -> Driver:
    """A run whose model asks for these calls, so often, up to the first question."""
    replies = [*[Says(calls=calls)] * said, Says(text="done")]
    first = plans.started(plan, input_json=json_text.write(started.get("input", {})))
    return Driver(Scenario(plan=plan, replies=replies, tools=ENDS, started=first)).run()


def asked(driver: Driver) -> Interrupt:
    """The first open question."""
    return next(iter(driver.state.oversight.interrupts.values()))


def raised(driver: Driver) -> list[InterruptRaised]:
    return [fact for fact in driver.facts if isinstance(fact, InterruptRaised)]


def begun(driver: Driver) -> list[str]:
    return [fact.tool for fact in driver.facts if isinstance(fact, ToolCallStarted)]


def approve(driver: Driver) -> None:
    driver.send(Approve(interrupt_id=asked(driver).interrupt_id, digest=asked(driver).digest))


def edit(driver: Driver, arguments_json: str) -> None:
    question = asked(driver)
    driver.send(
        EditAndApprove(
            interrupt_id=question.interrupt_id, digest=question.digest, arguments_json=arguments_json
        )
    )


def expire(driver: Driver) -> None:
    driver.pass_time(unix_ms=(wake_unix_ms(driver.state) or 0) - driver.unix_ms)


def rejection(driver: Driver, action: Action) -> Rejection | None:
    """Why the next boundary does not take a command; None if it does."""
    sent = driver.send(action)
    driver.step()
    found = [fact for fact in driver.facts if isinstance(fact, CommandRejected)]
    return next((fact.rejection for fact in found if fact.command_id == sent.command_id), None)


def told(driver: Driver) -> list[str]:
    return [one.text for one in driver.model_calls[-1].messages if isinstance(one, ToolMessage)]


# --- asking ------------------------------------------------------------------------------------


def test_a_call_that_has_to_be_approved_waits_and_shows_the_bytes_that_are_decided_about() -> None:
    driver = driven(paying(bind={"shop": "/input/shop"}), SEVEN, input={"shop": "north"})
    (question,) = raised(driver)
    assert (question.kind, question.options) == (
        InterruptKind.APPROVAL,
        ("approve", "edit_and_approve", "reject"),
    )
    assert question.arguments_json == '{"sum":7,"shop":"north"}'
    assert question.digest == hashlib.sha256(question.arguments_json.encode()).hexdigest()
    assert (question.expires_unix_ms, question.on_expiry) == (
        driver.unix_ms + plans.DAY_MS,
        OnExpiry.REJECT,
    )
    assert (driver.state.phase, begun(driver)) == (Phase.WAITING, [])
    assert driver.step() == Wait(until_active_ms=None)


def test_an_approved_call_is_made_with_what_was_shown() -> None:
    driver = driven(paying(bind={"shop": "/input/shop"}), SEVEN, input={"shop": "north"})
    shown = raised(driver)[0].arguments_json
    approve(driver)
    driver.run_to_end()
    (attempt,) = driver.attempts
    assert json_text.write({**attempt.arguments, **attempt.bound}) == shown
    assert driver.replayed() == driver.state


def test_one_approval_is_for_one_call() -> None:
    driver = driven(paying(), SEVEN, said=2)
    approve(driver)
    driver.run()
    assert (len(raised(driver)), begun(driver)) == (2, ["pay"])
    assert len({question.interrupt_id for question in raised(driver)}) == 2


def test_further_attempts_at_an_approved_call_ask_nobody() -> None:
    plan = paying()
    tools = {"pay": [Ends(status=CallStatus.UNKNOWN, error="cut off"), Ends(output="paid")]}
    replies = [Says(calls=(SEVEN,)), Says(text="done")]
    driver = Driver(Scenario(plan=plan, replies=replies, tools=tools)).run()
    approve(driver)
    driver.run()
    driver.send(Answer(interrupt_id=asked(driver).interrupt_id, option="retry", text=""))
    driver.run_to_end()
    assert begun(driver) == ["pay", "pay"]
    assert [one.kind for one in raised(driver)].count(InterruptKind.APPROVAL) == 1


def test_calls_beside_it_that_need_no_approval_go_first_where_all_run_together() -> None:
    plan = paying()
    step = replace(plan.step(plans.AGENT), tool_execution=ToolExecution.CONCURRENT)
    driver = driven(replace(plan, steps={**plan.steps, plans.AGENT: step}), SEVEN, Call("look"), SEVEN)
    assert (begun(driver), len(raised(driver))) == (["look"], 2)
    approve(driver)
    driver.run()
    assert begun(driver) == ["look"]
    approve(driver)
    driver.run_to_end()
    assert begun(driver) == ["look", "pay", "pay"]


def test_calls_after_it_wait_for_it_where_each_runs_alone() -> None:
    driver = driven(paying(), Call("look"), SEVEN, Call("look"))
    assert (begun(driver), driver.state.phase) == (["look"], Phase.WAITING)
    approve(driver)
    driver.run_to_end()
    assert begun(driver) == ["look", "pay", "look"]


@pytest.mark.parametrize(("sum_", "asks"), [(7, 0), (70, 1)])
def test_a_condition_says_which_calls_wait(sum_: int, asks: int) -> None:
    plan = paying(plans.approval("arguments.sum > 50"))
    driver = driven(plan, Call("pay", f'{{"sum":{sum_}}}'))
    assert len(raised(driver)) == asks


def test_a_condition_without_a_value_asks_and_says_so() -> None:
    driver = driven(paying(plans.approval("arguments.nothing > 50")), SEVEN)
    notices = [fact for fact in driver.facts if isinstance(fact, Noticed)]
    assert [one.code for one in notices] == [NoticeCode.CONDITION_FAILED]
    assert (driver.state.phase, begun(driver)) == (Phase.WAITING, [])


def test_where_nobody_is_there_the_run_ends_for_review_before_the_call() -> None:
    plan = replace(paying(), on_question=OnQuestion.REVIEW)
    driver = driven(plan, SEVEN)
    assert (driver.finished.stop_reason, driver.finished.stop_leaf) == (StopReason.REVIEW, "pay")
    assert (begun(driver), raised(driver)) == ([], [])


# --- deciding ----------------------------------------------------------------------------------


def test_a_refused_call_is_told_to_the_model_with_the_reason_and_the_run_goes_on() -> None:
    driver = driven(paying(), SEVEN)
    driver.send(Reject(interrupt_id=asked(driver).interrupt_id, text="too much"))
    driver.run_to_end()
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.NOT_APPROVED)
    assert told(driver) == ["Error: a person did not approve this call: too much"]
    assert (begun(driver), driver.finished.phase) == ([], Phase.SUCCEEDED)
    assert driver.replayed() == driver.state


def test_edited_arguments_are_what_the_call_is_made_with_and_the_model_is_told() -> None:
    driver = driven(paying(), SEVEN)
    edit(driver, '{"sum":5}')
    driver.run_to_end()
    (attempt,) = driver.attempts
    assert attempt.arguments == {"sum": 5}
    said = [one for one in driver.model_calls[-1].messages if isinstance(one, AssistantMessage)]
    assert [call.arguments for call in said[-1].calls] == ['{"sum":5}']
    assert told(driver) == [f'{EDITED}\n"paid"']
    assert driver.replayed() == driver.state


def test_what_the_workflow_gives_may_stand_in_an_edit_as_it_was_and_no_other_way() -> None:
    driver = driven(paying(bind={"shop": "/input/shop"}), SEVEN, input={"shop": "north"})
    question = asked(driver)
    changed = EditAndApprove(
        interrupt_id=question.interrupt_id, digest=question.digest, arguments_json='{"sum":5,"shop":"south"}'
    )
    assert rejection(driver, changed) is Rejection.INVALID_ANSWER
    edit(driver, '{"sum":5,"shop":"north"}')
    driver.run_to_end()
    (attempt,) = driver.attempts
    assert (attempt.arguments, attempt.bound) == ({"sum": 5}, {"shop": "north"})


def test_an_edit_brings_nothing_into_a_call_that_was_not_shown() -> None:
    plan = paying()
    pay = plans.tool("pay", Effect.DESTRUCTIVE, input={"shop": "/input/shop"})
    call = Call("pay", '{"sum":7,"shop":"written"}')
    driver = driven(replace(plan, steps={**plan.steps, "pay": pay}), call, input={"shop": "of the context"})
    question = asked(driver)
    assert question.arguments_json == '{"shop":"written","sum":7}'
    driver.send(
        EditAndApprove(interrupt_id=question.interrupt_id, digest=question.digest, arguments_json='{"sum":5}')
    )
    driver.run()
    (rejected,) = [fact for fact in driver.facts if isinstance(fact, CommandRejected)]
    assert (rejected.rejection, begun(driver)) == (Rejection.INVALID_ANSWER, [])


def test_an_edit_that_does_not_fit_the_schema_never_reaches_the_tool() -> None:
    driver = driven(paying(), SEVEN)
    edit(driver, '{"sum":"all"}')
    driver.run_to_end()
    (call,) = driver.state.calls.values()
    assert (begun(driver), call.problem) == ([], CallProblem.INVALID_ARGUMENTS)


def test_an_approval_of_other_bytes_is_not_taken() -> None:
    driver = driven(paying(), SEVEN)
    stale = Approve(interrupt_id=asked(driver).interrupt_id, digest="0" * 64)
    assert rejection(driver, stale) is Rejection.ARGUMENTS_CHANGED
    assert (driver.state.phase, begun(driver)) == (Phase.WAITING, [])


def test_a_decision_is_taken_once() -> None:
    driver = driven(paying(), SEVEN)
    question = asked(driver)
    approve(driver)
    late = Reject(interrupt_id=question.interrupt_id, text="")
    driver.send(late)
    driver.run_to_end()
    rejected = [fact.rejection for fact in driver.facts if isinstance(fact, CommandRejected)]
    assert rejected == [Rejection.ALREADY_DECIDED]


def test_an_answer_is_no_approval_and_an_approval_no_answer() -> None:
    driver = driven(paying(), SEVEN)
    answer = Answer(interrupt_id=asked(driver).interrupt_id, option="approve", text="")
    assert rejection(driver, answer) is Rejection.WRONG_INTERRUPT_KIND
    tools = {"pay": [Ends(status=CallStatus.UNKNOWN, error="cut off")]}
    lost = Driver(Scenario(plan=paying(), replies=[Says(calls=(SEVEN,))], tools=tools)).run()
    approve(lost)
    lost.run()
    late = Reject(interrupt_id=asked(lost).interrupt_id, text="")
    assert rejection(lost, late) is Rejection.WRONG_INTERRUPT_KIND


# --- in time -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("then", "made", "reason"),
    [
        (OnExpiry.REJECT, [], StopReason.DEFAULT),
        (OnExpiry.APPROVE, ["pay"], StopReason.DEFAULT),
        (OnExpiry.NEEDS_REVIEW, [], StopReason.REVIEW),
    ],
)
def test_what_follows_where_nobody_decides_in_time(
    then: OnExpiry, made: list[str], reason: StopReason
) -> None:
    driver = driven(paying(plans.approval(expiry_ms=1_000, on_expiry=then)), SEVEN)
    expire(driver)
    driver.run()
    assert (begun(driver), driver.finished.stop_reason) == (made, reason)
    assert driver.replayed() == driver.state


def test_a_decision_after_the_expiry_is_not_taken() -> None:
    driver = driven(paying(plans.approval(expiry_ms=1_000)), SEVEN)
    question = asked(driver)
    expire(driver)
    late = Approve(interrupt_id=question.interrupt_id, digest=question.digest)
    assert rejection(driver, late) is Rejection.INTERRUPT_EXPIRED
    driver.run_to_end()
    assert begun(driver) == []


def test_a_pause_holds_an_approved_call() -> None:
    driver = driven(paying(), SEVEN)
    driver.send(Pause())
    approve(driver)
    driver.run()
    assert (driver.state.phase, begun(driver)) == (Phase.PAUSED, [])
    driver.send(Resume())
    assert begun(driver.run_to_end()) == ["pay"]


def test_an_abort_ends_a_run_that_waits_and_the_call_is_never_made() -> None:
    driver = driven(paying(), SEVEN)
    approve(driver)
    driver.send(Abort(mode=AbortMode.NOW, skip_routes=False))
    driver.run()
    assert (driver.finished.phase, begun(driver)) == (Phase.ABORTED, [])


@pytest.mark.parametrize("commit", range(1, 9))
def test_a_crash_after_any_commit_neither_loses_an_approval_nor_makes_the_call_twice(commit: int) -> None:
    replies = [Says(calls=(SEVEN,))] * 2 + [Says(text="done")] * 2
    scenario = Scenario(plan=paying(), replies=replies, tools=ENDS, crash_after={commit})
    driver = Driver(scenario).run()
    while driver.state.finished is None:
        approve(driver) if asked(driver).kind is InterruptKind.APPROVAL else driver.send(
            Answer(interrupt_id=asked(driver).interrupt_id, option="succeeded", text="")
        )
        driver.run()
    keys = [one.started.call_key for one in driver.attempts]
    assert len(set(keys)) == len(keys) <= len(raised(driver))
    assert driver.replayed() == driver.state


# --- elsewhere ---------------------------------------------------------------------------------


def test_a_step_of_the_flow_that_is_not_approved_ends_as_an_error() -> None:
    pay = replace(PAY, approval=plans.approval(), routes={"*": END})
    driver = Driver(Scenario(plan=plans.plan_of(pay), tools=ENDS)).run()
    assert raised(driver)[0].arguments_json == "{}"
    driver.send(Reject(interrupt_id=asked(driver).interrupt_id, text="no"))
    driver.run()
    assert (driver.finished.stop_reason, begun(driver)) == (StopReason.TOOL_ERROR, [])


def test_an_approval_is_of_the_run_that_it_was_given_in_and_of_none_of_its_forks() -> None:
    plan = paying()
    origin = driven(plan, SEVEN)
    approve(origin)
    facts = origin.run_to_end().facts
    prefix = facts[: next(at for at, fact in enumerate(facts) if isinstance(fact, ToolCallStarted))]
    first = replace(plans.started(plan), forked_from=ForkOrigin(run_id="run-0", sequence=len(prefix)))
    fork = Driver(
        Scenario(plan=plan, started=first, replies=[Says(text="done")], tools={"pay": [Ends(output="paid")]})
    )
    fork._append(tuple(prefix[1:]))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # as a fork begins
    fork.run()
    assert (fork.state.phase, begun(fork), len(raised(fork))) == (Phase.WAITING, [], 2)
    approve(fork)
    assert begun(fork.run_to_end()) == ["pay"]


def test_a_child_run_starts_once_it_is_approved() -> None:
    child = plans.child("below", "other")
    step = plans.agent(tools=(plans.entry("below", approval=plans.approval()),))
    plan = plans.plan_of(step, child)
    replies = [Says(calls=(Call("below"),)), Says(text="done")]
    driver = Driver(Scenario(plan=plan, replies=replies, tools={"below": [Ends(output="x")]})).run()
    assert (driver.state.phase, driver.state.has_children) == (Phase.WAITING, False)
    approve(driver)
    assert begun(driver.run_to_end()) == ["below"]
