"""What keeps tool calls from beginning, while it does: shapes between the tools and whoever is told of it.

Does not own what is waited for (the tools' guards and pools), nor what becomes of the word (`waiting`).
"""

from collections.abc import Callable
from enum import Enum

from jackline_server.core.frozen import frozen


class WaitFor(Enum):
    """What a call waits for. What `ToolWait.count` is goes with it."""

    PLACE = "place"
    """A place of the connection, of `count`."""

    RATE = "rate"
    """A minute in which fewer than `count` calls have begun."""

    WORKER = "worker"
    """A worker that serves the tool; `count` are connected to the pool."""

    WORKER_PLACE = "worker_place"
    """A place of a worker; `count` serve the tool."""


@frozen
class ToolWait:
    """What one call waits for. `connection` is the name in the operator's config."""

    what: WaitFor
    connection: str
    count: int


@frozen
class WaitingCall:
    """A call that waits."""

    call_id: str
    tool: str
    step_id: str
    iteration: int
    since_unix_ms: int
    wait: ToolWait


OnWait = Callable[[ToolWait | None], None]
"""Is told what an attempt waits for, each time that changes, and None once it waits no more."""


def unheard(wait: ToolWait | None) -> None:
    """An `OnWait` for whoever is not interested."""
    del wait
