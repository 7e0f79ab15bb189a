"""When there is another attempt, how many at once, and when it is over.

Time is virtual where days pass; the endpoint there is a double at the port of HTTP.
"""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.ports.http_streams import HttpAnswer, HttpPool, PoolSettings
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import StoreFull, StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.webhooks import (
    AttemptOutcome,
    Claimed,
    DeliveryQuery,
    DeliveryQueue,
    DeliveryRow,
    DeliveryState,
    Settled,
    Sweep,
    WebhookEndpoint,
)
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.webhooks.delivering import JITTER, WAITS_MS, Deliverer, DeliveryTools
from jackline_server.webhooks.sweeping import DEAD_MS, DELIVERED_MS, PENDING_MS, DeliverySweeper
from tests.conformance.stores import append, new_run
from tests.conformance.test_deliveries import owed
from tests.egress.raw_server import Received, always, answer, serving
from tests.models.virtual_time import run_virtual
from tests.webhooks.endpoints import endpoint

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class LoopClock:
    """The event loop's time as both clocks."""

    def unix_ms(self) -> int:
        return 1_000 + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)


@dataclass
class Chances:
    """Always the same fraction."""

    of: float = 0.0

    def fraction(self) -> float:
        return self.of

    def new_id(self, prefix: str) -> str:
        return f"{prefix}1"


@dataclass
class Answer:
    """A head."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    async def read(self) -> bytes:
        raise AssertionError("nobody reads a body")


@dataclass
class Doubles:
    """HttpPools whose every server answers by a function of how often it was asked. Keeps when, and what."""

    answering: Callable[[int], Answer]
    asked: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    closed: int = 0

    async def pool(self, settings: PoolSettings) -> HttpPool:
        del settings
        return self

    @asynccontextmanager
    async def post(
        self, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AsyncGenerator[HttpAnswer]:
        del target, body
        self.asked.append((LoopClock().unix_ms(), headers["webhook-id"]))
        yield self.answering(len(self.asked))

    def get(
        self, target: str, *, headers: Mapping[str, str]
    ) -> contextlib.AbstractAsyncContextManager[HttpAnswer]:
        raise AssertionError(f"nobody gets {target} {headers}")

    async def close(self) -> None:
        self.closed += 1


def deliverer(
    store: Store,
    pools: Doubles | GuardedClients,
    *endpoints: WebhookEndpoint,
    clock: Clock | None = None,
    queue: DeliveryQueue | None = None,
    fraction: float = 0.0,
) -> Deliverer:
    tools = DeliveryTools(
        queue=queue or store.deliveries,
        pools=pools,
        clock=clock or LoopClock(),
        chance=Chances(fraction),
    )
    return Deliverer(endpoints or (endpoint(),), tools=tools)


@asynccontextmanager
async def delivering(made: Deliverer) -> AsyncGenerator[Deliverer]:
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await made.close()


async def owing(store: Store, *names: str, to: str = "ops", run: str = "run_a") -> None:
    await store.journal.create(new_run(run))
    await store.journal.append(append(run, deliveries=[owed(name, endpoint=to) for name in names]))


async def row(store: Store, name: str = "msg_a") -> DeliveryRow:
    rows = await store.deliveries.page(DeliveryQuery(tenant=DEFAULT_TENANT, limit=100))
    return next(one for one in rows if one.delivery_id == name)


async def until(store: Store, state: DeliveryState, name: str = "msg_a") -> DeliveryRow:
    """The delivery, once it stands there. In virtual time."""
    while (found := await row(store, name)).state is not state:  # noqa: ASYNC110 - an hour takes no time here
        await asyncio.sleep(1)
    return found


def test_a_failed_delivery_is_tried_again_for_days_and_is_dead_then() -> None:
    async def scene() -> tuple[Doubles, DeliveryRow]:
        store, pools = memory_store(), Doubles(lambda _: Answer(503))
        await owing(store, "msg_a")
        async with delivering(deliverer(store, pools)):
            return pools, await until(store, DeliveryState.DEAD)

    pools, dead = run_virtual(scene())
    times = [at for at, _ in pools.asked]
    waits = [after - before for before, after in pairwise(times)]
    assert [round(wait / 1_000) for wait in waits] == [round(wait / 1_000) for wait in WAITS_MS]
    assert {name for _, name in pools.asked} == {"msg_a"}
    assert (dead.attempts, dead.log[-1].outcome, dead.log[-1].status) == (
        len(WAITS_MS) + 1,
        AttemptOutcome.SERVER_ERROR,
        503,
    )
    assert (WAITS_MS[0], WAITS_MS[-1]) == (5_000, 24 * HOUR_MS)


def test_waits_are_spread_and_never_shorter() -> None:
    async def scene() -> list[int]:
        store, pools = memory_store(), Doubles(lambda asked: Answer(500 if asked == 1 else 200))
        await owing(store, "msg_a")
        async with delivering(deliverer(store, pools, fraction=0.5)):
            await until(store, DeliveryState.DELIVERED)
        return [at for at, _ in pools.asked]

    first, second = run_virtual(scene())
    assert second - first == WAITS_MS[0] + int(WAITS_MS[0] * JITTER * 0.5)


@pytest.mark.parametrize(("asked", "waited"), [("60", 60_000), ("1", 5_000), ("99999", HOUR_MS)])
def test_an_endpoint_that_asks_for_more_time_has_it_up_to_an_hour(asked: str, waited: int) -> None:
    async def scene() -> list[int]:
        busy = Answer(429, {"Retry-After": asked})
        store, pools = memory_store(), Doubles(lambda count: busy if count == 1 else Answer(200))
        await owing(store, "msg_a")
        async with delivering(deliverer(store, pools)):
            await until(store, DeliveryState.DELIVERED)
        return [at for at, _ in pools.asked]

    first, second = run_virtual(scene())
    assert second - first == waited


def test_an_endpoint_that_is_gone_gets_nothing_more_until_a_test_succeeds() -> None:
    async def scene() -> None:
        store = memory_store()
        pools = Doubles(lambda asked: Answer(410 if asked == 1 else 204))
        made = deliverer(store, pools, endpoint(concurrency=1))
        async with delivering(made):
            await owing(store, "msg_a", "msg_b")
            made.nudge()
            dead = await until(store, DeliveryState.DEAD)
            await asyncio.sleep(24 * 3_600)
            assert (dead.attempts, dead.log[0].outcome) == (1, AttemptOutcome.GONE)
            assert [name for _, name in pools.asked] == ["msg_a"]
            assert made.stopped_unix_ms("ops") == dead.settled_unix_ms
            assert (await row(store, "msg_b")).state is DeliveryState.PENDING

            tried = await made.test("ops")
            assert (tried.outcome, tried.status) == (AttemptOutcome.DELIVERED, 204)
            assert made.stopped_unix_ms("ops") is None
            await until(store, DeliveryState.DELIVERED, "msg_b")

    run_virtual(scene())


def test_a_test_that_fails_opens_nothing() -> None:
    async def scene() -> None:
        store, pools = memory_store(), Doubles(lambda _: Answer(410))
        made = deliverer(store, pools)
        async with delivering(made):
            await owing(store, "msg_a")
            made.nudge()
            await until(store, DeliveryState.DEAD)
            await made.test("ops")
            assert made.stopped_unix_ms("ops") is not None

    run_virtual(scene())


def test_a_dead_letter_that_is_resent_has_all_its_tries_again() -> None:
    async def scene() -> None:
        store = memory_store()
        pools = Doubles(lambda asked: Answer(503 if asked < 14 else 200))
        made = deliverer(store, pools)
        async with delivering(made):
            await owing(store, "msg_a")
            await until(store, DeliveryState.DEAD)
            await store.deliveries.resend(DEFAULT_TENANT, "msg_a", now_unix_ms=LoopClock().unix_ms())
            made.nudge()
            delivered = await until(store, DeliveryState.DELIVERED)
            assert delivered.attempts == 14

    run_virtual(scene())


@dataclass
class Unsteady:
    """A queue that fails so often before it takes what it is given."""

    queue: DeliveryQueue
    failures: list[Exception]

    async def claim(self, endpoint: str, *, now_unix_ms: int, until_unix_ms: int, limit: int) -> Claimed:
        return await self.queue.claim(
            endpoint, now_unix_ms=now_unix_ms, until_unix_ms=until_unix_ms, limit=limit
        )

    async def settle(self, settled: Settled) -> bool:
        if self.failures:
            raise self.failures.pop()
        return await self.queue.settle(settled)

    async def sweep(self, sweep: Sweep) -> int:
        return await self.queue.sweep(sweep)


def test_what_was_sent_is_recorded_once_the_store_has_room_and_not_sent_again() -> None:
    async def scene() -> None:
        store, pools = memory_store(), Doubles(lambda _: Answer(200))
        queue = Unsteady(store.deliveries, [StoreFull("full"), StoreUnavailable("away")] * 5)
        async with delivering(deliverer(store, pools, queue=queue)):
            await owing(store, "msg_a")
            await until(store, DeliveryState.DELIVERED)
            await asyncio.sleep(3_600)
        assert len(pools.asked) == 1

    run_virtual(scene())


def test_what_nobody_nudges_is_found_all_the_same() -> None:
    async def scene() -> None:
        store, pools = memory_store(), Doubles(lambda _: Answer(200))
        async with delivering(deliverer(store, pools)):
            await asyncio.sleep(1)
            await owing(store, "msg_a")
            await until(store, DeliveryState.DELIVERED)
        assert pools.asked[0][0] <= 1_000 + 40_000

    run_virtual(scene())


def test_what_is_over_is_swept_by_the_hour() -> None:
    async def scene() -> None:
        store, pools = memory_store(), Doubles(lambda asked: Answer(200 if asked == 1 else 410))
        await owing(store, "msg_a", "msg_b")
        await owing(store, "msg_c", to="removed", run="run_b")
        sweeping = asyncio.create_task(DeliverySweeper(queue=store.deliveries, clock=LoopClock()).run())
        async with delivering(deliverer(store, pools, endpoint(concurrency=1))):
            await until(store, DeliveryState.DELIVERED)
            await until(store, DeliveryState.DEAD, "msg_b")
            await asyncio.sleep((PENDING_MS - DAY_MS) / 1000)
            assert (await row(store, "msg_c")).state is DeliveryState.PENDING
            await asyncio.sleep((DAY_MS + 2 * HOUR_MS) / 1000)
            rows = await store.deliveries.page(DeliveryQuery(tenant=DEFAULT_TENANT, limit=9))
            assert {one.delivery_id: one.state for one in rows} == {
                "msg_b": DeliveryState.DEAD,
                "msg_c": DeliveryState.DEAD,
            }
            await asyncio.sleep((DEAD_MS + 2 * HOUR_MS) / 1000)
            assert list(await store.deliveries.page(DeliveryQuery(tenant=DEFAULT_TENANT, limit=9))) == []
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
        assert DELIVERED_MS == PENDING_MS

    run_virtual(scene())


async def ten_thousand(store: Store) -> None:
    await store.journal.create(new_run())
    for batch in range(20):
        names = (f"msg_{batch:02}_{one:03}" for one in range(500))
        deliveries = [replace(owed(name), body=b"x" * 20_000) for name in names]
        await store.journal.append(append(after=1 + batch, deliveries=deliveries))


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


# --- over real sockets -------------------------------------------------------------------------


@pytest.mark.timeout(60)
async def test_a_silent_endpoint_holds_up_no_other_and_gets_no_more_at_once_than_it_may() -> None:
    came, all_there = 0, asyncio.Event()

    async def silent(got: Received, _writer: asyncio.StreamWriter) -> None:
        nonlocal came
        came += 1
        if came == 3:
            all_there.set()
        await got.hung_up()

    store = memory_store()
    async with serving(silent) as slow, serving(always(answer())) as quick:
        made = deliverer(
            store,
            GuardedClients(),
            endpoint("slow", origin=slow.origin, concurrency=3, timeout_ms=20_000),
            endpoint("quick", origin=quick.origin),
            clock=SystemClock(),
        )
        await owing(store, *(f"msg_s{one}" for one in range(20)), to="slow")
        await owing(store, *(f"msg_q{one}" for one in range(20)), to="quick", run="run_b")
        async with delivering(made), asyncio.timeout(30):
            await all_there.wait()
            while (await store.deliveries.count(DEFAULT_TENANT, "quick")).get(DeliveryState.DELIVERED) != 20:
                await asyncio.to_thread(gc.collect)
            assert len(slow.ledger) == 3
    assert sorted(got.headers["webhook-id"] for got in quick.ledger) == sorted(
        f"msg_q{one}" for one in range(20)
    )


@pytest.mark.timeout(120)
async def test_ten_thousand_that_are_due_at_boot_take_no_more_memory_or_sockets_than_a_few(
    tmp_path: Path,
) -> None:
    enough, left = asyncio.Event(), iter(range(150, -1, -1))

    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"", more="Connection: close\r\n"))
        if not next(left, 1):
            enough.set()

    opened = await open_sqlite(tmp_path / "data")
    try:
        await ten_thousand(opened.store)
        async with serving(behave) as server:
            to = endpoint(origin=server.origin, concurrency=4)
            made = deliverer(opened.store, GuardedClients(), to, clock=SystemClock())
            before = descriptors()
            gc.collect()
            tracemalloc.start()
            async with delivering(made), asyncio.timeout(100):
                await enough.wait()
                gc.collect()
                bodies = sum(len(got.body) for got in server.ledger)
                held = tracemalloc.get_traced_memory()[0] - bodies
                sockets = descriptors() - before
            tracemalloc.stop()
    finally:
        await opened.close()
    assert held < 8 << 20, "200 MB are due"
    assert sockets < 40
