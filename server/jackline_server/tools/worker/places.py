"""The places of a pool: how many calls its workers have, how many begin in a minute, and when none does.

Owns the cap, the rate and the breaker of a pool. Does not own the line of those who wait (`pool`): a call
takes a place when a worker is given it, so that whoever waits for a worker holds up nobody else.
"""

import asyncio
from collections.abc import Callable

from jackline_server.core.frozen import change
from jackline_server.runtime.allowances import MinuteAllowance
from jackline_server.runtime.ports.connection_guards import GuardedConnection
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionState, ConnectionView
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitFor
from jackline_server.tools.guards import Circuit, NoPlace, Place, no_more_in_this_minute


class PoolPlaces:
    """Places of one pool. `on_room` is called when there may be room again. Use it in one event loop."""

    def __init__(self, connection: GuardedConnection, *, on_room: Callable[[], None]) -> None:
        per_minute = connection.calls_per_minute
        self._connection = connection
        self._most = connection.concurrency
        self._minute = None if per_minute is None else MinuteAllowance(per_minute)
        self._on_room = on_room
        self._next_minute: asyncio.TimerHandle | None = None
        self.circuit = Circuit(connection.name, connection.breaker)
        self.in_flight = 0

    def check(self, deadline: float) -> None:
        """Raises NoPlace if there is none before the deadline, as far as can be told now."""
        self.circuit.check()
        now = asyncio.get_running_loop().time()
        if (wait_s := self._wait_s(now)) and now + wait_s >= deadline:
            raise NoPlace(no_more_in_this_minute(wait_s))

    @property
    def has_room(self) -> bool:
        """True if a worker may be given a call now. If only the minute is in the way, `on_room` follows."""
        if self.in_flight >= self._most:
            return False
        loop = asyncio.get_running_loop()
        if not (wait_s := self._wait_s(loop.time())):
            return True
        if self._next_minute is None:
            self._next_minute = loop.call_later(wait_s, self._in_the_next_minute)
        return False

    def in_the_way(self) -> ToolWait | None:
        """What of the pool's own limits keeps calls from their workers now; None if neither does."""
        name = self._connection.name
        if self.in_flight >= self._most:
            return ToolWait(what=WaitFor.PLACE, connection=name, count=self._most)
        if self._wait_s(asyncio.get_running_loop().time()):
            return ToolWait(what=WaitFor.RATE, connection=name, count=self._connection.calls_per_minute or 0)
        return None

    def view(self, state: ConnectionState) -> ConnectionView:
        """How the pool does, by its limits and its breaker. `state` is by its workers."""
        now = asyncio.get_running_loop().time()
        return change(
            self.circuit.view(ConnectionKind.WORKER, self._connection, state=state, problem=""),
            in_flight=self.in_flight,
            calls_left=None if self._minute is None else self._minute.left(now),
        )

    def take(self) -> Place:
        """A place, where there is room. Raises NoPlace if the pool is left alone."""
        probes = self.circuit.enter()
        if self._minute is not None:
            self._minute.spend(1, asyncio.get_running_loop().time())
        self.in_flight += 1
        return Place(self.circuit, self._released, probes=probes)

    def close(self) -> None:
        """Wait for no minute any more."""
        if self._next_minute is not None:
            self._next_minute.cancel()

    def _released(self) -> None:
        self.in_flight -= 1
        self._on_room()

    def _in_the_next_minute(self) -> None:
        self._next_minute = None
        self._on_room()

    def _wait_s(self, now: float) -> float:
        return 0 if self._minute is None else self._minute.wait_s(1, now)
