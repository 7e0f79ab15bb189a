"""The server's own folder of workflows, with pins beside a workflow: what is pinned holds over a restart."""

import json
import sys
from pathlib import Path

import pytest

from jackline_client.errors import ToolChanged, WorkflowNotFound
from jackline_server.runtime.pinned_tools import pins_path, pins_text, read_pins
from tests.cli.projects import WORKFLOW
from tests.definitions.workflows import described
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers

HOSTILE = Path(__file__).parents[1] / "tools/mcp/hostile_server.py"
INPUT = {"text": "5"}


def world(servers: Servers, folder: Path) -> ServerProcess:
    (folder / "flows/connections").mkdir(parents=True)
    (folder / "flows/payer.yaml").write_text(WORKFLOW, "utf-8")
    command = [sys.executable, "-I", "-S", str(HOSTILE), "plain", str(folder / "ledger.jsonl")]
    till = f'[connections.till]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n'
    return servers.make(worlds.scripted(folder, [{"text": "done"}], more=till))


async def test_a_run_does_not_start_when_a_tool_is_not_what_is_pinned_beside_the_workflow(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path)
    takes = '{"type":"object","properties":{"text":{"type":"string"}}}'
    older = {name: described(name, schema=takes) for name in ("echo", "charge")}
    (tmp_path / "flows" / pins_path("till")).write_text(pins_text(older), "utf-8")

    await server.start("--workflows", str(tmp_path / "flows"))

    async with server.client() as client:
        stored = await client.get_workflow("payer")
        assert read_pins(stored.workflow.files[pins_path("till")]) == older
        with pytest.raises(ToolChanged):
            await client.start_run("payer", input=INPUT)


async def test_pins_that_pin_nothing_keep_a_workflow_from_being_served(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path)
    (tmp_path / "flows" / pins_path("till")).write_text("{}", "utf-8")

    await server.start("--workflows", str(tmp_path / "flows"))

    async with server.client() as client:
        with pytest.raises(WorkflowNotFound):
            await client.get_workflow("payer")
