"""One worker's session: what it was given, what it still has to be told, and what becomes of both.

Owns the places of a worker, its invocations in flight, and the reconciliation after a break. Does not own who
is given what (`pool`). Everything happens in one event loop.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from jackline_server.runtime.ports.tool_reports import Report, ToolReport
from jackline_server.runtime.ports.workers import (
    CancelInvocation,
    CancelReason,
    InvokeTool,
    ResultTaken,
    WorkerOrder,
    WorkerProgress,
    WorkerResult,
)
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.tools.worker.offers import Offer

_MOST_ORDERS = 8_192
"""A worker that is told more than this, and takes none of it, is let go."""

_MOST_ANSWERED = 4_096


class Lost(Enum):
    """What became of an invocation that has no result."""

    UNSENT = "unsent"
    SENT = "sent"


Reply = WorkerResult | Lost


@dataclass(slots=True, kw_only=True, eq=False)
class Flight:
    """An invocation that a worker has, or will have once it is told. `reply` is None if nobody waits."""

    order: InvokeTool
    reply: "asyncio.Future[Reply] | None"
    told: bool = False
    why_not: CancelReason = CancelReason.ABORTED
    report: Report | None = None

    def resolve(self, reply: Reply) -> bool:
        """Hand the reply to whoever waits; False if nobody does."""
        waiting, self.reply = self.reply, None
        if waiting is None or waiting.done():
            return False
        waiting.set_result(reply)
        return True


@dataclass(slots=True, eq=False)
class Outbox:
    """What one stream of a session still has to tell. A session that breaks gets a new one."""

    orders: deque[WorkerOrder] = field(default_factory=deque[WorkerOrder])
    refusal: Refused | None = None
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, order: WorkerOrder) -> None:
        """Tell this, after all else; nobody is told anything more on a stream that has to end."""
        if self.refusal is not None:
            return
        self.orders.append(order)
        if len(self.orders) > _MOST_ORDERS:
            self.refuse(
                Refused(Reason.SLOW_CONSUMER, "The worker takes nothing of what it is told. Connect again.")
            )
        self._woken.set()

    def refuse(self, refusal: Refused) -> None:
        """End the stream with this."""
        self.refusal = self.refusal or refusal
        self._woken.set()

    async def take(self) -> WorkerOrder:
        """The next order. Cancelling loses nothing. Raises Refused."""
        while self.refusal is None and not self.orders:
            self._woken.clear()
            await self._woken.wait()
        if self.refusal is not None:
            raise self.refusal
        return self.orders.popleft()


class Session:
    """A worker, for as long as it keeps coming back. `outbox` is None while its stream is broken."""

    def __init__(self, offer: Offer, *, principal: str, started_unix_ms: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.principal = principal
        self.started_unix_ms = started_unix_ms
        self.offer = offer
        self.draining = False
        self.outbox: Outbox | None = None
        self.flights: dict[str, Flight] = {}
        self.last_given = 0
        self._by_tool: Counter[str] = Counter()
        self._answered: OrderedDict[str, None] = OrderedDict()

    @property
    def is_open(self) -> bool:
        """True if it may be given something."""
        return self.outbox is not None and not self.draining

    @property
    def load(self) -> float:
        """How much of its places is taken, 0 to 1 and above."""
        return len(self.flights) / self.offer.max_parallel

    def digest_of(self, tool: str) -> str | None:
        """How it describes a tool; None if it does not serve it."""
        found = self.offer.tools.get(tool)
        return None if found is None else found.digest

    def has_room(self, tool: str) -> bool:
        """True if it has a place for this tool now."""
        found = self.offer.tools.get(tool)
        full = len(self.flights) >= self.offer.max_parallel
        return found is not None and not full and self._by_tool[tool] < found.most

    # --- invocations -----------------------------------------------------------------------------

    def give(self, flight: Flight) -> None:
        """Take a place, and have the worker told."""
        self.flights[flight.order.invocation] = flight
        self._by_tool[flight.order.tool] += 1
        if self.outbox is not None:
            self.outbox.put(flight.order)

    def take_back(self, flight: Flight, reason: CancelReason) -> None:
        """Nobody waits any more: the worker is told so, or never hears of it. Frees its place only then."""
        flight.reply, flight.why_not = None, reason
        if flight.order.invocation not in self.flights:
            return
        if flight.told:
            if self.outbox is not None:
                self.outbox.put(CancelInvocation(invocation=flight.order.invocation, reason=reason))
            return
        if self.outbox is not None and flight.order in self.outbox.orders:
            self.outbox.orders.remove(flight.order)
        self._landed(flight)

    def answer(self, result: WorkerResult) -> bool:
        """Take a result, and have it acknowledged; False if nobody waited for it."""
        if self.outbox is not None:
            self.outbox.put(ResultTaken(invocation=result.invocation))
        flight = self.flights.get(result.invocation)
        if flight is None:
            return result.invocation in self._answered  # it came twice: the acknowledgement was lost
        self._landed(flight)
        self._answered[result.invocation] = None
        if len(self._answered) > _MOST_ANSWERED:
            self._answered.popitem(last=False)
        return flight.resolve(result)

    def show(self, progress: WorkerProgress) -> None:
        """Pass on how far an invocation has come, if somebody waits for it."""
        flight = self.flights.get(progress.invocation)
        if flight is not None and flight.reply is not None and flight.report is not None:
            total = None if progress.fraction is None else 1.0
            flight.report(ToolReport(text=progress.text, done=progress.fraction, total=total))

    def lose(self) -> None:
        """The worker is gone for good, and what it had with it."""
        flights = list(self.flights.values())
        self.flights.clear()
        self._by_tool.clear()
        for flight in flights:
            flight.resolve(Lost.SENT if flight.told else Lost.UNSENT)

    async def next_order(self, outbox: Outbox) -> WorkerOrder:
        """What to tell next on that stream; an invocation counts as told from then on."""
        order = await outbox.take()
        if isinstance(order, InvokeTool) and (flight := self.flights.get(order.invocation)) is not None:
            flight.told = True
        return order

    # --- coming back -----------------------------------------------------------------------------

    def resume(self, offer: Offer, named: Collection[str]) -> Outbox:
        """A new stream, on which the worker is told what it missed.

        `named` are the invocations that it has. Of those that it has not it never heard: they are given to it
        again, or to others if it no longer serves the tool.
        """
        self.offer = offer
        outbox = self.outbox = Outbox()
        for invocation in named:
            flight = self.flights.get(invocation)
            if flight is not None and flight.reply is not None:
                continue
            if flight is None and invocation in self._answered:
                outbox.put(ResultTaken(invocation=invocation))
                continue
            reason = CancelReason.UNKNOWN if flight is None else flight.why_not
            outbox.put(CancelInvocation(invocation=invocation, reason=reason))
        for invocation, flight in list(self.flights.items()):
            if invocation in named:
                continue
            if flight.reply is None:
                self._landed(flight)
            elif flight.order.tool in offer.tools:
                flight.told = False
                outbox.put(flight.order)
            else:
                self._landed(flight)
                flight.resolve(Lost.UNSENT)
        return outbox

    def _landed(self, flight: Flight) -> None:
        del self.flights[flight.order.invocation]
        self._by_tool[flight.order.tool] -= 1
