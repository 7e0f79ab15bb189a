"""The commands of docs/upgrades.md, executed as they stand on a real server's data folder. Proves U1, K1."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import View
from jackline_client.errors import NotFound
from jackline_server.storage.sqlite.store import open_sqlite
from tests.docs.pages import blocks, page
from tests.outside import worlds
from tests.storage.upgrades import PRIORITY, SUMS, to
from tests.support.server_process import ServerDied, ServerProcess, Servers, servers_in
from tests.support.tool_service import ToolService, tools_served
from tests.support.warm_server import shared

NEWER_DATA = 78
_BLOCKS = ("go-back", "backup", "restore")
_SECONDS = 60


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    async with servers_in(tmp_path, shared()) as made:
        yield made


@pytest.fixture
async def shop() -> AsyncGenerator[ToolService]:
    async with tools_served() as service:
        yield service


@pytest.fixture
async def server(servers: Servers, shop: ToolService, tmp_path: Path) -> ServerProcess:
    made = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await made.start()
    async with made.client() as client:
        await client.put_workflow(worlds.PAIR)
    return made


async def follow_the_page(block: str, data: Path) -> None:
    (found,) = blocks(page("upgrades.md"), f"bash run={block}")
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"set -euo pipefail\n{found.code}"),
        env={
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "DATA": str(data),
        },
    )
    async with asyncio.timeout(_SECONDS):
        assert await process.wait() == 0


async def run_to_its_end(server: ServerProcess, mark: str) -> str:
    async with server.client() as client:
        run_id = (await client.start_run("pair", input={"mark": mark})).run.run_id
        assert (await client.wait_run(run_id, timeout_s=30)).finished
    return run_id


async def events_of(server: ServerProcess, run_id: str) -> list[bytes]:
    async with server.client() as client:
        return [
            event.SerializeToString(deterministic=True)
            async for frame in client.watch(run_id, view=View.VIEW_FULL)
            for event in frame.events
        ]


def test_every_command_of_the_page_is_executed_here() -> None:
    text = page("upgrades.md")
    assert text.count("```bash run=") == len(_BLOCKS) == text.count("```bash")
    for block in _BLOCKS:
        assert len(blocks(text, f"bash run={block}")) == 1


async def test_a_newer_store_is_refused_and_the_way_back_leads_to_the_old_one(server: ServerProcess) -> None:
    run_id = await run_to_its_end(server, "before")
    before = await events_of(server, run_id)
    assert await server.stop() == 0
    newer = await open_sqlite(server.data, to(PRIORITY, SUMS, release="7.0.0"))
    await newer.close()

    with pytest.raises(ServerDied) as died:
        await server.start()
    assert died.value.code == NEWER_DATA
    assert "7.0.0" in server.tail()

    await follow_the_page("go-back", server.data)
    await server.start()
    assert await events_of(server, run_id) == before
    await run_to_its_end(server, "after")


async def test_a_backup_of_a_running_server_is_all_that_there_was_then(server: ServerProcess) -> None:
    run_id = await run_to_its_end(server, "before")
    before = await events_of(server, run_id)

    await follow_the_page("backup", server.data)
    late = await run_to_its_end(server, "late")
    assert await server.stop() == 0
    await follow_the_page("restore", server.data)
    await server.start()

    assert await events_of(server, run_id) == before
    async with server.client() as client:
        with pytest.raises(NotFound):
            await client.get_run(late)
    await run_to_its_end(server, "after")
