"""Time: which deadline has passed, how much is left, and which timers are due.

Owns the two kinds of time. Bounds count active time, which facts carry. Deadlines and expiries that people
set are wall-clock times; they enter a run only as TimerFired facts.
"""

from collections.abc import Iterable, Iterator

from jackline_server.core.bounds import Limit
from jackline_server.core.facts import Fact, InterruptResolved, StopReason, TimerFired, TimerKind
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import pauses
from jackline_server.core.state import RunState, bounds_of

CLEANUP_MS = 30_000
CLEANUP_STEPS = 4


def passed(state: RunState, now_active_ms: int) -> Limit | None:
    """The deadline that has passed, the run's before the step's."""
    if state.oversight.deadline_passed:
        return Limit(reason=StopReason.DEADLINE, leaf="run.deadline")
    run_end, step_end = _ends(state)
    if run_end is not None and now_active_ms >= run_end:
        return Limit(reason=StopReason.TIME_BUDGET, leaf="run.run_timeout")
    if step_end is not None and now_active_ms >= step_end:
        return Limit(reason=StopReason.TIME_BUDGET, leaf="step.timeout")
    return None


def left_ms(state: RunState, now_active_ms: int) -> int | None:
    """Active time until the earliest deadline; None without one. At least 1."""
    cleanup = state.oversight.cleanup
    if cleanup is not None:
        return max(cleanup.since_active_ms + CLEANUP_MS - now_active_ms, 1)
    first, step_end = _ends(state)
    if first is None or (step_end is not None and step_end < first):
        first = step_end
    return None if first is None else max(first - now_active_ms, 1)


def _ends(state: RunState) -> tuple[int | None, int | None]:
    """When the run ends and when its step does, in active time; None is never."""
    run_end, visit = state.bounds.run_timeout_ms, state.visit
    if visit is None:
        return run_end, None
    step = state.plan.step(visit.step_id)
    if not isinstance(step, ModelStep):
        return run_end, None
    timeout_ms = bounds_of(visit, step).timeout_ms
    return run_end, None if timeout_ms is None else visit.started_active_ms + timeout_ms


def wake_unix_ms(state: RunState) -> int | None:
    """The earliest wall-clock time at which a timer of the run is due; None without one."""
    times = [when for when, _ in _timers(state)]
    return min(times) if times else None


def due(state: RunState, unix_ms: int) -> tuple[Fact, ...]:
    """The facts of all timers that are due by the wall clock."""
    timers = _timers(state)
    if not timers:
        return ()
    facts: list[Fact] = []
    for when, timer in sorted(timers, key=lambda pair: pair[0]):
        if when > unix_ms:
            continue
        if timer.kind is TimerKind.PAUSE and any(one.kind is TimerKind.DEADLINE for one in _fired(facts)):
            continue  # the run has ended by then
        facts.append(timer)
        if timer.kind is TimerKind.PAUSE:
            facts.extend(pauses.follows(timer))
        if timer.kind is TimerKind.INTERRUPT:
            facts.append(
                InterruptResolved(
                    interrupt_id=timer.subject, option="", principal="", text="", output_json=None
                )
            )
    return tuple(facts)


def _fired(facts: Iterable[Fact]) -> Iterator[TimerFired]:
    return (fact for fact in facts if isinstance(fact, TimerFired))


def _timers(state: RunState) -> list[tuple[int, TimerFired]]:
    deadline, oversight = state.started.deadline_unix_ms, state.oversight
    interrupts = oversight.interrupts
    if state.finished is not None:
        return []
    starts = oversight.starts_unix_ms
    if deadline is None and not interrupts and oversight.pause_expires_unix_ms is None and starts is None:
        return []
    timers = [
        (interrupt.expires_unix_ms, TimerFired(kind=TimerKind.INTERRUPT, subject=interrupt.interrupt_id))
        for interrupt in interrupts.values()
        if interrupt.expires_unix_ms is not None
    ]
    if deadline is not None and not oversight.deadline_passed:
        timers.append((deadline, TimerFired(kind=TimerKind.DEADLINE)))
    if starts is not None:
        timers.append((starts, TimerFired(kind=TimerKind.START)))
    pause = pauses.timer(state)
    if pause is not None:
        timers.append(pause)
    return timers
