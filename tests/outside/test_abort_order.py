"""An abort has ended what is under way before anybody is told that the run has ended: judged by the kernel.

A hung stream of a model and a hung HTTP tool are connections of the server, a hung function is a process of
its own. Whoever sees `run_finished` looks at once.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from jackline.v1.run_pb2 import RunState
from tests.outside import worlds
from tests.outside.recording import Recorder, recording
from tests.outside.test_process_life import SLOW, put
from tests.support.openai_endpoint import Call, Hang, Json, Reply, Wire, chunk, serve, sse
from tests.support.server_process import Servers
from tests.support.tool_service import ToolService
from tests.tools.invocations import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of processes")

HANGS = f"""\
name: hangs
model: fast
{worlds.INPUT}
bounds: {{run_timeout: 2m, token_budget: 20000}}
flow: [work]
steps:
  work:
    kind: agent
    description: Calls one tool.
    tools: [{{ref: charge}}, {{ref: blocks}}]
    answer: text
  charge: {{kind: http, effect: write, description: Hangs., connection: shop, method: POST, path: /charge}}
  blocks:
    kind: function
    effect: write
    description: Hangs.
    function: "{ROOT}.apart:blocks"
    isolate: process
"""
FUNCTIONS = f'[functions]\nroots = ["{ROOT}"]\n'
_ESTABLISHED = "01"


def connections_to(port: int) -> int:
    """The established connections to that port of the loopback, by the side that opened them."""
    found = 0
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        _, _, remote, state, *_ = line.split()
        found += state == _ESTABLISHED and int(remote.rpartition(":")[2], 16) == port
    return found


async def aborted(recorder: Recorder, run_id: str) -> None:
    """Abort the run, and return in the moment in which its end is seen."""
    watcher = recorder.watch(run_id)
    await watcher.saw("model_call_started")
    await recorder.client.abort(run_id)
    await watcher.saw("run_finished")


async def test_what_an_abort_ends_is_gone_before_its_run_has_ended(  # noqa: PLR0915 - one server for the three
    servers: Servers, shop: ToolService, tmp_path: Path
):
    note = tmp_path / "pid"

    def behave(request: Json) -> Reply | Wire:
        words = str(request["messages"])
        if "Think." in words:
            return Wire(pieces=[sse(chunk({"role": "assistant", "content": "Well"})), Hang()])
        arguments = f'{{"note": "{note}"}}' if "blocks" in words else "{}"
        name = "blocks" if "blocks" in words else "charge"
        return Reply(calls=[Call(name=name, arguments=arguments, call_id="one")])

    async with serve(behave) as model:
        config = worlds.endpoint(model.base_url, shop=shop.base_url, more=FUNCTIONS, adapter="openai")
        server = servers.make(config)
        await server.start()
        await put(server, SLOW, HANGS)
        async with recording(server) as recorder, asyncio.timeout(100):
            hung = await recorder.start("slow", "m")
            await model.arrived(1)
            assert connections_to(model.port) == 1
            await aborted(recorder, hung)
            assert connections_to(model.port) == 0

            shop.hold("charge")
            calling = await recorder.start("hangs", "charge")
            await shop.arrived("charge")
            assert connections_to(shop.port) == 1
            await aborted(recorder, calling)
            assert connections_to(shop.port) == 0

            blocking = await recorder.start("hangs", "blocks")
            process = await noted(note)
            assert process.exists()
            await aborted(recorder, blocking)
            assert not process.exists()

            await recorder.done()
            states = {(await recorder.client.get_run(one)).state for one in (hung, calling, blocking)}
            assert states == {RunState.RUN_STATE_ABORTED}


async def noted(note: Path) -> Path:
    """What the kernel shows of the process whose number a function has written there."""
    changed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def look() -> None:
        text = note.read_text("utf-8") if note.exists() else ""
        if text:
            changed.set_result(Path("/proc") / text.strip())
        else:
            asyncio.get_running_loop().call_later(0.01, look)

    look()
    return await changed
