"""Blobs that nothing names are cleared away at the start of a server and every hour."""

import asyncio
from dataclasses import dataclass, field

from jackline_server.runtime.driving.sweeping import EVERY_MS, Sweeper
from jackline_server.runtime.ports.blobs import BLOB_GRACE_MS, Blobs
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.storage.memory.store import memory_store
from tests.conformance.stores import ManualTime, new_run


@dataclass(slots=True, kw_only=True)
class HandClock:
    """A clock whose long sleeps last until a test lets them end, and move the store's time."""

    time: ManualTime
    asleep: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def monotonic_ms(self) -> int:
        return self.time.monotonic

    def unix_ms(self) -> int:
        return self.time.unix

    async def sleep(self, ms: int) -> None:
        if ms >= EVERY_MS:
            self.asleep.set()
            await self.go_on.wait()
            self.go_on.clear()
        self.time.advance(ms)


@dataclass(slots=True, kw_only=True)
class AwayOnce:
    """Blobs of a store that can't be reached the first time."""

    blobs: Blobs
    asked: int = 0

    async def put(self, tenant: Tenant, data: bytes) -> str:
        return await self.blobs.put(tenant, data)

    async def size(self, tenant: Tenant, digest: str) -> int | None:
        return await self.blobs.size(tenant, digest)

    async def read(self, tenant: Tenant, digest: str, *, offset: int, limit: int) -> bytes | None:
        return await self.blobs.read(tenant, digest, offset=offset, limit=limit)

    async def sweep(self, *, limit: int) -> int:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailable("away")
        return await self.blobs.sweep(limit=limit)


async def test_a_sweep_goes_on_until_nothing_is_left_and_survives_a_store_that_is_away():
    time = ManualTime()
    store = memory_store(clock=time.clock())
    digests = [await store.blobs.put(DEFAULT_TENANT, b"%d" % number) for number in range(100)]
    await store.journal.create(new_run(blobs=digests[:1]))
    time.advance(BLOB_GRACE_MS + 1)
    clock = HandClock(time=time)
    task = asyncio.create_task(Sweeper(blobs=AwayOnce(blobs=store.blobs), clock=clock).run())
    async with asyncio.timeout(5):
        await clock.asleep.wait()
        assert await store.blobs.size(DEFAULT_TENANT, digests[1]) is not None
        clock.asleep.clear()
        clock.go_on.set()
        await clock.asleep.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    left = [digest for digest in digests if await store.blobs.size(DEFAULT_TENANT, digest) is not None]
    assert left == digests[:1]
