"""What those who were asked around the loop have said: the part of a run's state that gates need.

Owns the shapes. `evolve_gates` changes them, `gatekeeping` reads them. A run whose plan asks nobody has none.
"""

from jackline_server.core.facts import CallProblem, FailureClass, ModelCallStarted
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import Metadata, Point

Heard = tuple[Point, str, str]
"""An answer that is there: the point, what it was about (a call, a count, or nothing), who gave it."""

NOTHING_HEARD: frozenset[Heard] = frozenset()


@frozen
class Veto:
    """A hook ended the step, or the run."""

    who: str
    reason: str


@frozen
class Denial:
    """A call that may not start. `ends` leaves the step as well."""

    call_id: str
    who: str
    problem: CallProblem
    reason: str
    ends: bool


@frozen
class Refusal:
    """What a judge did not let pass: the input of a step, or its answer."""

    point: Point
    who: str
    reason: str


@frozen
class Trial:
    """A judge at work. `said` is its reply, unread; `failed` attempts and their last failure, if any.

    `retry_at_active_ms` is None if no further attempt follows.
    """

    said: str | None = None
    failed: int = 0
    last: FailureClass | None = None
    error: str = ""
    retry_at_active_ms: int | None = None


@frozen
class Gates:
    """All of it. `metadata` stays for the whole run, the rest for a step.

    `began` is true from the first call of the step's conversation on, `newest` the announcement of its newest
    reply until the next call, and `redone` how often a hook had that reply asked for anew.
    """

    metadata: Metadata
    heard: frozenset[Heard] = NOTHING_HEARD
    veto: Veto | None = None
    denials: tuple[Denial, ...] = ()
    refusal: Refusal | None = None
    trial: Trial | None = None
    began: bool = False
    newest: ModelCallStarted | None = None
    redone: int = 0
