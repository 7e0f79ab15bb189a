"""Every test of the suite runs once for each store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jackline_server.runtime.ports.store import Store
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import LEASE_MS, ManualTime


@pytest.fixture
def time() -> ManualTime:
    return ManualTime()


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path, time: ManualTime) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield memory_store(clock=time.clock(), lease_ms=LEASE_MS)
        return
    opened = await open_sqlite(tmp_path / "data", SqliteSettings(clock=time.clock(), lease_ms=LEASE_MS))
    try:
        yield opened.store
    finally:
        await opened.close()
