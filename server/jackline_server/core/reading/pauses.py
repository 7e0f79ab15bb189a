"""How long a run may be paused: `pause_max`, by the wall clock, and what follows when it is over.

Owns when a pause ends and how. A second pause of a run that is paused already changes nothing, also not when
it ends; after it goes on, the next pause begins anew. A deadline of the run that comes first ends it as ever.
"""

from jackline_server.core.facts import AbortMode, Fact, Paused, Resumed, StopReason, TimerFired, TimerKind
from jackline_server.core.frozen import change
from jackline_server.core.plan import OnPauseMax
from jackline_server.core.state import AbortRequest, Oversight, RunState
from jackline_server.core.steps import Moment

LEAF = "run.pause_max"
WORDS = "it was paused for as long as pause_max allows"


def paused(state: RunState, principal: str, now: Moment) -> Paused:
    """The fact that the run is held from now on."""
    plan = state.plan.pause
    expires = None if plan is None else now.unix_ms + plan.max_ms
    return Paused(principal=principal, expires_unix_ms=expires)


def timer(state: RunState) -> tuple[int, TimerFired] | None:
    """When the pause under way is over, and the fact that it is; None if it has no end."""
    oversight = state.oversight
    expires = oversight.pause_expires_unix_ms
    if expires is None or oversight.deadline_passed:
        return None
    then = OnPauseMax.ABORT if state.plan.pause is None else state.plan.pause.then
    return expires, TimerFired(kind=TimerKind.PAUSE, subject=then.value)


def follows(fired: TimerFired) -> tuple[Fact, ...]:
    """What is recorded with it: that the run goes on, if it does."""
    return (Resumed(principal=""),) if fired.subject == OnPauseMax.RESUME.value else ()


def ended(oversight: Oversight) -> Oversight:
    """The run is to end, along its routes as with any abort."""
    abort = AbortRequest(
        mode=AbortMode.GRACEFUL,
        skip_routes=False,
        principal="",
        reason=WORDS,
        cause=StopReason.PAUSE_EXPIRED,
    )
    return change(oversight, abort=abort, paused=False, pause_expires_unix_ms=None)
