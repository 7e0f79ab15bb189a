from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.server_process import Servers, servers_in
from tests.support.tool_service import ToolService, tools_served
from tests.support.warm_server import MODULES, Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="session")
def litellm_nursery() -> Iterator[Nursery]:
    made = Nursery((*MODULES, "litellm"))
    yield made
    made.close()


@pytest.fixture
async def servers(tmp_path: Path, nursery: Nursery) -> AsyncIterator[Servers]:
    async with servers_in(tmp_path, nursery) as made:
        yield made


@pytest.fixture
async def llm_servers(tmp_path: Path, litellm_nursery: Nursery) -> AsyncIterator[Servers]:
    async with servers_in(tmp_path, litellm_nursery) as made:
        yield made


@pytest.fixture
async def shop() -> AsyncIterator[ToolService]:
    async with tools_served() as service:
        yield service
