"""Commands: what each does at a boundary, and when it is too late. Proves C1 and P1 in the core."""

from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort, Action, Answer, Command, Pause, Resume, Steer
from jackline_server.core.deciding import control
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    CommandApplied,
    CommandRejected,
    FailureClass,
    ModelCallStarted,
    ModelReplied,
    Paused,
    Phase,
    Rejection,
    Resumed,
    RunFinished,
    Steered,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.messages import UserMessage
from jackline_server.core.plan import Effect, Plan
from jackline_server.core.steps import ToolAttempt
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Reply, Says, Scenario, ToolScript

LOOK = plans.tool("look")
SEND = plans.tool("send", Effect.WRITE)
LOOKS = Says(calls=(Call("look"),))
ANSWER = Says(text="done")
ABORT = Abort(mode=AbortMode.NOW, skip_routes=False)


def done(_: ToolAttempt) -> Ends:
    return Ends()


def slow(_: ToolAttempt) -> Ends:
    return Ends(takes_ms=16_000)


def begun(plan: Plan, *replies: Reply, until: type | tuple[type, ...] = StepStarted) -> Driver:
    """A run up to its first fact of that kind."""
    tools: dict[str, ToolScript] = {"look": done, "send": done, "tidy": done}
    driver = Driver(Scenario(plan=plan, replies=replies, tools=tools))
    return driver.run(until=lambda d: any(isinstance(fact, until) for fact in d.facts))


def of_kind(driver: Driver, kind: type) -> int:
    return sum(isinstance(fact, kind) for fact in driver.facts)


def rejections(driver: Driver) -> list[Rejection]:
    return [fact.rejection for fact in driver.facts if isinstance(fact, CommandRejected)]


# --- pause and resume --------------------------------------------------------------------------


def test_a_paused_run_makes_no_call_until_it_is_resumed() -> None:
    driver = begun(plans.agent_plan(LOOK), LOOKS, ANSWER, until=ModelReplied)
    driver.send(Pause())
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    assert of_kind(driver, ToolCallStarted) == 0
    driver.recover()
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    driver.send(Resume())
    driver.run_to_end()
    assert driver.finished.phase is Phase.SUCCEEDED


def test_pausing_twice_and_resuming_a_running_run_change_nothing_and_are_applied() -> None:
    driver = begun(plans.agent_plan(), ANSWER)
    for action in (Resume(), Pause(), Pause()):
        driver.send(action)
    driver.run()
    assert (of_kind(driver, CommandApplied), of_kind(driver, Paused), of_kind(driver, Resumed)) == (3, 1, 0)


def test_no_deadline_in_active_time_passes_while_a_run_is_paused() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(timeout_ms=1_000))
    driver = begun(plan, ANSWER)
    driver.send(Pause())
    driver.run()
    driver.pass_time(unix_ms=10_000_000)
    driver.send(Resume())
    assert driver.run_to_end().finished.signal == "default"


# --- steering ----------------------------------------------------------------------------------


def test_guidance_is_in_the_next_turn_as_a_users_message() -> None:
    driver = begun(plans.agent_plan(LOOK), LOOKS, ANSWER, until=ModelReplied)
    driver.send(Steer(text="look at the second one"))
    driver.run_to_end()
    last = driver.model_calls[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.provenance == "steer:operator"
    assert "look at the second one" in last.text


def test_guidance_never_stands_between_a_call_and_its_result() -> None:
    driver = begun(plans.agent_plan(LOOK), LOOKS, ANSWER, until=ModelReplied)
    driver.send(Steer(text="x"))
    driver.run_to_end()
    kinds = [type(fact) for fact in driver.facts]
    assert kinds.index(Steered) > kinds.index(ToolCallFinished)


def test_guidance_before_an_answer_is_judged_leads_to_another_turn() -> None:
    driver = begun(plans.agent_plan(), ANSWER, Says(text="better"), until=ModelReplied)
    driver.send(Steer(text="think again"))
    driver.run_to_end()
    assert driver.finished.result_json == '"better"'
    assert driver.state.ledger.iterations == 2


def test_guidance_waits_for_the_next_step_that_asks_a_model() -> None:
    plan = plans.plan_of(plans.tool("look", next_step=plans.AGENT), plans.agent())
    driver = begun(plan, ANSWER)
    driver.send(Steer(text="be brief"))
    driver.run_to_end()
    assert "be brief" in driver.model_calls[0].messages[-1].text


@pytest.mark.parametrize("bounds", [plans.step_bounds(max_iterations=1), plans.step_bounds(model_requests=1)])
def test_guidance_that_no_turn_is_left_for_is_too_late_and_the_answer_stands(
    bounds: plans.StepBounds,
) -> None:
    driver = begun(plans.agent_plan(bounds=bounds), ANSWER, until=ModelReplied)
    driver.send(Steer(text="x"))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.TOO_LATE]
    assert driver.finished.signal == "default"


def test_guidance_too_long_for_the_budget_is_too_late_and_the_answer_stands() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(token_budget=2_000))
    driver = begun(plan, ANSWER, until=ModelReplied)
    driver.send(Steer(text="x" * 8_000))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.TOO_LATE]
    assert driver.finished.result_json == '"done"'


def test_guidance_after_the_model_was_given_up_is_too_late() -> None:
    failed = Fails(failure=FailureClass.BAD_REQUEST)
    driver = begun(plans.agent_plan(), failed, until=StepStarted)
    driver.step()
    driver.send(Steer(text="x"))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.TOO_LATE]


def test_guidance_after_the_time_is_up_is_too_late() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(timeout_ms=100))
    driver = begun(plan, ANSWER, until=ModelReplied)
    driver.send(Steer(text="x"))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.TOO_LATE]


def test_guidance_that_still_waits_at_the_end_is_too_late() -> None:
    driver = begun(plans.plan_of(plans.tool("look")))
    driver.send(Steer(text="x"))
    driver.run_to_end()
    assert rejections(driver) == [Rejection.TOO_LATE]
    assert isinstance(driver.facts[-1], RunFinished)


# --- expectations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"expect_phase": Phase.PAUSED}, {"expect_sequence": 1}, {"expect_sequence": 99}]
)
def test_a_command_whose_expectation_does_not_hold_is_rejected(changes: dict[str, object]) -> None:
    driver = begun(plans.agent_plan(), ANSWER)
    command: Command = replace(driver.send(Pause()), **changes)
    settled = control.settle(driver.state, command, driver.now)
    assert settled == (control.reject(command, Rejection.EXPECTATION_FAILED),)


def test_a_command_whose_expectation_holds_is_applied() -> None:
    driver = begun(plans.agent_plan(), ANSWER)
    command = replace(driver.send(Pause()), expect_phase=Phase.RUNNING, expect_sequence=driver.state.sequence)
    settled = control.settle(driver.state, command, driver.now)
    assert settled is not None
    assert isinstance(settled[0], CommandApplied)


@pytest.mark.parametrize("action", [Pause(), Resume(), ABORT])
def test_a_command_left_over_at_the_end_is_told_so(action: Action) -> None:
    driver = begun(plans.agent_plan(), ANSWER)
    assert control.leftover(driver.state, driver.send(action)).rejection is Rejection.RUN_TERMINAL


# --- abort -------------------------------------------------------------------------------------


@pytest.mark.parametrize("until", [StepStarted, ModelReplied, ToolCallFinished])
@pytest.mark.parametrize("mode", list(AbortMode))
def test_after_an_abort_no_call_starts_and_the_run_ends_as_aborted(until: type, mode: AbortMode) -> None:
    driver = begun(plans.agent_plan(LOOK), replace(LOOKS, text="so far"), ANSWER, until=until)
    calls = of_kind(driver, ModelCallStarted) + of_kind(driver, ToolCallStarted)
    driver.send(Abort(mode=mode, skip_routes=False))
    driver.run()
    assert of_kind(driver, ModelCallStarted) + of_kind(driver, ToolCallStarted) == calls
    end = driver.finished
    assert (end.signal, end.stop_reason, end.phase) == ("aborted", StopReason.OPERATOR, Phase.ABORTED)
    said = until is not StepStarted
    assert (end.partial, end.result_json) == (said, '"so far"' if said else None)


def test_an_abort_before_the_first_step_ends_the_run() -> None:
    driver = Driver(Scenario(plan=plans.agent_plan(), sent={0: ABORT})).run_to_end()
    assert driver.finished.phase is Phase.ABORTED
    assert of_kind(driver, StepStarted) == 0


def test_an_abort_ends_a_paused_run() -> None:
    driver = begun(plans.agent_plan(), ANSWER)
    driver.send(Pause())
    driver.run()
    driver.send(ABORT)
    driver.run()
    assert driver.finished.phase is Phase.ABORTED


def test_an_abort_ends_a_run_that_waits_for_an_answer_and_claims_nothing_of_the_call() -> None:
    lost = Ends(status=CallStatus.UNKNOWN, error="lost")
    scenario = Scenario(
        plan=plans.agent_plan(SEND), replies=[Says(calls=(Call("send"),))], tools={"send": [lost]}
    )
    driver = Driver(scenario).run()
    assert driver.state.phase is Phase.WAITING
    driver.send(ABORT)
    driver.run_to_end()
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.UNKNOWN]
    assert driver.finished.phase is Phase.ABORTED


@pytest.mark.parametrize(
    ("effect", "status"),
    [
        (Effect.WRITE, CallStatus.UNKNOWN),
        (Effect.IDEMPOTENT, CallStatus.CANCELLED),
        (Effect.READ, CallStatus.CANCELLED),
    ],
)
def test_a_call_that_an_abort_overtakes_claims_nothing_unless_it_may_be_repeated(
    effect: Effect, status: CallStatus
) -> None:
    plan = plans.agent_plan(plans.tool("send", effect))
    asks = Says(calls=(Call("send"),))
    announced = len(begun(plan, asks, until=ModelReplied).commits) + 1
    driver = Driver(Scenario(plan=plan, replies=[asks], tools={"send": done}, crash_after={announced}))
    driver.run(until=lambda d: any(isinstance(fact, ToolCallStarted) for fact in d.facts))
    driver.send(ABORT)
    driver.run()
    assert [call.status for call in driver.state.calls.values()] == [status]


def test_a_question_that_the_end_of_its_step_overtook_can_no_longer_be_answered() -> None:
    lost = Ends(status=CallStatus.UNKNOWN, error="lost")
    agent = plans.agent(tools=(plans.entry("send"),), routes={"aborted": "tidy"})
    plan = plans.plan_of(agent, SEND, plans.tool("tidy"))
    replies = [Says(calls=(Call("send"),))]
    driver = Driver(Scenario(plan=plan, replies=replies, tools={"send": [lost], "tidy": done})).run()
    (interrupt_id,) = driver.state.oversight.interrupts
    driver.send(ABORT)
    driver.run(until=lambda d: d.state.oversight.cleanup is not None)
    driver.send(Answer(interrupt_id=interrupt_id, option="failed", text=""))
    driver.run()
    assert rejections(driver) == [Rejection.INTERRUPT_EXPIRED]


def test_guidance_after_an_abort_is_too_late_and_a_pause_holds_nothing() -> None:
    driver = begun(plans.agent_plan(), ANSWER)
    for action in (ABORT, Steer(text="x"), Pause()):
        driver.send(action)
    driver.run()
    assert rejections(driver) == [Rejection.TOO_LATE]
    assert driver.finished.phase is Phase.ABORTED


def test_calls_that_were_asked_for_are_closed_in_the_registry() -> None:
    driver = begun(plans.agent_plan(LOOK), Says(calls=(Call("look"),) * 3), until=ModelReplied)
    driver.send(ABORT)
    driver.run()
    assert {call.status for call in driver.state.calls.values()} == {CallStatus.DENIED}


# --- the cleanup path --------------------------------------------------------------------------


def cleanup_plan(*, bounds: plans.RunBounds | None = None, timeout_ms: int = 10_000) -> Plan:
    """An agent whose abort leads into a ring of tool steps that never ends by itself."""
    tidy = plans.tool("tidy", next_step="tidy", timeout_ms=timeout_ms)
    return plans.plan_of(
        plans.agent(routes={"aborted": "tidy", "*": "end"}),
        tidy,
        bounds=bounds or plans.run_bounds(),
    )


def cleaned(plan: Plan, action: Action = ABORT) -> Driver:
    driver = begun(plan, ANSWER)
    driver.send(action)
    driver.run()
    assert driver.finished.phase is Phase.ABORTED
    assert driver.finished.signal == "aborted"
    return driver


def test_a_routed_cleanup_path_takes_four_steps_at_most() -> None:
    driver = cleaned(cleanup_plan())
    assert len(driver.attempts) == 4


def test_a_cleanup_path_has_thirty_seconds_and_its_calls_no_longer() -> None:
    tools = {"tidy": slow}
    driver = Driver(Scenario(plan=cleanup_plan(timeout_ms=60_000), tools=tools, sent={1: ABORT}))
    driver.run_to_end()
    assert [attempt.timeout_ms for attempt in driver.attempts] == [30_000, 14_000]
    assert driver.finished.phase is Phase.ABORTED


def test_a_cleanup_path_keeps_to_the_steps_of_the_run_and_stays_an_abort() -> None:
    driver = cleaned(cleanup_plan(bounds=plans.run_bounds(steps=3)))
    assert driver.state.ledger.steps == 3


def test_an_abort_may_skip_its_routes() -> None:
    driver = cleaned(cleanup_plan(), Abort(mode=AbortMode.NOW, skip_routes=True))
    assert driver.attempts == []


def test_a_second_abort_may_cut_the_cleanup_short() -> None:
    driver = begun(cleanup_plan(), ANSWER)
    driver.send(ABORT)
    driver.run(until=lambda d: len(d.attempts) == 1)
    driver.send(Abort(mode=AbortMode.NOW, skip_routes=True))
    driver.run()
    assert len(driver.attempts) == 1
    assert driver.finished.phase is Phase.ABORTED


def test_a_cleanup_path_never_asks_a_model() -> None:
    plan = plans.plan_of(plans.agent(routes={"aborted": "second"}), plans.agent(step_id="second"))
    driver = cleaned(plan)
    assert of_kind(driver, ModelCallStarted) == 0
    assert of_kind(driver, StepStarted) == 1


def test_an_abort_takes_no_other_route_than_its_own() -> None:
    plan = plans.plan_of(plans.agent(routes={"error": "tidy", "*": "tidy"}), plans.tool("tidy"))
    assert cleaned(plan).attempts == []


def test_a_cleanup_path_runs_after_the_time_of_the_run_is_up() -> None:
    driver = begun(cleanup_plan(bounds=plans.run_bounds(run_timeout_ms=5_000)), ANSWER)
    driver.send(ABORT)
    driver.run(until=lambda d: d.state.oversight.cleanup is not None)
    driver.pass_time(active_ms=6_000)
    driver.run()
    assert len(driver.attempts) == 4
    assert driver.finished.phase is Phase.ABORTED


def test_a_cleanup_path_that_crashes_again_and_again_ends() -> None:
    driver = begun(cleanup_plan(), ANSWER)
    driver.send(ABORT)
    driver.run(until=lambda d: d.state.oversight.cleanup is not None and d.state.visit is not None)
    for _ in range(4):
        driver.recover()
    driver.run()
    assert driver.attempts == []
    assert driver.finished.phase is Phase.ABORTED


def test_an_unknown_outcome_on_a_cleanup_path_opens_no_question() -> None:
    wipe = plans.tool("wipe", Effect.WRITE)
    plan = plans.plan_of(plans.agent(routes={"aborted": "wipe"}), wipe)
    lost = Ends(status=CallStatus.UNKNOWN, error="lost")
    driver = Driver(Scenario(plan=plan, tools={"wipe": [lost]}, sent={1: ABORT})).run_to_end()
    signals = [fact.signal for fact in driver.facts if isinstance(fact, StepFinished)]
    assert signals == ["aborted", "needs_review"]
    assert driver.finished.phase is Phase.ABORTED


def test_an_abort_that_comes_after_the_answer_was_committed_changes_nothing() -> None:
    driver = begun(plans.agent_plan(), replace(ANSWER, usage=Usage(prompt_tokens=1)), until=RunFinished)
    driver.send(ABORT)
    driver.run()
    assert driver.finished.phase is Phase.SUCCEEDED
