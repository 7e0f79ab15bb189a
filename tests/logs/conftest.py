from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.support.server_process import Servers, servers_in
from tests.support.tool_service import ToolService, tools_served
from tests.support.warm_server import shared


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    async with servers_in(tmp_path, shared()) as made:
        yield made


@pytest.fixture
async def shop() -> AsyncGenerator[ToolService]:
    async with tools_served() as service:
        yield service
