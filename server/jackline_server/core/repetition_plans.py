"""When repeated calls end a step, as the plan holds it. `repetition` reads it."""

from enum import Enum

from jackline_server.core.frozen import frozen


class RepeatBy(Enum):
    """By what a turn counts as the same as an earlier one."""

    ARGS_RESULT = "args_result"
    ARGS = "args"
    NAME = "name"


@frozen
class RepeatPlan:
    """When repeated calls end a step: `repetition` reads it. `nudge` says that the model is told first."""

    by: RepeatBy
    count: int
    nudge: bool
