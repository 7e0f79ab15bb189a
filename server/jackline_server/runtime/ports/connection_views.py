"""How the connections of a config do just now: shapes and port between who has them and who shows them.

Owns nothing that is asked: a view is a look at what is known, and asks nobody. Times are milliseconds.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from jackline_server.core.frozen import change, frozen


class ConnectionKind(Enum):
    """What is at the other end. In the order in which they are listed."""

    HTTP = "http"
    MCP = "mcp"
    GRPC = "grpc"
    SQL = "sql"
    WORKER = "worker"
    MODEL = "model"


class ConnectionState(Enum):
    """How a connection does."""

    UNUSED = "unused"
    """Nothing was asked of it yet."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """The next call tries again."""

    LEFT_ALONE = "left_alone"
    """By its breaker: calls fail at once."""

    NO_WORKER = "no_worker"
    """Nobody is connected to the pool."""


@frozen
class PoolCounts:
    """The workers of a pool. `connected` counts those that are leaving too, `places` does not."""

    connected: int
    draining: int
    away: int
    places: int
    taken: int


@frozen
class ConnectionView:
    """One connection. `problem` says why it failed, in words for a person, and may repeat what was answered.

    `calls_left` of `calls_per_minute` may begin now; both None without a rate. `breaker_failures` in a row
    open its breaker, 0 never; `left_alone_ms` is how long it is still left alone. `pool` is None but for
    workers.
    """

    name: str
    kind: ConnectionKind
    state: ConnectionState
    concurrency: int
    in_flight: int = 0
    waiting: int = 0
    problem: str = ""
    calls_per_minute: int | None = None
    calls_left: int | None = None
    failures: int = 0
    breaker_failures: int = 0
    left_alone_ms: int = 0
    pool: PoolCounts | None = None


class ConnectionSource(Protocol):
    """Somebody who has connections of one kind."""

    def views(self) -> Sequence[ConnectionView]:
        """How each does, in any order. At once, and in the event loop that they serve."""
        ...


class Connections:
    """The connections of every kind."""

    def __init__(self, *sources: ConnectionSource, veil: Callable[[str], str] = str) -> None:
        """`veil` takes out of a problem's words what nobody may read: an answer can hold a secret."""
        self._sources = sources
        self._veil = veil

    def views(self) -> Sequence[ConnectionView]:
        """How each does, by kind and name."""
        order = list(ConnectionKind)
        found = [one for source in self._sources for one in source.views()]
        found.sort(key=lambda one: (order.index(one.kind), one.name))
        return [change(one, problem=self._veil(one.problem)) if one.problem else one for one in found]
