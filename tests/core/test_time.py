"""Time: active time is what bounds count, wall-clock times enter as facts, and crashes end at their third."""

from dataclasses import replace

import pytest

from jackline_server.core.facts import (
    CallStatus,
    FailureClass,
    ModelCallStarted,
    ModelReplied,
    Phase,
    RecoveryCause,
    StepStarted,
    StopReason,
    TimerFired,
    TimerKind,
)
from jackline_server.core.plan import AttemptLimits, Plan
from jackline_server.core.reading import timing
from jackline_server.testing import plans
from jackline_server.testing.driving import (
    STARTED_UNIX_MS,
    Call,
    Driver,
    Ends,
    Fails,
    Says,
    Scenario,
    drive,
)

LOOK = plans.tool("look")
LOOKS = Says(calls=(Call("look"),), takes_ms=100)
ANSWER = Says(text="done", takes_ms=100)


def timed(scope: str, ms: int) -> Plan:
    if scope == "step":
        return plans.agent_plan(LOOK, bounds=plans.step_bounds(timeout_ms=ms))
    return replace(plans.agent_plan(LOOK), bounds=plans.run_bounds(run_timeout_ms=ms))


@pytest.mark.parametrize(("scope", "leaf"), [("step", "step.timeout"), ("run", "run.run_timeout")])
@pytest.mark.parametrize(("timeout_ms", "calls"), [(0, 0), (1, 1), (100, 1), (150, 1), (151, 2)])
def test_no_call_starts_once_the_time_is_up(scope: str, leaf: str, timeout_ms: int, calls: int) -> None:
    """The reply comes at 100 ms, the tool ends at 150 ms, the second reply would come at 250 ms."""
    driver = Driver(
        Scenario(plan=timed(scope, timeout_ms), replies=[LOOKS, ANSWER], tools={"look": lambda _: Ends()})
    )
    driver.run()
    assert len(driver.model_calls) == calls
    end = driver.finished
    assert (end.signal, end.stop_reason, end.stop_leaf, end.phase) == (
        "time_exceeded",
        StopReason.TIME_BUDGET,
        leaf,
        Phase.EXHAUSTED,
    )


@pytest.mark.parametrize("scope", ["step", "run"])
def test_a_call_is_given_no_more_time_than_there_is(scope: str) -> None:
    driver = drive(timed(scope, 5_000), LOOKS, ANSWER, look=[Ends(takes_ms=50)])
    assert [call.total_ms for call in driver.model_calls] == [5_000, 4_850]
    assert driver.attempts[0].timeout_ms == 4_900


def test_retries_share_the_time_of_one_request() -> None:
    plan = plans.agent_plan(bounds=plans.step_bounds(model_timeout_ms=10_000))
    driver = drive(plan, Fails(takes_ms=100), Fails(takes_ms=100), ANSWER)
    began = [active_ms for fact, active_ms in driver.log if isinstance(fact, ModelCallStarted)]
    assert began[0] < began[1] < began[2]
    assert [call.total_ms for call in driver.model_calls] == [10_000 - active_ms for active_ms in began]


def test_a_deadline_is_a_timer_that_enters_as_a_fact_and_ends_the_run() -> None:
    plan = plans.agent_plan(LOOK)
    started = plans.started(plan, deadline_unix_ms=STARTED_UNIX_MS + 120)
    driver = Driver(
        Scenario(plan=plan, started=started, replies=[LOOKS], tools={"look": [Ends(takes_ms=50)]})
    ).run_to_end()
    assert [fact for fact in driver.facts if isinstance(fact, TimerFired)] == [
        TimerFired(kind=TimerKind.DEADLINE)
    ]
    assert (driver.finished.stop_reason, driver.finished.stop_leaf) == (StopReason.DEADLINE, "run.deadline")
    assert timing.wake_unix_ms(driver.state) is None


def test_a_deadline_that_no_fact_tells_of_is_not_known() -> None:
    plan = plans.agent_plan()
    started = plans.started(plan, deadline_unix_ms=STARTED_UNIX_MS - 1)
    driver = Driver(Scenario(plan=plan, started=started, replies=[]))
    step = driver.step()
    assert timing.wake_unix_ms(driver.state) == STARTED_UNIX_MS - 1
    assert step is not None
    assert driver.state.finished is None


def test_a_deadline_that_passes_while_a_question_is_open_ends_the_run() -> None:
    send = plans.tool("send", plans.Effect.WRITE)
    plan = plans.agent_plan(send)
    started = plans.started(plan, deadline_unix_ms=STARTED_UNIX_MS + 10_000)
    lost = Ends(status=CallStatus.UNKNOWN, error="lost")
    scenario = Scenario(
        plan=plan, started=started, replies=[Says(calls=(Call("send"),))], tools={"send": [lost]}
    )
    driver = Driver(scenario).run()
    assert driver.state.phase is Phase.WAITING
    driver.pass_time(unix_ms=10_000)
    driver.run_to_end()
    assert driver.finished.stop_reason is StopReason.DEADLINE


def test_active_time_never_runs_backwards() -> None:
    driver = Driver(Scenario(plan=plans.agent_plan(), replies=[ANSWER])).run_to_end()
    moments = [active_ms for _, active_ms in driver.log]
    assert moments == sorted(moments)


# --- crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("crashes", [0, 1, 2, 3])
def test_a_step_survives_three_crashes(crashes: int) -> None:
    driver = Driver(Scenario(plan=plans.agent_plan(), replies=[ANSWER]))
    driver.run(until=lambda d: any(isinstance(fact, StepStarted) for fact in d.facts))
    for _ in range(crashes):
        driver.recover()
    assert driver.run_to_end().finished.phase is Phase.SUCCEEDED


def test_the_fourth_crash_of_a_step_ends_the_run_unrouted() -> None:
    plan = plans.plan_of(plans.agent(routes={"error": "mend", "*": "mend"}), plans.router("mend", {}, {}))
    driver = Driver(Scenario(plan=plan, replies=[]))
    driver.run(until=lambda d: any(isinstance(fact, StepStarted) for fact in d.facts))
    for _ in range(4):
        driver.recover()
    driver.run_to_end()
    end = driver.finished
    assert (end.signal, end.stop_reason, end.stop_leaf) == ("error", StopReason.CRASH_LOOP, plans.AGENT)
    assert driver.state.ledger.steps == 1


@pytest.mark.parametrize("cause", [cause for cause in RecoveryCause if cause is not RecoveryCause.CRASH])
def test_a_recovery_that_is_no_crash_does_not_count(cause: RecoveryCause) -> None:
    driver = Driver(Scenario(plan=plans.agent_plan(), replies=[ANSWER]))
    driver.run(until=lambda d: any(isinstance(fact, StepStarted) for fact in d.facts))
    for _ in range(20):
        driver.recover(cause)
    assert driver.run_to_end().finished.phase is Phase.SUCCEEDED
    assert driver.state.recoveries == 0


def test_crashes_of_one_step_are_not_held_against_the_next() -> None:
    plan = plans.plan_of(plans.agent(routes={}, next_step="second"), plans.agent(step_id="second"))
    driver = Driver(Scenario(plan=plan, replies=[ANSWER, ANSWER]))
    for visit in (1, 2):
        driver.run(until=lambda d, visit=visit: d.state.ledger.steps == visit)
        for _ in range(3):
            driver.recover()
    assert driver.run_to_end().finished.phase is Phase.SUCCEEDED


def test_a_model_call_that_nobody_will_answer_is_charged_in_full_and_made_again() -> None:
    probe = drive(plans.agent_plan(), ANSWER)
    commit = 1 + next(
        place
        for place, facts in enumerate(probe.commits)
        if any(isinstance(fact, ModelCallStarted) for fact in facts)
    )
    driver = Driver(Scenario(plan=plans.agent_plan(), replies=[ANSWER], crash_after={commit})).run_to_end()
    calls = [fact for fact in driver.facts if isinstance(fact, ModelCallStarted)]
    replied = next(fact for fact in driver.facts if isinstance(fact, ModelReplied))
    assert [call.attempt for call in calls] == [1, 2]
    assert driver.state.ledger.tokens == calls[0].reserved_tokens + replied.usage.total
    assert driver.state.ledger.iterations == 1


@pytest.mark.parametrize(
    ("limits", "total_ms", "idle_ms"),
    [
        (AttemptLimits(), 60_000, 30_000),
        (AttemptLimits(request_timeout_ms=5_000, idle_timeout_ms=2_000), 5_000, 2_000),
        (AttemptLimits(request_timeout_ms=90_000, idle_timeout_ms=90_000), 60_000, 30_000),
    ],
)
def test_of_a_steps_timers_and_those_of_its_model_the_shorter_counts(
    limits: AttemptLimits, total_ms: int, idle_ms: int
) -> None:
    plan = replace(plans.agent_plan(LOOK), models={plans.MODEL: plans.model(limits=limits)})
    driver = Driver(Scenario(plan=plan, replies=[ANSWER]))
    driver.run()
    (call,) = driver.model_calls
    assert (call.total_ms, call.idle_ms) == (total_ms, idle_ms)


def test_an_attempt_that_its_profile_cuts_off_leaves_time_for_the_next() -> None:
    limits = AttemptLimits(request_timeout_ms=5_000)
    plan = replace(plans.agent_plan(LOOK), models={plans.MODEL: plans.model(limits=limits)})
    hangs = Fails(failure=FailureClass.TIMEOUT, takes_ms=5_000)
    driver = Driver(Scenario(plan=plan, replies=[hangs, hangs, ANSWER])).run_to_end()
    assert [call.total_ms for call in driver.model_calls] == [5_000] * 3
    assert driver.finished.phase is Phase.SUCCEEDED
