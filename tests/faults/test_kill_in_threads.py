"""SIGKILL around the turns of a thread and around results outside the log, in the real process."""

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState, StopReason, ToolCallStatus, View
from jackline.v1.run_service_pb2 import StartDisposition
from jackline.v1.thread_pb2 import OnBusy, ThreadMessage
from jackline_client.errors import Unavailable
from tests.faults.scene import back, stage
from tests.outside import worlds
from tests.outside.recording import Recorder, Watcher, recording
from tests.support.server_process import Servers
from tests.support.tool_service import ToolService

TALK = f"""\
name: talk
model: fast
{worlds.INPUT}
flow: [work]
steps:
  work: {{kind: agent, description: Looks., tools: [{{ref: look}}], answer: text}}
  look: {{kind: http, effect: read, description: Looks., connection: shop, method: GET, path: /look}}
"""
THREAD = "chat"


async def talking(recorder: Recorder, mark: str, *, on_busy: OnBusy.ValueType = OnBusy.ON_BUSY_REJECT) -> str:
    return await recorder.start("talk", mark, request_id=f"r-{mark}", thread_id=THREAD, on_busy=on_busy)


async def both_ended(recorder: Recorder, watchers: Sequence[Watcher]) -> list[ThreadMessage]:
    """What the thread has once both have ended: it is idle, and each of them said all in one piece."""
    await recorder.done()
    thread = await recorder.client.get_thread(THREAD)
    assert (thread.active_run_id, thread.waiting_runs, thread.pending_messages) == ("", 0, 0)
    said = [one async for one in recorder.client.thread_messages(THREAD, view=View.VIEW_FULL)]
    assert [one.position for one in said] == list(range(1, len(said) + 1))
    pieces = [run_id for run_id, _ in groupby(said, key=lambda one: one.run_id)]
    assert len(pieces) == len(set(pieces))
    await recorder.judged([watcher.run_id for watcher in watchers])
    return said


@pytest.mark.parametrize("name", ["finish.before_commit", "finish.after_commit"])
async def test_a_kill_at_the_end_of_a_turn_hands_the_turn_on_once(
    name: str, servers: Servers, shop: ToolService, tmp_path: Path
) -> None:
    server = await stage(servers, shop, tmp_path, f"{name}=kill", workflow=TALK)
    shop.hold("look")
    async with recording(server) as recorder:
        first = recorder.watch(await talking(recorder, "one"))
        await shop.arrived("look")
        second = recorder.watch(await talking(recorder, "two", on_busy=OnBusy.ON_BUSY_ENQUEUE))
        await recorder.client.append_messages(THREAD, "a note", request_id="n-1")
        shop.release("look")
        await back(recorder)
        said = await both_ended(recorder, [first, second])
        again = await recorder.client.append_messages(THREAD, "a note", request_id="n-1")
        runs = [await recorder.client.get_run(one.run_id) for one in (first, second)]

    assert [run.state for run in runs] == [RunState.RUN_STATE_SUCCEEDED] * 2
    assert [run_id for run_id, _ in groupby(said, key=lambda one: one.run_id)] == [
        first.run_id,
        "",
        second.run_id,
    ]
    assert [one.message.text for one in said if not one.run_id] == ["a note"]
    assert second.has("messages_appended")
    assert not second.has("messages_appended", 2)
    assert again.thread.message_count == len(said)


@pytest.mark.parametrize("failpoint", ["start.after_commit_before_reply=kill@2", "control.after_apply=kill"])
async def test_a_kill_while_a_run_is_replaced_leaves_the_replacement_in_force(
    failpoint: str, servers: Servers, shop: ToolService, tmp_path: Path
) -> None:
    server = await stage(servers, shop, tmp_path, failpoint, workflow=TALK)
    shop.hold("look")
    async with recording(server) as recorder:
        first = recorder.watch(await talking(recorder, "one"))
        await shop.arrived("look")
        replacing = asyncio.create_task(replaced(recorder))
        await back(recorder)
        await replacing
        shop.release("look")
        second = recorder.watch(await talking(recorder, "two", on_busy=OnBusy.ON_BUSY_REPLACE))
        said = await both_ended(recorder, [first, second])
        runs = [await recorder.client.get_run(one.run_id) for one in (first, second)]

    assert [run.stop_reason for run in runs] == [
        StopReason.STOP_REASON_REPLACED,
        StopReason.STOP_REASON_DEFAULT,
    ]
    assert {one.run_id for one in said} == {first.run_id, second.run_id}


async def replaced(recorder: Recorder) -> None:
    """Start a run in place of the active one; the server may die under it."""
    async with recorder.server.client() as client:
        try:
            await recorder.start(
                "talk",
                "two",
                request_id="r-two",
                client=client,
                thread_id=THREAD,
                on_busy=OnBusy.ON_BUSY_REPLACE,
            )
        except Unavailable:
            return


async def test_a_run_that_was_committed_behind_another_and_not_answered_waits_once(
    servers: Servers, shop: ToolService, tmp_path: Path
) -> None:
    server = await stage(servers, shop, tmp_path, "start.after_commit_before_reply=kill@2", workflow=TALK)
    shop.hold("look")
    async with recording(server) as recorder:
        first = recorder.watch(await talking(recorder, "one"))
        await shop.arrived("look")
        with pytest.raises(Unavailable):
            await talking(recorder, "two", on_busy=OnBusy.ON_BUSY_ENQUEUE)
        await back(recorder)
        thread = await recorder.client.get_thread(THREAD)
        assert (thread.active_run_id, thread.waiting_runs) == (first.run_id, 1)
        answer = await recorder.client.start_run(
            "talk",
            input={"mark": "two"},
            request_id="r-two",
            thread_id=THREAD,
            on_busy=OnBusy.ON_BUSY_ENQUEUE,
        )
        shop.release("look")
        said = await both_ended(recorder, [first, recorder.watch(answer.run.run_id)])

    assert answer.disposition == StartDisposition.START_DISPOSITION_DEDUPLICATED
    assert [run_id for run_id, _ in groupby(said, key=lambda one: one.run_id)] == [
        first.run_id,
        answer.run.run_id,
    ]


async def test_a_kill_between_the_bytes_of_a_result_and_its_fact_loses_nothing(
    servers: Servers, shop: ToolService, tmp_path: Path
) -> None:
    shop.answers["look"] = [f"line {number}: the berth is free" for number in range(12_000)]
    server = await stage(servers, shop, tmp_path, "result.after_put_before_commit=kill", workflow=TALK)
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("talk", "one", request_id="r-1"))
        await back(recorder)
        await recorder.done()
        run = await recorder.client.get_run(watcher.run_id)
        calls = await recorder.client.list_tool_calls(watcher.run_id)
        call = next(one for one in calls if one.tool == "look")
        whole = b"".join(
            [part async for part in recorder.client.tool_call_result(watcher.run_id, call.call_id)]
        )
        await recorder.judged([watcher.run_id], entries=shop.entries, effects=worlds.EFFECTS)

    assert run.state == RunState.RUN_STATE_SUCCEEDED
    assert (call.status, call.attempts) == (ToolCallStatus.TOOL_CALL_STATUS_COMPLETED, 2)
    assert whole.startswith(b'["line 0: the berth is free"')
    assert whole.endswith(b'line 11999: the berth is free"]')
    assert len(shop.once("look")) == 1
