"""Sends what is owed, endpoint by endpoint, until each delivery is delivered or dead.

Owns when there is another attempt, and how many there are at once. Each endpoint has a lane of its own, so
that a slow one holds up no other; a lane claims no more than it can send at once, so that ten thousand that
are due take no more memory than a few. Within an endpoint no order is promised. A delivery may be sent twice,
under the same id: a process that dies between an answer and its record can't know better.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn, TypeVar

from jackline_server import failpoints
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.http_streams import HttpPools
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.store_errors import StoreError, StoreFull, StoreUnavailable
from jackline_server.runtime.ports.webhooks import (
    AttemptOutcome,
    Claimed,
    DeliveryQueue,
    DeliveryState,
    DueDelivery,
    Settled,
    Tried,
    WebhookEndpoint,
)
from jackline_server.webhooks.messages import trial_message
from jackline_server.webhooks.sending import EndpointSender

T = TypeVar("T")

_SECOND, _MINUTE, _HOUR = 1_000, 60_000, 3_600_000

WAITS_MS = (
    5 * _SECOND,
    5 * _MINUTE,
    30 * _MINUTE,
    2 * _HOUR,
    5 * _HOUR,
    10 * _HOUR,
    14 * _HOUR,
    20 * _HOUR,
    24 * _HOUR,
)
"""How long after each attempt the next one is made; after the last of them a delivery is dead."""

JITTER = 0.2
"""By how much of itself a wait is longer at most, so that what failed together does not come together."""

POLL_MS = 30_000
"""How long a lane that is told nothing waits, at most: another process may have written something."""

CLAIM_MARGIN_MS = 60_000
"""How much longer than an attempt takes a delivery stays claimed."""

_LEAVE_S = 2.0
_STORE_RETRY_MS = 250

_log = logging.getLogger(__name__)


@frozen
class DeliveryTools:
    """What all lanes share."""

    queue: DeliveryQueue
    pools: HttpPools
    clock: Clock
    chance: Chance


class Deliverer:
    """Implements `runtime.ports.webhooks.WebhookSender`. Run it in a task; `close` it when that has ended."""

    def __init__(self, endpoints: Sequence[WebhookEndpoint], *, tools: DeliveryTools) -> None:
        self._lanes: Mapping[str, _Lane] = {one.name: _Lane(one, tools=tools) for one in endpoints}
        self._clock = tools.clock
        self._chance = tools.chance

    async def run(self) -> NoReturn:
        """Deliver until it is cancelled. What is being sent then has a moment to come to its end."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes.values():
                group.create_task(lane.run())
        raise AssertionError("lanes end by being cancelled")

    async def close(self) -> None:
        """Close every connection."""
        for lane in self._lanes.values():
            await lane.sender.close()

    def nudge(self) -> None:
        """See WebhookSender."""
        for lane in self._lanes.values():
            lane.nudge()

    async def test(self, name: str) -> Tried:
        """See WebhookSender. An endpoint that was left alone is told things again if this succeeds."""
        lane = self._lanes[name]
        message_id = self._chance.new_id("msg_test_")
        tried = await lane.sender.send(message_id, trial_message(name, unix_ms=self._clock.unix_ms()))
        if tried.outcome is AttemptOutcome.DELIVERED:
            lane.open_again()
        return tried

    def stopped_unix_ms(self, name: str) -> int | None:
        """See WebhookSender."""
        return self._lanes[name].stopped_unix_ms


class _Lane:
    """What is owed to one endpoint."""

    def __init__(self, endpoint: WebhookEndpoint, *, tools: DeliveryTools) -> None:
        self._endpoint = endpoint
        self._tools = tools
        self._awake = asyncio.Event()
        self._sending: set[asyncio.Task[None]] = set()
        self.sender = EndpointSender(endpoint, pools=tools.pools, clock=tools.clock)
        self.stopped_unix_ms: int | None = None

    def nudge(self) -> None:
        """Look for what is due."""
        self._awake.set()

    def open_again(self) -> None:
        """The endpoint is there after all."""
        self.stopped_unix_ms = None
        self.nudge()

    async def run(self) -> NoReturn:
        """Deliver until cancelled."""
        try:
            while True:
                self._awake.clear()
                room = self._endpoint.concurrency - len(self._sending)
                wait_ms = POLL_MS
                if room and self.stopped_unix_ms is None:
                    wait_ms = await self._send_due(room)
                if wait_ms > 0:
                    await self._rest(wait_ms)
        finally:
            await self._leave()

    async def _send_due(self, room: int) -> int:
        """Begin as many attempts as there is room for; how long until there is something to do again."""
        claimed = await self._claim(room)
        if claimed is None:
            return _STORE_RETRY_MS
        for due in claimed.due:
            task = asyncio.create_task(self._deliver(due), name=f"webhook {self._endpoint.name}")
            self._sending.add(task)
            task.add_done_callback(self._done)
        if len(claimed.due) == room:
            return POLL_MS  # the end of an attempt wakes the lane
        if claimed.next_unix_ms is None:
            return POLL_MS
        return min(max(claimed.next_unix_ms - self._tools.clock.unix_ms(), 1), POLL_MS)

    async def _claim(self, room: int) -> Claimed | None:
        now = self._tools.clock.unix_ms()
        try:
            return await self._tools.queue.claim(
                self._endpoint.name,
                now_unix_ms=now,
                until_unix_ms=now + self._endpoint.timeout_ms + CLAIM_MARGIN_MS,
                limit=room,
            )
        except StoreError as error:
            _log.warning("webhook %s: the store can't be asked: %s", self._endpoint.name, error)
            return None

    async def _rest(self, wait_ms: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1000):
                await self._awake.wait()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        self._awake.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("webhook %s: an attempt broke off", self._endpoint.name, exc_info=error)

    async def _leave(self) -> None:
        """Let what is being sent come to its end within a moment; the rest is sent again, under its id."""
        if self._sending:
            _, late = await asyncio.wait(self._sending, timeout=_LEAVE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _deliver(self, due: DueDelivery) -> None:
        await failpoints.hit_async("webhook.after_claim_before_send")
        tried = await self.sender.send(due.delivery_id, due.body)
        settled = self._settled(due, tried)
        await _kept(lambda: self._tools.queue.settle(settled), clock=self._tools.clock)
        if tried.outcome is AttemptOutcome.GONE and self.stopped_unix_ms is None:
            self.stopped_unix_ms = settled.ended_unix_ms
            _log.warning("webhook %s: it says that it is gone; nothing is sent to it", self._endpoint.name)
        if settled.state is DeliveryState.DEAD:
            _log.warning(
                "webhook %s: %s is dead after %d tries: %s %d",
                self._endpoint.name,
                due.delivery_id,
                due.tries,
                tried.outcome.value,
                tried.status,
            )

    def _settled(self, due: DueDelivery, tried: Tried) -> Settled:
        now = self._tools.clock.unix_ms()
        state = DeliveryState.DELIVERED
        wait_ms: int | None = None
        if tried.outcome is not AttemptOutcome.DELIVERED:
            wait_ms = wait_after(due.tries, tried, fraction=self._tools.chance.fraction())
            state = DeliveryState.DEAD if wait_ms is None else DeliveryState.PENDING
        return Settled(
            delivery_id=due.delivery_id,
            attempt=due.attempt,
            ended_unix_ms=now,
            took_ms=tried.took_ms,
            outcome=tried.outcome,
            status=tried.status,
            state=state,
            due_unix_ms=None if wait_ms is None else now + wait_ms,
        )


def wait_after(tries: int, tried: Tried, *, fraction: float) -> int | None:
    """How long after so many tries, none of which succeeded, the next one is made; None if there is none."""
    if tried.outcome is AttemptOutcome.GONE or tries > len(WAITS_MS):
        return None
    wait_ms = max(WAITS_MS[tries - 1], tried.retry_after_ms or 0)
    return wait_ms + int(wait_ms * JITTER * fraction)


async def _kept(write: Callable[[], Awaitable[T]], *, clock: Clock) -> T:
    """Write until the store takes it: what was sent is not forgotten because a disk was full."""
    while True:
        try:
            return await write()
        except (StoreFull, StoreUnavailable):
            await clock.sleep(_STORE_RETRY_MS)
