"""Visits of steps."""

from jackline_server.core.facts.runs import StopReason
from jackline_server.core.frozen import frozen


@frozen
class StepStarted:
    """A visit of a step began. `steps` counts all visits of the run, this one included."""

    step_id: str
    visit: int
    steps: int


@frozen
class StepFinished:
    """A visit ended. `next_step` is empty if the run ends here.

    `writes` names the changed keys of the context; their values are in `writes_json`, an object.
    """

    signal: str
    stop_reason: StopReason
    stop_leaf: str
    partial: bool
    next_step: str
    writes: tuple[str, ...]
    writes_json: str  # content
    result_json: str | None  # content
    error: str  # content
