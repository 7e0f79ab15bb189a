"""The stage of a fault: a server that dies at one place while it runs `pair`, and what is seen of it.

Owns the way there and back: start with a failpoint, start the run, wait for the kill, start again, let the
run end. What has to hold for every fault is checked here; what is special to one stands in its test.
"""

from dataclasses import dataclass
from pathlib import Path

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import Run, RunState
from jackline_client import TERMINAL_STATES
from tests.outside import worlds
from tests.outside.recording import Recorder, Watcher
from tests.support.openai_endpoint import Call, Endpoint, Json, Reply
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

REQUEST = "r-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run that has come to its end over a kill. `asked` says that it asked about its write."""

    run: Run
    log: list[StepEvent]
    asked: bool

    def facts(self) -> list[str]:
        """The names of its facts, in order."""
        return [str(event.WhichOneof("fact")) for event in self.log]


def told(request: Json) -> Reply:
    """The endpoint's part: a read and a write at once, then an answer."""
    if any(message["role"] == "tool" for message in request["messages"]):
        return Reply(text="Looked, and charged.")
    return Reply(
        calls=[
            Call(name="look", arguments="{}", call_id="c-1"),
            Call(name="charge", arguments="{}", call_id="c-2"),
        ]
    )


async def stage(  # noqa: PLR0913 - what a stage is made of
    servers: Servers,
    shop: ToolService,
    folder: Path,
    failpoints: str,
    *,
    workflow: str = worlds.PAIR,
    model: Endpoint | None = None,
    more: str = "",
) -> ServerProcess:
    """A server with the workflow in its store, started anew with the failpoint."""
    if model is None:
        config = worlds.scripted(folder, worlds.PAIR_SCRIPT, shop=shop.base_url, more=more)
    else:
        config = worlds.endpoint(model.base_url, shop=shop.base_url, more=more)
    server = servers.make(config)
    await server.start()
    async with server.client() as client:
        await client.put_workflow(workflow)
    await server.kill()
    await server.start(failpoints=failpoints)
    return server


async def back(recorder: Recorder, *, failpoints: str = "") -> None:
    """Wait for the kill, and start the server again."""
    await recorder.server.killed()
    await recorder.server.start(failpoints=failpoints)
    await recorder.reconnect()


async def to_the_end(
    recorder: Recorder, watcher: Watcher, shop: ToolService, *, option: str = "succeeded"
) -> Seen:
    """Let the run end, answering its question; nothing that was promised broke on the way."""
    asked = False
    await watcher.saw("interrupt_raised", "run_finished")
    for question in [one async for one in recorder.client.list_interrupts(watcher.run_id)]:
        asked = True
        await recorder.client.answer(watcher.run_id, question.interrupt_id, option)
    await recorder.done()
    await watcher.at_end()
    run = await recorder.client.get_run(watcher.run_id)
    assert run.state in TERMINAL_STATES
    await recorder.judged([watcher.run_id], entries=shop.entries, effects=worlds.EFFECTS)
    return Seen(run=run, log=watcher.events(), asked=asked)


async def killed_and_ended(recorder: Recorder, shop: ToolService, *, option: str = "succeeded") -> Seen:
    """The whole way of a run that is under way when the kill comes."""
    watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
    await back(recorder)
    seen = await to_the_end(recorder, watcher, shop, option=option)
    assert seen.run.state == RunState.RUN_STATE_SUCCEEDED
    assert seen.run.recoveries == 1
    return seen
