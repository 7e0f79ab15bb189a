"""A server with an MCP connection, from outside: pins, drift, an MCP server that dies, and what is left."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from jackline.v1.run_pb2 import Interrupt, InterruptKind, RunState, View
from jackline_client import JacklineClient
from jackline_client.errors import InvalidWorkflow, ToolChanged
from jackline_server.runtime.pinned_tools import pins_path, read_pins
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers
from tests.tools.mcp.remote_server import until

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


def world(
    servers: Servers, folder: Path, mode: str, script: Sequence[Mapping[str, Any]] = SCRIPT
) -> ServerProcess:
    command = [sys.executable, "-I", "-S", str(HOSTILE), mode, str(folder / "ledger.jsonl")]
    till = f'[connections.till]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n'
    return servers.make(worlds.scripted(folder, script, more=till))


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


ASKER = WORKFLOW.replace("[echo, charge]", "[asking]")
ASKED: list[dict[str, Any]] = [
    {"when": {"turn": 1}, "tool_calls": [{"name": "asking", "arguments": {}}]},
    {"text": "Told."},
]


async def question_of(client: JacklineClient, run_id: str, *, number: int = 1) -> Interrupt:
    """The run's question of that number, once it is open."""
    raised = 0
    async with aclosing(client.watch(run_id)) as frames:
        async for frame in frames:
            raised += sum(event.WhichOneof("fact") == "interrupt_raised" for event in frame.events)
            if raised >= number:
                break
    (question,) = [one async for one in client.list_interrupts(run_id, view=View.VIEW_FULL)]
    return question


async def test_a_question_of_a_tool_waits_for_a_person_and_its_call_goes_on(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "plain", ASKED)
    await server.start()
    async with server.client() as client:
        await client.put_workflow(ASKER)
        run_id = (await client.start_run("payer", input={})).run.run_id
        question = await question_of(client, run_id)
        assert question.kind == InterruptKind.INTERRUPT_KIND_QUESTION
        assert "What is it called?" in question.question
        assert json.loads(question.schema_json)["required"] == ["name"]
        await client.answer(run_id, question.interrupt_id, "accept", text='{"name": "Ann"}')
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
    assert noted(tmp_path, "called") == ["asking"]
    assert noted(tmp_path, "said") == [{"action": "accept", "content": {"name": "Ann"}}]


async def test_a_write_that_was_held_open_when_the_process_died_is_unknown_once_it_is_answered(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "plain", ASKED)
    await server.start()
    async with server.client() as client:
        await client.put_workflow(ASKER)
        run_id = (await client.start_run("payer", input={})).run.run_id
        asked = await question_of(client, run_id)
    await server.kill()
    await server.start()
    async with server.client() as client:
        await client.answer(run_id, asked.interrupt_id, "accept", text='{"name": "Ann"}')
        unknown = await question_of(client, run_id, number=2)
        assert unknown.kind == InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME
        await client.answer(run_id, unknown.interrupt_id, "failed")
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
    assert noted(tmp_path, "called") == ["asking"]


async def test_a_run_that_is_aborted_while_its_tool_asks_tells_the_server(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "plain", ASKED)
    await server.start()
    async with server.client() as client:
        await client.put_workflow(ASKER)
        run_id = (await client.start_run("payer", input={})).run.run_id
        await question_of(client, run_id)
        await client.abort(run_id)
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_ABORTED
        await until(lambda: "notifications/cancelled" in noted(tmp_path, "method"))


async def test_a_workflow_of_a_server_that_is_down_can_not_be_put(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "die_at_start")
    await server.start()
    async with server.client() as client:
        with pytest.raises(InvalidWorkflow):
            await client.put_workflow(WORKFLOW)
