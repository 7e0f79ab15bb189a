"""A real server on a port of its own, with use cases by script, and a client that shows what came back."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from jackline_server.api.limits import LIMITS, Limits
from tests.rpc.harness import SECONDS, Harness


@pytest.fixture
def limits() -> Limits:
    """What the server enforces; a test may ask for less."""
    return LIMITS


@pytest.fixture
async def door(limits: Limits) -> AsyncIterator[Harness]:
    """The server. At the end nothing may be left over, and nothing unexpected may have been asked."""
    before = asyncio.all_tasks()
    harness = await Harness.open(limits)
    yield harness
    await harness.close()
    assert harness.script.unexpected == []
    left = {task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=SECONDS)
    assert left == set()
