"""A server with an MCP connection, from outside: pins, drift, an MCP server that dies, and what is left."""

import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from jackline.v1.run_pb2 import RunState
from jackline_client.errors import InvalidWorkflow, ToolChanged
from jackline_server.runtime.pinned_tools import pins_path, read_pins
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers

HOSTILE = Path(__file__).parents[1] / "tools/mcp/hostile_server.py"
SCRIPT = [
    {"when": {"turn": 1}, "tool_calls": [{"name": "charge", "arguments": {"text": "5"}}]},
    {"text": "Charged."},
]
WORKFLOW = """\
name: payer
model: fast
bounds: {run_timeout: 2m, token_budget: 20000}
flow: [pay]
steps:
  pay:
    kind: agent
    steering: Charge.
    tools: [{from: till, allow: [echo, charge]}]
    answer: text
"""


def world(servers: Servers, folder: Path, mode: str) -> ServerProcess:
    command = [sys.executable, "-I", "-S", str(HOSTILE), mode, str(folder / "ledger.jsonl")]
    till = f'[connections.till]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n'
    return servers.make(worlds.scripted(folder, SCRIPT, more=till))


def noted(folder: Path, key: str) -> list[Any]:
    lines = (folder / "ledger.jsonl").read_text("utf-8").splitlines()
    return [entry[key] for entry in map(json.loads, lines) if key in entry]


def runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_tool_is_called_by_a_run_and_pinned_beside_its_workflow(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "plain")
    await server.start()
    async with server.client() as client:
        put = await client.put_workflow(WORKFLOW)
        stored = await client.get_workflow("payer")
        pinned = read_pins(stored.workflow.files[pins_path("till")])
        assert sorted(pinned) == ["charge", "echo"]
        again = await client.put_workflow(stored.workflow.yaml, dict(stored.workflow.files))
        assert {put.revision.digest, again.revision.digest} == {stored.revision.digest}

        done = await client.wait_run((await client.start_run("payer", input={})).run.run_id)
        assert done.run.state == RunState.RUN_STATE_SUCCEEDED
    assert noted(tmp_path, "arguments") == [{"text": "5"}]
    assert await server.stop() == 0
    assert not any(runs(pid) for pid in noted(tmp_path, "started"))


async def test_a_workflow_whose_tool_changed_is_refused_until_it_is_put_again(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "drift")
    text = WORKFLOW.replace("[echo, charge]", "[echo]")
    await server.start()
    async with server.client() as client:
        await client.put_workflow(text)
        await server.stop()
        await server.start()
        with pytest.raises(ToolChanged) as refused:
            await client.start_run("payer", input={})
        assert refused.value.metadata["tool"] == "echo"
        await client.put_workflow(text)
        await client.start_run("payer", input={})


async def test_a_server_that_dies_in_a_write_leaves_a_question(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "die_mid_call")
    await server.start()
    async with server.client() as client:
        await client.put_workflow(WORKFLOW)
        run_id = (await client.start_run("payer", input={})).run.run_id
        async with aclosing(client.watch(run_id)) as frames:
            async for frame in frames:
                if any(event.WhichOneof("fact") == "interrupt_raised" for event in frame.events):
                    break
        (question,) = [one async for one in client.list_interrupts(run_id)]
        await client.answer(run_id, question.interrupt_id, "succeeded")
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
    assert len(noted(tmp_path, "called")) == 1


async def test_a_workflow_of_a_server_that_is_down_can_not_be_put(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "die_at_start")
    await server.start()
    async with server.client() as client:
        with pytest.raises(InvalidWorkflow):
            await client.put_workflow(WORKFLOW)
