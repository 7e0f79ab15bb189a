"""The examples with MCP servers, each through a real server process and the server that it is made for."""

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState
from jackline_server.config import load_config
from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.ports.mcp import McpConnection
from jackline_server.tools.mcp.servers import McpServers
from tests.support.mcp_servers import FILES, GIT, installed_filesystem_server, repository
from tests.support.server_process import ServerProcess, Servers, servers_in
from tests.support.warm_server import shared


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    async with servers_in(tmp_path, shared()) as made:
        yield made


def laid_out(servers: Servers, example: Path) -> ServerProcess:
    """A server whose folder is a copy of the example."""
    config = (example / "jackline.toml").read_text("utf-8")
    server = servers.make(config.replace("../../.venv/bin", str(Path(sys.executable).parent)))
    ignored = shutil.ignore_patterns("node_modules", "answer.md")
    shutil.copytree(example, server.folder, dirs_exist_ok=True, ignore=ignored)
    if (example / "node_modules").exists():
        (server.folder / "node_modules").symlink_to(example / "node_modules")
    return server


async def test_the_files_example_answers_and_keeps_the_answer(servers: Servers) -> None:
    await asyncio.to_thread(installed_filesystem_server)
    server = laid_out(servers, FILES)
    await server.start()
    async with server.client() as client:
        started = await client.start_run("desk", input={"question": "Which invoice is due next?"})
        done = await client.wait_run(started.run.run_id)
        assert done.run.state == RunState.RUN_STATE_SUCCEEDED
    kept = (server.folder / "desk" / "answer.md").read_text("utf-8")
    assert kept == "Invoice 2057 of North Quay Rigging is due on 2026-03-14 and not paid.\n"


async def test_the_lock_of_the_files_example_is_what_its_server_says() -> None:
    await asyncio.to_thread(installed_filesystem_server)
    config = load_config(file=FILES / "jackline.toml", environ={"PATH": "/usr/local/bin:/usr/bin:/bin"})
    connections: dict[str, McpConnection] = dict(config.mcp_connections)
    servers = McpServers(connections, clients=GuardedClients())
    try:
        assert await servers.lock_text("files") == (FILES / "files.lock").read_text("utf-8")
    finally:
        await servers.close()


async def test_the_git_example_writes_notes_and_makes_the_branch(servers: Servers, tmp_path: Path) -> None:
    there = await asyncio.to_thread(repository, tmp_path / "repository")
    server = laid_out(servers, GIT)
    await server.start(REPOSITORY=str(there))
    async with server.client() as client:
        started = await client.start_run("release_notes", input={"repository": str(there), "version": "1.0"})
        done = await client.wait_run(started.run.run_id)
        assert done.run.state == RunState.RUN_STATE_SUCCEEDED
    assert (there / ".git/refs/heads/release/1.0").exists()
