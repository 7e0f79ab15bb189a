"""An MCP server that others wrote, or ours, is killed in a call: the file of the former is the judge."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import InterruptKind, RunState
from jackline_client import TERMINAL_STATES, JacklineClient
from tests.outside import worlds
from tests.support.mcp_servers import HELD_SERVER, graph, installed_npm_server
from tests.support.server_process import ServerProcess, Servers
from tests.tools.mcp.remote_server import until

RESTING = TERMINAL_STATES | {RunState.RUN_STATE_WAITING}
KETTLE = {"entities": [{"name": "kettle", "entityType": "thing", "observations": ["whistles"]}]}
ARGUMENTS = {"create_entities": KETTLE, "read_graph": {}}
WORKFLOW = """\
name: remembers
model: fast
bounds: {run_timeout: 2m, token_budget: 20000}
flow: [work]
steps:
  work:
    kind: agent
    steering: Remember.
    tools: [{from: memory, allow: [create_entities, read_graph]}]
    answer: text
"""


async def world(servers: Servers, folder: Path, tool: str) -> ServerProcess:
    """A server whose model calls that tool of the memory server, which is behind a door."""
    script = await asyncio.to_thread(installed_npm_server, "memory")
    node = ["/usr/bin/env", "node", str(script)]
    command = [sys.executable, "-I", "-S", str(HELD_SERVER), str(folder), *node]
    memory = (
        f'[connections.memory]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n'
        f'trusted = true\nenv = {{PATH = "${{env:PATH}}", MEMORY_FILE_PATH = "{folder / "graph.jsonl"}"}}\n'
    )
    turns = [
        {"when": {"turn": 1}, "tool_calls": [{"name": tool, "arguments": ARGUMENTS[tool]}]},
        {"text": "Remembered."},
    ]
    return servers.make(worlds.scripted(folder, turns, more=memory))


async def killed_in_its_call(server: ServerProcess, folder: Path, victim: str) -> str:
    """Start a run, and kill one of the two once the tool has done its work and its answer is kept back."""
    await server.start()
    async with server.client() as client:
        await client.put_workflow(WORKFLOW)
        (folder / "shut").touch()
        run_id = (await client.start_run("remembers", input={})).run.run_id
        await until((folder / "kept").exists)
    (folder / "shut").unlink()
    if victim == "the tool's server":
        os.kill(int((folder / "pid").read_text("utf-8")), signal.SIGKILL)
    else:
        await server.kill()
        await server.start()
    return run_id


async def resting(client: JacklineClient, run_id: str) -> None:
    """Return once the run has ended, or waits."""
    async with asyncio.timeout(30):
        while (await client.get_run(run_id)).state not in RESTING:
            pass


both = pytest.mark.parametrize("victim", ["the tool's server", "the whole server"])


@both
async def test_a_write_is_asked_about_and_not_made_again(
    servers: Servers, tmp_path: Path, victim: str
) -> None:
    server = await world(servers, tmp_path, "create_entities")
    run_id = await killed_in_its_call(server, tmp_path, victim)
    async with server.client() as client:
        await resting(client, run_id)
        (question,) = [one async for one in client.list_interrupts(run_id)]
        assert question.kind == InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME
        assert graph(tmp_path / "graph.jsonl") == ["kettle"]
        await client.answer(run_id, question.interrupt_id, "succeeded")
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
    assert (tmp_path / "calls").read_text("utf-8").split() == ["create_entities"]
    assert graph(tmp_path / "graph.jsonl") == ["kettle"]


@both
async def test_a_read_is_made_again_at_the_next_server_and_nobody_is_asked(
    servers: Servers, tmp_path: Path, victim: str
) -> None:
    server = await world(servers, tmp_path, "read_graph")
    run_id = await killed_in_its_call(server, tmp_path, victim)
    async with server.client() as client:
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
    assert (tmp_path / "calls").read_text("utf-8").split() == ["read_graph", "read_graph"]
    assert graph(tmp_path / "graph.jsonl") == []
