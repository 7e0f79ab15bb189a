"""`pause_max`: a pause lasts so long by the wall clock, and then the run goes on or ends."""

from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort, Pause, Resume
from jackline_server.core.evolve import evolve
from jackline_server.core.facts import (
    AbortMode,
    Paused,
    Phase,
    RecoveryCause,
    Resumed,
    RunRecovered,
    RunSuspended,
    StepStarted,
    StopReason,
    TimerFired,
    TimerKind,
)
from jackline_server.core.plan import OnPauseMax, OnQuestion, PausePlan, Plan
from jackline_server.core.reading import timing
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.forking import Fork, ForkOrigin, taken_over
from jackline_server.core.recorded.replaying import replayed
from jackline_server.testing import plans
from jackline_server.testing.driving import STARTED_UNIX_MS, Call, Driver, Ends, Says, Scenario
from jackline_server.testing.instruments import instruments

HOUR_MS = 3_600_000
LOOK = plans.tool("look")


def pausing(then: OnPauseMax, *, routes: dict[str, str] | None = None) -> Plan:
    step = plans.agent(tools=(plans.entry("look"),), routes=routes or {})
    tidy = plans.tool("tidy")
    return replace(plans.plan_of(step, LOOK, tidy), pause=PausePlan(max_ms=HOUR_MS, then=then))


def paused(plan: Plan, *, deadline_in_ms: int | None = None) -> Driver:
    """A run that is paused before its first call of a model."""
    deadline = None if deadline_in_ms is None else STARTED_UNIX_MS + deadline_in_ms
    driver = Driver(
        Scenario(
            plan=plan,
            started=plans.started(plan, deadline_unix_ms=deadline),
            replies=[Says(calls=(Call("look"),)), Says(text="done")],
            tools={"look": [Ends()], "tidy": [Ends()]},
        )
    )
    driver.run(until=lambda one: isinstance(one.facts[-1], StepStarted))
    driver.send(Pause())
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    return driver


def end_of(driver: Driver) -> tuple[str, StopReason, str, Phase]:
    end = driver.finished
    return end.signal, end.stop_reason, end.stop_leaf, end.phase


def check_replays(driver: Driver, plan: Plan) -> None:
    assert driver.replayed() == driver.state
    log = [Entry(fact=fact, active_ms=at, unix_ms=STARTED_UNIX_MS) for fact, at in driver.log]
    walked = replayed("run-1", log, plan, instruments=instruments())
    assert (walked.difference, walked.facts) == (None, len(log))


ABORTED = ("aborted", StopReason.PAUSE_EXPIRED, "run.pause_max", Phase.ABORTED)


def test_a_run_that_was_paused_for_so_long_ends_as_aborted_and_made_no_call() -> None:
    plan = pausing(OnPauseMax.ABORT)
    driver = paused(plan)
    assert timing.wake_unix_ms(driver.state) == driver.unix_ms + HOUR_MS
    driver.pass_time(unix_ms=HOUR_MS - 1)
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    driver.pass_time(unix_ms=1)
    driver.run()
    assert end_of(driver) == ABORTED
    assert driver.model_calls == []
    assert driver.state.active_ms == 0
    check_replays(driver, plan)


def test_an_explicit_route_tidies_up_after_a_pause_that_was_too_long() -> None:
    driver = paused(pausing(OnPauseMax.ABORT, routes={"aborted": "tidy"}))
    driver.pass_time(unix_ms=HOUR_MS)
    driver.run()
    assert end_of(driver) == ABORTED
    assert [attempt.step.step_id for attempt in driver.attempts] == ["tidy"]


def test_a_run_goes_on_by_itself_where_that_is_declared() -> None:
    plan = pausing(OnPauseMax.RESUME)
    driver = paused(plan)
    driver.pass_time(unix_ms=HOUR_MS)
    assert driver.facts[-2:] == [
        TimerFired(kind=TimerKind.PAUSE, subject="resume"),
        Resumed(principal=""),
    ]
    driver.run()
    assert driver.finished.signal == "default"
    check_replays(driver, plan)


def test_without_it_a_pause_has_no_end() -> None:
    driver = paused(replace(pausing(OnPauseMax.ABORT), pause=None))
    assert timing.wake_unix_ms(driver.state) is None
    driver.pass_time(unix_ms=1_000 * HOUR_MS)
    assert driver.state.phase is Phase.PAUSED


def test_a_run_that_was_resumed_in_time_may_be_paused_again_for_as_long() -> None:
    driver = paused(pausing(OnPauseMax.ABORT))
    driver.pass_time(unix_ms=HOUR_MS - 1)
    driver.send(Resume())
    driver.send(Pause())
    driver.run()
    driver.pass_time(unix_ms=HOUR_MS - 1)
    assert driver.state.phase is Phase.PAUSED
    driver.pass_time(unix_ms=1)
    driver.run()
    assert end_of(driver) == ABORTED


def test_pausing_a_paused_run_does_not_lengthen_its_pause() -> None:
    driver = paused(pausing(OnPauseMax.ABORT))
    expires = timing.wake_unix_ms(driver.state)
    driver.pass_time(unix_ms=HOUR_MS // 2)
    driver.send(Pause())
    driver.run()
    assert timing.wake_unix_ms(driver.state) == expires


@pytest.mark.parametrize("cause", list(RecoveryCause))
def test_a_pause_survives_whoever_takes_the_run_over(cause: RecoveryCause) -> None:
    driver = paused(pausing(OnPauseMax.ABORT))
    driver.recover(cause)
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    driver.pass_time(unix_ms=HOUR_MS)
    driver.recover(cause)
    driver.run()
    assert end_of(driver) == ABORTED


@pytest.mark.parametrize("then", list(OnPauseMax))
def test_a_deadline_that_came_first_ends_the_run_also_if_both_are_noticed_at_once(then: OnPauseMax) -> None:
    driver = paused(pausing(then), deadline_in_ms=HOUR_MS // 2)
    driver.pass_time(unix_ms=2 * HOUR_MS)
    driver.run()
    assert driver.finished.stop_reason is StopReason.DEADLINE


def test_an_abort_ends_the_pause_with_the_run() -> None:
    driver = paused(pausing(OnPauseMax.RESUME))
    driver.send(Abort(mode=AbortMode.NOW, skip_routes=False))
    driver.run()
    assert driver.finished.stop_reason is StopReason.OPERATOR
    assert timing.wake_unix_ms(driver.state) is None


def test_a_fork_of_a_paused_run_is_paused_for_as_long_from_then_on() -> None:
    fork = Fork(
        origin=ForkOrigin(run_id="run-0", sequence=9),
        principal="starter",
        bounds=plans.run_bounds(),
        on_question=OnQuestion.WAIT,
        deadline_unix_ms=None,
        epoch=1,
        unix_ms=50_000,
    )
    entry = Entry(fact=Paused(principal="operator", expires_unix_ms=1_700), active_ms=5, unix_ms=700)
    assert taken_over(entry, fork) == Paused(principal="operator", expires_unix_ms=51_000)


def test_a_run_is_where_it_was_while_only_its_driver_changes() -> None:
    seen = paused(pausing(OnPauseMax.RESUME)).state
    state = seen
    for fact in (
        RunSuspended(epoch=1),
        RunRecovered(epoch=2, cause=RecoveryCause.WAKE),
        RunSuspended(epoch=2),
        RunRecovered(epoch=3, cause=RecoveryCause.DRAIN),
    ):
        state = evolve(state, fact, active_ms=state.active_ms)
        assert state.is_still_at(seen.sequence)
        assert state.is_still_at(state.sequence)
        assert not state.is_still_at(seen.sequence - 1)
    crashed = evolve(state, RunRecovered(epoch=4, cause=RecoveryCause.CRASH), active_ms=state.active_ms)
    resumed = evolve(state, Resumed(principal="ops"), active_ms=state.active_ms)
    assert not any(one.is_still_at(seen.sequence) for one in (crashed, resumed))
    again = evolve(resumed, RunSuspended(epoch=3), active_ms=state.active_ms)
    assert again.is_still_at(resumed.sequence)
    assert not again.is_still_at(state.sequence)
