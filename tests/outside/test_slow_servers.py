"""A server that starts while one of its MCP servers has not answered yet."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.cli.projects import HOSTILE, WORKFLOW
from tests.outside import worlds
from tests.support.server_process import Servers

PLAIN = "name: plain\nmodel: fast\nflow: [x]\nsteps:\n  x: {kind: agent, steering: s, answer: text}\n"
HELD = (
    "import os, sys; open(sys.argv[1]).readline(); os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
)


async def test_it_listens_and_runs_what_needs_no_answer_and_the_rest_when_the_answer_comes(
    servers: Servers, tmp_path: Path
) -> None:
    gate, flows = tmp_path / "gate", tmp_path / "flows"
    os.mkfifo(gate)
    flows.mkdir()
    (flows / "payer.yaml").write_text(WORKFLOW, "utf-8")
    (flows / "plain.yaml").write_text(PLAIN, "utf-8")
    hostile = [str(HOSTILE), "plain", str(tmp_path / "ledger.jsonl")]
    command = json.dumps([sys.executable, "-I", "-S", "-c", HELD, str(gate), "-I", "-S", *hostile])
    till = (
        f'[connections.till]\nkind = "mcp"\ntransport = "stdio"\nstart_timeout = "60s"\ncommand = {command}\n'
    )
    server = servers.make(worlds.scripted(tmp_path, [{"text": "done"}, {"text": "done"}], more=till))

    await server.start("--workflows", str(flows))

    # Opened for both, so that neither end waits for the other to open it.
    with gate.open("r+b", buffering=0) as answer:
        async with server.client() as client, asyncio.timeout(60):
            started = await client.start_run("plain", input={})
            assert started.run.workflow == "plain"
            waiting = asyncio.create_task(client.start_run("payer", input={"text": "5"}))
            answer.write(b"go\n")
            assert (await waiting).run.workflow == "payer"
