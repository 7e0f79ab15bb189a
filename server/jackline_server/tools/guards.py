"""The guard of one connection: how many calls are in flight, how many begin in a minute, and when none does.

Owns the slots, the rate and the breaker of a connection, whatever its kind; every call of a tool over a
connection takes a place here first. Does not own the connection, nor what an answer means: that a failure is
the connection's own is what the tool says of its result (`ToolResult.connection_failed`).

A breaker counts the failures of a connection in a row, over all runs. At its limit the connection is left
alone: calls fail at once and certainly. After the cool-off one call is let through; if it succeeds, so are
the others, else the connection is left alone for as long again. Whatever comes back over a connection shows
that it is there, also a refusal or an error of the tool.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from jackline_server.core.frozen import change
from jackline_server.runtime.allowances import MinuteAllowance
from jackline_server.runtime.ports.connection_guards import Breaker, GuardedConnection
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionState, ConnectionView
from jackline_server.runtime.ports.tool_waits import OnWait, ToolWait, WaitFor, unheard
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.results import failed

_log = logging.getLogger(__name__)

FAIR_MS = 5_000
"""Less time than this, and than the operator gives a connection, says nothing about it once it is over."""

_ALMOST = 0.9
"""How much of it is enough: a call that had its place at once has spent some milliseconds all the same."""


class NoPlace(Exception):
    """No call can be made now. `result` says so to whoever wanted one: nothing was called."""

    def __init__(self, result: ToolResult) -> None:
        super().__init__(result.error)
        self.result = result


class Place:
    """A place for one call. Give it back in any case, and say what came of the call if anything did."""

    __slots__ = ("_circuit", "_on_release", "_probes")

    def __init__(self, circuit: "Circuit", on_release: Callable[[], None], *, probes: bool) -> None:
        """`probes`: the call is to show whether the connection is back. `on_release` is called once."""
        self._circuit = circuit
        self._on_release: Callable[[], None] | None = on_release
        self._probes = probes

    def heard(self, result: ToolResult) -> None:
        """What came of the call. Not to be said of a call that was cancelled: that shows nothing."""
        probed, self._probes = self._probes, False
        self._circuit.learn(problem=result.connection_problem, probed=probed)

    def release(self) -> None:
        """Give the place back. Twice does no harm."""
        on_release, self._on_release = self._on_release, None
        if on_release is None:
            return
        if self._probes:
            self._circuit.leave_open()  # it has shown nothing
        on_release()


class Guard:
    """Guards one connection. Use it in one event loop."""

    def __init__(self, connection: GuardedConnection) -> None:
        self._connection = connection
        per_minute = connection.calls_per_minute
        self._free = asyncio.Semaphore(connection.concurrency)
        self._minute = None if per_minute is None else MinuteAllowance(per_minute)
        self.circuit = Circuit(connection.name, connection.breaker)
        self.in_flight = 0
        self.waiting = 0

    async def run(
        self, deadline: float, call: Callable[[], Awaitable[ToolResult]], *, on_wait: OnWait = unheard
    ) -> ToolResult:
        """The result of the call once there is a place for it, or that there was none before the deadline.

        `deadline` is of the event loop's clock. `on_wait` is told what the call waits for, if it has to.
        """
        try:
            place = await self.take(deadline, on_wait=on_wait)
        except NoPlace as none:
            return none.result
        try:
            result = await call()
            place.heard(result)
            return result
        finally:
            place.release()

    async def take(self, deadline: float, *, on_wait: OnWait = unheard) -> Place:
        """A place for one call, in the order of asking. Raises NoPlace; being cancelled takes none."""
        self.circuit.check()
        if self._free.locked():
            with self._waiting_for(WaitFor.PLACE, self._connection.concurrency, on_wait):
                await self._wait_for_place(deadline)
        else:
            await self._free.acquire()
        try:
            if self._minute is not None:
                await self._wait_for_minute(self._minute, deadline, on_wait)
            probes = self.circuit.enter()
        except BaseException:
            self._free.release()
            raise
        self.in_flight += 1
        return Place(self.circuit, self._released, probes=probes)

    def _released(self) -> None:
        self.in_flight -= 1
        self._free.release()

    def view(
        self, kind: ConnectionKind, *, state: ConnectionState | None = None, problem: str = ""
    ) -> ConnectionView:
        """How the connection does; see `Circuit.view`."""
        minute = self._minute
        return change(
            self.circuit.view(kind, self._connection, state=state, problem=problem),
            in_flight=self.in_flight,
            waiting=self.waiting,
            calls_left=None if minute is None else minute.left(asyncio.get_running_loop().time()),
        )

    async def _wait_for_place(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._free.acquire()
        except TimeoutError:
            message = "The connection was busy for the whole time; nothing was called."
            raise NoPlace(failed(message, may_pass=True)) from None

    async def _wait_for_minute(self, minute: MinuteAllowance, deadline: float, on_wait: OnWait) -> None:
        loop = asyncio.get_running_loop()
        while (wait_s := minute.wait_s(1, loop.time())) > 0:
            if loop.time() + wait_s >= deadline:
                raise NoPlace(no_more_in_this_minute(wait_s))
            with self._waiting_for(WaitFor.RATE, self._connection.calls_per_minute or 0, on_wait):
                await asyncio.sleep(wait_s)
        minute.spend(1, loop.time())

    @contextmanager
    def _waiting_for(self, what: WaitFor, count: int, on_wait: OnWait) -> Generator[None]:
        self.waiting += 1
        on_wait(ToolWait(what=what, connection=self._connection.name, count=count))
        try:
            yield
        finally:
            self.waiting -= 1
            on_wait(None)


class Circuit:
    """Whether a connection is left alone. Use it in one event loop."""

    def __init__(self, name: str, breaker: Breaker) -> None:
        self._name = name
        self._breaker = breaker
        self._probing = False
        self._until: float | None = None
        self.failures = 0
        """How often it has failed in a row."""
        self.problem = ""
        """Why it failed last; empty if it did not."""
        self.was_asked = False
        """Whether any call has ended, however."""

    @property
    def is_open(self) -> bool:
        """True while the connection is left alone, and while one call finds out whether it is back."""
        return self._until is not None

    @property
    def left_ms(self) -> int:
        """How long it is still left alone; 0 if it is not, or if the next call finds out."""
        if self._until is None:
            return 0
        return max(int((self._until - asyncio.get_running_loop().time()) * 1000), 0)

    def view(
        self,
        kind: ConnectionKind,
        connection: GuardedConnection,
        *,
        state: ConnectionState | None,
        problem: str,
    ) -> ConnectionView:
        """How the connection does. `state` and `problem` are its link's word, which failed calls outweigh.

        That there is nobody in a pool is certain, and says more than that its last worker failed.
        """
        if self.is_open:
            state, problem = ConnectionState.LEFT_ALONE, self.problem
        elif self.failures and state is not ConnectionState.NO_WORKER:
            state, problem = ConnectionState.FAILED, self.problem
        elif state is None:
            state = ConnectionState.READY if self.was_asked else ConnectionState.UNUSED
        return ConnectionView(
            name=connection.name,
            kind=kind,
            state=state,
            problem=problem,
            concurrency=connection.concurrency,
            calls_per_minute=connection.calls_per_minute,
            failures=self.failures,
            breaker_failures=connection.breaker.failures,
            left_alone_ms=self.left_ms,
        )

    def check(self) -> None:
        """Raises NoPlace while the connection is left alone."""
        if self._until is None or (not self._probing and self.left_ms == 0):
            return
        alone = f"is left alone for {-(-self.left_ms // 1000)} s more"
        if self._probing:
            alone = "one call is finding out whether it is back"
        raise NoPlace(
            failed(
                f"The connection {self._name!r} has failed {self.failures} times in a row and {alone}; "
                f"nothing was called. The last failure: {self.problem}",
                may_pass=True,
            )
        )

    def enter(self) -> bool:
        """Let a call begin; True if it is the one that finds out. Raises NoPlace."""
        self.check()
        self._probing = self._until is not None
        return self._probing

    def learn(self, *, problem: str, probed: bool) -> None:
        """A call has ended: `problem` is why the connection failed, if it did; `probed` calls find out."""
        self.was_asked = True
        if not problem:
            if self._until is not None:
                _log.info("a connection is back", extra={"connection": self._name})
            self.problem = ""
            self.failures, self._until, self._probing = 0, None, False
            return
        if self._until is not None and not probed:
            return  # it began before the connection was left alone, and says nothing of how it is now
        self.failures += 1
        self.problem = problem
        if self._until is None and not 0 < self._breaker.failures <= self.failures:
            return
        self._until = asyncio.get_running_loop().time() + self._breaker.cool_off_ms / 1000
        self._probing = False
        _log.warning(
            "a connection is left alone",
            extra={
                "connection": self._name,
                "failures": self.failures,
                "cool_off_ms": self._breaker.cool_off_ms,
            },
        )

    def leave_open(self) -> None:
        """The call that was to find out has shown nothing: the next one does."""
        self._probing = False


def no_more_in_this_minute(wait_s: float) -> ToolResult:
    """The result of a call that would have to wait too long for the next minute."""
    message = "The connection takes no more calls in this minute; nothing was called."
    return failed(message, may_pass=True, retry_after_ms=int(wait_s * 1000) + 1)


def from_here(invocation: Invocation, deadline: float) -> Invocation:
    """The call once it has its place: what is left of its time is all that the connection is given.

    `deadline` is of the event loop's clock.
    """
    left_ms = int((deadline - asyncio.get_running_loop().time()) * 1000)
    return change(invocation, timeout_ms=max(left_ms, 1))


def is_fair(left_ms: int, connection_timeout_ms: int) -> bool:
    """True if a call gives a connection so much time that being late is the connection's own failure.

    `left_ms` is what the call had when it got its place: waiting for others says nothing of a connection.
    """
    return left_ms >= _ALMOST * min(connection_timeout_ms, FAIR_MS)
