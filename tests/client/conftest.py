from collections.abc import AsyncIterator

import pytest

from jackline_client import JacklineClient, WatchPolicy
from tests.support.scripted_service import TOKEN, ScriptedService, serving

HASTY = WatchPolicy(attempts=4, first_attempts=3, first_delay_s=0.0, silence_s=20.0)


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    scripted = ScriptedService()
    yield scripted
    assert scripted.unexpected == []
    assert scripted.unused == []


@pytest.fixture
async def client(service: ScriptedService) -> AsyncIterator[JacklineClient]:
    async with serving(service) as address, JacklineClient(address, token=TOKEN, watch_policy=HASTY) as made:
        yield made
