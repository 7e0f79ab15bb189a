"""One pool: the workers that serve it, the calls that wait for one, and what its tools are.

Owns who is given what: the least busy worker that describes a tool as the call wants it, and the line of
those who wait, which holds no place of the pool. Does not own what a result means (`calls`), nor the streams
(the door).
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from itertools import count

from jackline_server.core.frozen import change
from jackline_server.runtime.pinned_tools import Catalog
from jackline_server.runtime.ports.connection_views import ConnectionState, ConnectionView, PoolCounts
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.tool_reports import Report
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitFor
from jackline_server.runtime.ports.workers import (
    CancelReason,
    InvokeTool,
    PoolView,
    ServerLeaves,
    WorkerConnection,
    WorkerTool,
    WorkerView,
)
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.tools.catalogs import ServerDown
from jackline_server.tools.guards import NoPlace, Place
from jackline_server.tools.worker.comings import Comings
from jackline_server.tools.worker.offers import Offer
from jackline_server.tools.worker.places import PoolPlaces
from jackline_server.tools.worker.session import Flight, Outbox, Reply, Session

_NOBODY = "no worker that serves it has connected to this server yet"


class Served(Enum):
    """Who could run a tool as it is wanted."""

    YES = "yes"
    CHANGED = "changed"
    """Workers serve it, and each describes it differently."""
    NO = "no"


@dataclass(slots=True, kw_only=True, eq=False)
class Waiter:
    """A call in line. `session` is what took it, `place` its place in the pool, `none` why it gets none.

    `woken` says that something has changed.
    """

    order: InvokeTool
    digest: str
    shunned: Collection[str]
    reply: "asyncio.Future[Reply]"
    report: Report | None = None
    flight: Flight | None = None
    session: Session | None = None
    place: Place | None = None
    none: NoPlace | None = None
    number: int = 0
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def suits(self, session: Session) -> bool:
        """True if that worker serves the tool as the call wants it."""
        found = session.digest_of(self.order.tool)
        return found is not None and self.digest in ("", found) and session.token not in self.shunned


class WorkerPool:
    """A connection of kind `worker`. Implements `CatalogLink`."""

    def __init__(self, connection: WorkerConnection, *, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self.guard = PoolPlaces(connection, on_room=self._hand_out)
        self.known: Catalog | None = None
        self.problem = _NOBODY
        self.dropped = 0
        self._sessions: dict[str, Session] = {}
        self._line: dict[str, deque[Waiter]] = {}
        self._graces: dict[str, asyncio.TimerHandle] = {}
        self._turns = count(1)
        self._numbers = count(1)
        self._leaving = False
        self._comings = Comings(connection.name)

    @property
    def connection(self) -> WorkerConnection:
        """What the operator says of it."""
        return self._connection

    async def catalog(self, *, max_age_s: float) -> Catalog:
        """What is served now, or was last. Raises ServerDown."""
        del max_age_s
        if self.known is None:
            raise ServerDown(self.problem)
        return self.known

    # --- workers ---------------------------------------------------------------------------------

    def join(self, offer: Offer, *, principal: str, draining: bool) -> tuple[Session, Outbox]:
        """A new worker. Raises Refused (WORKER_LIMIT)."""
        most = self._connection.most_workers
        if len(self._sessions) >= most:
            raise Refused(
                Reason.WORKER_LIMIT,
                f"The pool has {most} workers, as many as it may have. Try again later.",
                metadata={"limit": str(most)},
            )
        session = Session(offer, principal=principal, started_unix_ms=self._clock.unix_ms())
        self._sessions[session.token] = session
        self._comings.say("a worker has joined", session)
        return session, self._opened(session, session.resume(offer, ()), draining=draining)

    def resumed(
        self, token: str, offer: Offer, *, principal: str, named: Collection[str], draining: bool
    ) -> tuple[Session, Outbox] | None:
        """A worker that comes back; None if it is not known any more."""
        session = self._sessions.get(token)
        if session is None or session.principal != principal:
            return None
        if session.outbox is not None:
            session.outbox.refuse(
                Refused(Reason.WORKER_SESSION_TAKEN, "Another stream has resumed this session.")
            )
        if (grace := self._graces.pop(token, None)) is not None:
            grace.cancel()
        outbox = session.resume(offer, frozenset(named))
        self._comings.say("a worker has come back", session)
        return session, self._opened(session, outbox, draining=draining)

    def closed(self, session: Session, outbox: Outbox, *, leaving: bool) -> None:
        """A stream has ended. The worker is gone, at once or when its time to come back is over."""
        if session.outbox is not outbox:
            return  # another stream has taken over
        session.outbox = None
        if leaving or self._leaving:
            self._comings.say("a worker has left", session)
            self._lose(session)
            return
        self._comings.say("a worker's stream has ended; it may come back", session)
        grace_s = self._connection.resume_grace_ms / 1000
        loop = asyncio.get_running_loop()
        self._graces[session.token] = loop.call_later(grace_s, self._give_up, session)
        self._wake()

    def drained(self, session: Session) -> None:
        """The worker wants nothing more, and is told once nothing more can come."""
        if not session.draining:
            self._comings.say("a worker is leaving", session)
        session.draining = True
        if session.outbox is not None:
            session.outbox.put(ServerLeaves(grace_ms=None))
        self._wake()

    def leave(self, *, grace_ms: int) -> None:
        """The server goes: tell everybody."""
        self._leaving = True
        for session in self._sessions.values():
            if session.outbox is not None:
                session.outbox.put(ServerLeaves(grace_ms=grace_ms))

    def close(self) -> None:
        """Wait for nobody to come back."""
        for grace in self._graces.values():
            grace.cancel()
        self._graces.clear()
        self.guard.close()

    def _opened(self, session: Session, outbox: Outbox, *, draining: bool) -> Outbox:
        session.draining = False
        if draining:
            self.drained(session)
        self._learn()
        self._hand_out()
        self._wake()
        return outbox

    def _give_up(self, session: Session) -> None:
        self._comings.say("a worker is lost: it did not come back in time", session)
        self._lose(session)

    def _lose(self, session: Session) -> None:
        self._graces.pop(session.token, None)
        self._sessions.pop(session.token, None)
        session.lose()
        self._learn()
        self._wake()

    def _learn(self) -> None:
        """What is served, the newest word counting. With nobody there it stays what it was."""
        sessions = self._sessions.values()  # in the order of their beginning
        found = {name: tool.pinned for one in sessions for name, tool in one.offer.tools.items()}
        if found:
            self.known = found

    # --- calls -----------------------------------------------------------------------------------

    def served(self, tool: str, digest: str, shunned: Collection[str] = ()) -> Served:
        """Whether somebody who is connected serves a tool as it is wanted."""
        found = {
            session.digest_of(tool)
            for session in self._sessions.values()
            if session.is_open and session.token not in shunned
        }
        found.discard(None)
        if not found:
            return Served.NO
        return Served.YES if not digest or digest in found else Served.CHANGED

    def wait_for(self, tool: str, served: Served) -> ToolWait:
        """What a call waits for while a tool is so served."""
        connected = [one for one in self._sessions.values() if one.outbox is not None]
        if served is Served.NO:
            return ToolWait(what=WaitFor.WORKER, connection=self._connection.name, count=len(connected))
        if (in_the_way := self.guard.in_the_way()) is not None:
            return in_the_way
        serving = [one for one in connected if one.is_open and tool in one.offer.tools]
        return ToolWait(what=WaitFor.WORKER_PLACE, connection=self._connection.name, count=len(serving))

    def enter(self, waiter: Waiter) -> None:
        """Let a call stand in line; it is given to a worker at once if there is room and nobody before it."""
        waiter.number = next(self._numbers)
        self._line.setdefault(waiter.order.tool, deque()).append(waiter)
        self._hand_out()

    def withdraw(self, waiter: Waiter, reason: CancelReason) -> None:
        """The call is given up, wherever it is."""
        if waiter.session is not None and waiter.flight is not None:
            waiter.session.take_back(waiter.flight, reason)
            self._hand_out()
        elif waiter in self._line.get(waiter.order.tool, ()):
            self._leave_line(waiter)

    def answered(self, *, took: bool) -> None:
        """A result came: somebody in line may have the place."""
        self.dropped += not took
        self._hand_out()

    def _hand_out(self) -> None:
        """Give workers with room what waits for them, the oldest first, as far as the pool has places."""
        if self._leaving or not self._line:
            return
        while self.guard.has_room and (found := self._first()) is not None:
            waiter, session = found
            self._leave_line(waiter)
            try:
                waiter.place = self.guard.take()
            except NoPlace as none:
                waiter.none = none
            else:
                self._give(waiter, session)
            waiter.woken.set()

    def _first(self) -> tuple[Waiter, Session] | None:
        """The oldest that a worker could be given now, and the least busy of those workers."""
        first: tuple[Waiter, Session] | None = None
        for tool, line in self._line.items():
            able = [one for one in self._sessions.values() if one.is_open and one.has_room(tool)]
            for waiter in line if able else ():
                if first is not None and first[0].number < waiter.number:
                    break
                if fit := [one for one in able if waiter.suits(one)]:
                    first = waiter, min(fit, key=lambda one: (one.load, one.last_given))
                    break
        return first

    def _leave_line(self, waiter: Waiter) -> None:
        line = self._line[waiter.order.tool]
        line.remove(waiter)
        if not line:
            del self._line[waiter.order.tool]

    def _give(self, waiter: Waiter, session: Session) -> None:
        flight = Flight(order=waiter.order, reply=waiter.reply, report=waiter.report)
        waiter.flight, waiter.session = flight, session
        session.last_given = next(self._turns)
        session.give(flight)

    def _wake(self) -> None:
        for line in self._line.values():
            for waiter in line:
                waiter.woken.set()

    # --- views -----------------------------------------------------------------------------------

    def view(self) -> PoolView:
        """The pool and its workers."""
        offers: dict[str, WorkerTool] = {}
        for session in self._sessions.values():
            offers |= {name: tool.offer for name, tool in session.offer.tools.items()}
        return PoolView(
            name=self._connection.name,
            workers=[_view(session) for session in self._sessions.values()],
            tools=[offers[name] for name in sorted(offers)],
            waiting=sum(map(len, self._line.values())),
            dropped_results=self.dropped,
        )

    def connection_view(self) -> ConnectionView:
        """The pool as one of the server's connections. Calls that have a worker are in flight."""
        sessions = self._sessions.values()
        connected = [one for one in sessions if one.outbox is not None]
        taking = [one for one in connected if not one.draining]
        counts = PoolCounts(
            connected=len(connected),
            draining=len(connected) - len(taking),
            away=len(sessions) - len(connected),
            places=sum(one.offer.max_parallel for one in taking),
            taken=sum(len(one.flights) for one in taking),
        )
        state = ConnectionState.READY if taking else ConnectionState.NO_WORKER
        waiting = sum(map(len, self._line.values()))
        return change(self.guard.view(state), waiting=waiting, pool=counts)


def _view(session: Session) -> WorkerView:
    return WorkerView(
        worker=session.offer.worker,
        principal=session.principal,
        started_unix_ms=session.started_unix_ms,
        connected=session.outbox is not None,
        draining=session.draining,
        tools=sorted(session.offer.tools),
        max_parallel=session.offer.max_parallel,
        in_flight=len(session.flights),
    )


def new_invocation() -> str:
    """A name for an invocation that nobody can guess."""
    return f"inv_{secrets.token_hex(12)}"
