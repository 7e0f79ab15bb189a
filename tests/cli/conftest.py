from collections.abc import AsyncIterator

import pytest

from tests.cli.console import Console
from tests.support.scripted_service import ScriptedService, serving


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    scripted = ScriptedService()
    yield scripted
    assert scripted.unexpected == []
    assert scripted.unused == []


@pytest.fixture
async def console(
    service: ScriptedService, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Console]:
    async with serving(service) as address:
        yield Console(address=address, home=tmp_path_factory.mktemp("home"))
