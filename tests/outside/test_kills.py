"""SIGKILL at every append of a run with a read and a write asked for at once.

Proves D1, D2, O1, O2, O3, I1, S2, E1.
"""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import RunState, ToolCallStatus, View
from jackline_client.errors import Unavailable
from tests.outside import worlds
from tests.outside.recording import Recorder, Watcher, recording
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

APPENDS = 5
"""So many appends such a run has; a test below says that there are no more."""

IN_FLIGHT = 4
"""The append that would have brought the result of the write."""

CASES = [
    *(("store.write", k, "succeeded") for k in range(1, APPENDS + 1)),
    ("store.write", IN_FLIGHT, "failed"),
    ("store.write", IN_FLIGHT, "retry"),
    # These two are hit by every commit of the process, from the workflow's on.
    *(("store.sync", k, ("retry", "succeeded", "failed")[k % 3]) for k in range(3, 9)),
    *(("store.after_send_before_reply", k, ("succeeded", "failed", "retry")[k % 3]) for k in range(3, 9)),
]


async def served(servers: Servers, shop: ToolService, folder: Path, failpoints: str) -> ServerProcess:
    """A server that is about to die, with the workflow in its store."""
    server = servers.make(worlds.scripted(folder, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start(failpoints=failpoints)
    async with server.client() as client:
        await client.put_workflow(worlds.PAIR)
    return server


async def started(recorder: Recorder) -> str:
    """A run, however often the server dies before it answers: the request id makes it one."""
    server = recorder.server
    while True:
        try:
            return await recorder.start("pair", "m", request_id="r-1")
        except Unavailable:
            await server.killed()
            await server.start()
            await recorder.reconnect()


async def by_the_client(recorder: Recorder, run_id: str) -> list[bytes]:
    """The run as the client library's own stream shows it, over all kills."""
    seen: list[bytes] = []
    async with aclosing(recorder.client.watch(run_id, view=View.VIEW_FULL)) as frames:
        async for frame in frames:
            seen.extend(event.SerializeToString(deterministic=True) for event in frame.events)
    return seen


async def answered(recorder: Recorder, watcher: Watcher, option: str) -> str:
    """Let the run come to its end, answering the question that it may ask; the option that was given."""
    given = ""
    while True:
        await watcher.saw("interrupt_raised", "run_finished")
        questions = [one async for one in recorder.client.list_interrupts(watcher.run_id)]
        if not questions:
            await recorder.done()
            return given
        assert not given, "it asks once"
        question = questions[0]
        calls = await recorder.client.list_tool_calls(watcher.run_id)
        unknown = next(call for call in calls if call.call_id == question.call_id)
        assert (unknown.tool, unknown.status) == ("charge", ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN)
        assert (await recorder.client.get_run(watcher.run_id)).state == RunState.RUN_STATE_WAITING
        given = option
        await recorder.client.answer(watcher.run_id, question.interrupt_id, option)
        await recorder.done()
        return given


def cut_in_flight(log: list[StepEvent]) -> bool:
    """True if a worker went away while the write was under way."""
    flying = False
    for event in log:
        fact = event.WhichOneof("fact")
        if fact == "tool_call_started" and event.tool_call_started.tool == "charge":
            flying = True
        if fact == "tool_call_finished" and event.tool_call_finished.tool == "charge":
            flying = False
        if fact == "run_recovered" and flying:
            return True
    return False


async def lives_through(recorder: Recorder, shop: ToolService, option: str) -> list[StepEvent]:
    """Start the run, let the server die and come back, and see that every promise held."""
    server = recorder.server
    run_id = await started(recorder)
    watcher = recorder.watch(run_id)
    follower = asyncio.create_task(by_the_client(recorder, run_id))
    if server.starts == 1:
        await server.killed()
        assert not watcher.ended
        await server.start()
    given = await answered(recorder, watcher, option)
    run = await recorder.client.get_run(run_id)
    assert run.state == RunState.RUN_STATE_SUCCEEDED
    log = watcher.events()
    assert await follower == [event.SerializeToString(deterministic=True) for event in log]

    assert len(shop.once("look")) == 1
    assert len(shop.once("charge")) <= 1
    assert len(shop.of("charge")) <= (2 if given == "retry" else 1)
    assert len(shop.of("charge")) >= (0 if given in ("succeeded", "failed") else 1)
    assert bool(given) == cut_in_flight(log)
    assert await started(recorder) == run_id
    await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)
    return log


@pytest.mark.parametrize(("place", "k", "option"), CASES)
async def test_a_kill_at_any_append_loses_nothing_and_repeats_no_write(
    place: str, k: int, option: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    server = await served(servers, shop, tmp_path, f"{place}=kill@{k}")
    async with recording(server) as recorder:
        log = await lives_through(recorder, shop, option)

    if (place, k) == ("store.write", IN_FLIGHT):
        assert cut_in_flight(log)


async def test_the_kills_reach_every_append_of_the_run(servers: Servers, shop: ToolService, tmp_path: Path):
    server = await served(servers, shop, tmp_path, f"store.write=kill@{APPENDS + 1}")
    async with recording(server) as recorder:
        watcher = recorder.watch(await started(recorder))
        await recorder.done()

    assert watcher.ended
    assert server.starts == 1


async def test_a_run_survives_a_kill_at_every_append_one_after_the_other(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """Two kills a step at most, so that no crash loop ends it first."""
    server = await served(servers, shop, tmp_path, "store.write=kill@2")
    async with recording(server) as recorder:
        run_id = await started(recorder)
        watcher = recorder.watch(run_id)
        await server.killed()
        await server.start(failpoints="store.write=kill@3")
        await server.killed()
        await server.start()
        await answered(recorder, watcher, "succeeded")

        run = await recorder.client.get_run(run_id)
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        assert run.recoveries == 2
        assert len(shop.of("charge")) <= 1
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)
