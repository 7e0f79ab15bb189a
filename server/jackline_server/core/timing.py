"""Time: which deadline has passed, how much is left, and which timers are due.

Owns the two kinds of time. Bounds count active time, which facts carry. Deadlines and expiries that people
set are wall-clock times; they enter a run only as TimerFired facts.
"""

from jackline_server.core.bounds import Limit
from jackline_server.core.facts import Fact, InterruptResolved, StopReason, TimerFired, TimerKind
from jackline_server.core.plan import ModelStep
from jackline_server.core.state import RunState

CLEANUP_MS = 30_000
CLEANUP_STEPS = 4


def passed(state: RunState, now_active_ms: int) -> Limit | None:
    """The deadline that has passed, the run's before the step's."""
    if state.oversight.deadline_passed:
        return Limit(reason=StopReason.DEADLINE, leaf="run.deadline")
    for leaf, end in _ends(state):
        if now_active_ms >= end:
            return Limit(reason=StopReason.TIME_BUDGET, leaf=leaf)
    return None


def left_ms(state: RunState, now_active_ms: int) -> int | None:
    """Active time until the earliest deadline; None without one. At least 1."""
    ends = [end for _, end in _ends(state)]
    cleanup = state.oversight.cleanup
    if cleanup is not None:
        ends = [cleanup.since_active_ms + CLEANUP_MS]
    return max(min(ends) - now_active_ms, 1) if ends else None


def _ends(state: RunState) -> list[tuple[str, int]]:
    ends: list[tuple[str, int]] = []
    timeout = state.started.bounds.run_timeout_ms
    if timeout is not None:
        ends.append(("run.run_timeout", timeout))
    visit = state.visit
    if visit is not None:
        step = state.plan.step(visit.step_id)
        if isinstance(step, ModelStep) and step.bounds.timeout_ms is not None:
            ends.append(("step.timeout", visit.started_active_ms + step.bounds.timeout_ms))
    return ends


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
        facts.append(timer)
        if timer.kind is TimerKind.INTERRUPT:
            facts.append(
                InterruptResolved(
                    interrupt_id=timer.subject, option="", principal="", text="", output_json=None
                )
            )
    return tuple(facts)


def _timers(state: RunState) -> list[tuple[int, TimerFired]]:
    if state.finished is not None:
        return []
    timers = [
        (interrupt.expires_unix_ms, TimerFired(kind=TimerKind.INTERRUPT, subject=interrupt.interrupt_id))
        for interrupt in state.oversight.interrupts.values()
        if interrupt.expires_unix_ms is not None
    ]
    deadline = state.started.deadline_unix_ms
    if deadline is not None and not state.oversight.deadline_passed:
        timers.append((deadline, TimerFired(kind=TimerKind.DEADLINE)))
    return timers
