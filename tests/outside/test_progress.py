"""How far a call of a worker is, as a person sees it: a worker, a server, `jackline watch` on a terminal."""

import asyncio
import os
import pty
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from jackline.v1.run_pb2 import RunState
from tests.cli.console import COMMAND
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers

SECONDS = 60
WORKFLOW = """\
name: digging
flow: [dig]
steps:
  dig:
    kind: worker
    effect: read
    connection: yard
    tool: dig
    parameters: {type: object, properties: {}}
    routes: {error: end}
"""
PROGRAM = """\
import asyncio
import sys

from jackline_client.worker import Call, Worker

worker = Worker("yard")


@worker.tool(effect="read")
def dig(call: Call) -> str:
    \"\"\"Digs until it is told to stop.\"\"\"
    call.progress("at the third\\x1b[2J stone", 0.3)
    open(sys.argv[1]).readline()
    return "found"


asyncio.run(worker.serve())
"""


@asynccontextmanager
async def running(*command: str, environ: dict[str, str], errors: int | None = None) -> AsyncGenerator[None]:
    """A program of ours for as long as the block runs."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=errors, stderr=errors, env=environ
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def environment(server: ServerProcess) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(server.folder),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "JACKLINE_ADDRESS": server.address,
        "JACKLINE_TOKEN": server.token,
        "TERM": "xterm-256color",
        "COLUMNS": "100",
    }


class Terminal:
    """What a program has shown on a terminal so far."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.text = ""

    async def until(self, words: str) -> None:
        while words not in self.text:
            piece = await self._reader.read(4096)
            assert piece, f"{words!r} never came: {self.text!r}"
            self.text += piece.decode(errors="replace")


@asynccontextmanager
async def watching(server: ServerProcess, run_id: str) -> AsyncGenerator[Terminal]:
    """`jackline watch` of a run, on a terminal."""
    ours, theirs = pty.openpty()
    reader = asyncio.StreamReader()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), screen
        )
        try:
            async with running(*COMMAND, "watch", run_id, environ=environment(server), errors=theirs):
                yield Terminal(reader)
        finally:
            os.close(theirs)
            transport.close()


async def test_who_watches_a_run_sees_how_far_the_call_of_its_worker_is_and_then_its_end(
    servers: Servers, tmp_path: Path
) -> None:
    gate, program = tmp_path / "gate", tmp_path / "yard.py"
    os.mkfifo(gate)
    program.write_text(PROGRAM, encoding="utf-8")
    pool = '[connections.yard]\nkind = "worker"\nwait = "1m"\n'
    server = servers.make(worlds.scripted(tmp_path, [{"text": "done"}], more=pool))
    await server.start()
    async with (
        asyncio.timeout(SECONDS),
        running(sys.executable, str(program), str(gate), environ=environment(server)),
        server.client() as client,
    ):
        run = (await client.start_run(inline_yaml=WORKFLOW, input={})).run
        # Opened for both, so that neither end waits for the other to open it.
        with gate.open("r+b", buffering=0) as stop:
            async with watching(server, run.run_id) as terminal:
                await terminal.until("dig: 30% at the third")
                assert "\x1b[2J" not in terminal.text
                stop.write(b"stop\n")
                await terminal.until("found")
                assert (await client.wait_run(run.run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
