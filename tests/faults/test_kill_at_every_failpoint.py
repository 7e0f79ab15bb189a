"""SIGKILL at every failpoint of the real process; the last test says that none was left out.

The numbers of faults.md stand at the cases. Proves D1, D2, S1, S2, I1, I2, O2, O3, B1, G1.
"""

import asyncio
import os
import signal
from collections import Counter
from contextlib import aclosing
from pathlib import Path

import pytest

from jackline.v1.control_pb2 import CommandDisposition
from jackline.v1.event_pb2 import RecoveryCause
from jackline.v1.run_pb2 import RunState, ToolCallStatus
from jackline.v1.run_service_pb2 import StartDisposition
from jackline_client import JacklineClient
from jackline_client.errors import Unavailable
from jackline_server.failpoints import NAMES
from tests.faults.scene import REQUEST, back, killed_and_ended, stage, to_the_end, told
from tests.outside import worlds
from tests.outside.recording import Recorder, recording
from tests.support.openai_endpoint import serve
from tests.support.server_process import Servers
from tests.support.tool_service import ToolService

APPLIED = CommandDisposition.COMMAND_DISPOSITION_APPLIED

MODEL = {
    # F4, F5, F6: not answered, or not committed: asked again. F7: committed: never asked again.
    "loop.model.before_reserve": (2, 2),
    "loop.model.after_reserve": (2, 3),
    "loop.model.mid_stream": (3, 3),
    "loop.model.after_call_before_commit": (3, 3),
    "loop.model.after_commit": (2, 2),
}
"""Kill at the first hit: how often the endpoint was asked, and how many requests the ledger counts."""

TOOL = {
    # F8: not announced: run once; the read's result would have come with the announcement: read again.
    # F9, F10: announced and not run. F11: run and not recorded. F12: recorded.
    "tool.before_intent": (2, 1, False),
    "tool.after_intent_before_call": (1, 0, True),
    "tool.mid": (1, 0, True),
    "tool.after_call_before_commit": (1, 1, True),
    "tool.after_commit": (1, 1, False),
}
"""Kill at the write's hit: requests of the read and of the write, and whether the run asks about it."""

ANYWHERE = {
    "loop.step.begin": 3,
    "event.after_commit_before_publish": 3,
    "store.write": 3,
    "store.sync": 6,
    "store.after_send_before_reply": 6,
}
"""F16, F17 and the store: at the given hit."""

OTHERS = {
    "start.before_commit",
    "start.after_commit_before_reply",
    "claim.after",
    "lease.renew",
    "control.after_commit_before_apply",
    "control.after_apply",
    "finish.before_commit",
    "finish.after_commit",
    "drain.begin",
    "drain.after_release",
}
"""Those with a test of their own below."""

ELSEWHERE = {
    "backup.before",
    "backup.mid",
    "backup.before_publish",
    "migrate.before",
    "migrate.mid",
    "migrate.before_commit",
    "migrate.after",
    "restore.prepared",
    "restore.mid",
    "restore.before_place",
    "restore.after",
    "result.after_put_before_commit",
    "webhook.after_claim_before_send",
    "webhook.settle",
}
"""F20, F21: tests/storage/test_migrations_killed.py, with migrations of its own; test_restore.py.

Results that are kept outside the log: tests/runtime/test_results.py. Webhooks: test_kill_in_webhooks.py.
"""


def test_every_failpoint_has_a_case():
    assert set(MODEL) | set(TOOL) | set(ANYWHERE) | OTHERS | ELSEWHERE == set(NAMES)


# --- model, tools, and anywhere ----------------------------------------------------------------


@pytest.mark.parametrize("name", MODEL)
async def test_a_model_call_is_repeated_only_if_its_reply_was_not_committed(
    name: str, llm_servers: Servers, shop: ToolService, tmp_path: Path
):
    hits, counted = MODEL[name]
    async with serve(told) as model:
        server = await stage(llm_servers, shop, tmp_path, f"{name}=kill", model=model)
        async with recording(server) as recorder:
            seen = await killed_and_ended(recorder, shop)

    assert len(model.hits) == hits
    assert seen.run.ledger.model_requests == counted
    assert seen.facts().count("model_call_started") == counted
    assert seen.facts().count("model_replied") == 2


@pytest.mark.parametrize("name", TOOL)
async def test_a_write_that_was_announced_and_has_no_result_is_asked_about(
    name: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    reads, writes, asks = TOOL[name]
    server = await stage(servers, shop, tmp_path, f"{name}=kill@2")
    async with recording(server) as recorder:
        seen = await killed_and_ended(recorder, shop)

    assert (len(shop.of("look")), len(shop.of("charge"))) == (reads, writes)
    assert seen.asked is asks


@pytest.mark.parametrize("name", [name for name, (_, _, asks) in TOOL.items() if asks])
@pytest.mark.parametrize(
    ("effect", "policy"), [("read", "ask"), ("idempotent", "ask"), ("write", "fail"), ("write", "retry")]
)
async def test_a_cut_call_follows_its_effect_and_its_policy(
    name: str, effect: str, policy: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    workflow = worlds.PAIR.replace("effect: write", f"effect: {effect}\n    on_unknown: {policy}")
    # Two reads start together.
    hit = 1 if (name, effect) == ("tool.after_intent_before_call", "read") else 2
    server = await stage(servers, shop, tmp_path, f"{name}=kill@{hit}", workflow=workflow)
    async with recording(server) as recorder:
        seen = await killed_and_ended(recorder, shop)
        calls = {call.tool: call for call in await recorder.client.list_tool_calls(seen.run.run_id)}

    assert not seen.asked
    assert len(shop.of("charge")) <= (1 if policy == "fail" else 2)
    assert len(shop.once("charge")) <= 1
    if policy == "fail":
        assert calls["charge"].status == ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN
    else:
        assert calls["charge"].status == ToolCallStatus.TOOL_CALL_STATUS_COMPLETED
        assert calls["charge"].attempts == 2


@pytest.mark.parametrize("name", ANYWHERE)
async def test_a_kill_anywhere_leaves_a_run_that_ends_and_a_stream_without_a_hole(
    name: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    server = await stage(servers, shop, tmp_path, f"{name}=kill@{ANYWHERE[name]}")
    async with recording(server) as recorder:
        await killed_and_ended(recorder, shop)

    assert len(shop.of("charge")) <= 1


async def test_a_watcher_of_deltas_is_told_to_drop_what_a_kill_made_void(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """F5."""
    server = await stage(servers, shop, tmp_path, "loop.model.after_call_before_commit=kill@2")
    async with recording(server) as recorder:
        answer = await recorder.client.start_run("pair", input={"mark": "m"})
        watching = asyncio.create_task(told_to_drop(recorder.client, answer.run.run_id))
        await server.killed()
        await server.start()
        async with asyncio.timeout(30):
            assert await watching


async def told_to_drop(client: JacklineClient, run_id: str) -> bool:
    """Watch to the end; true if a frame said that the deltas before it are void."""
    told_so = False
    async with aclosing(client.watch(run_id, deltas=True)) as frames:
        async for frame in frames:
            told_so = told_so or frame.reset is not None or frame.resumed
    return told_so


# --- start -------------------------------------------------------------------------------------


async def test_a_start_that_was_not_committed_left_nothing(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """F1."""
    server = await stage(servers, shop, tmp_path, "start.before_commit=kill")
    async with recording(server) as recorder:
        with pytest.raises(Unavailable):
            await recorder.start("pair", "m", request_id=REQUEST)
        await back(recorder)
        assert [run async for run in recorder.client.list_runs()] == []

        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        await to_the_end(recorder, watcher, shop)
    assert [start.disposition for start in recorder.starts] == ["", "started"]
    assert len(shop.of("charge")) == 1


async def test_a_start_that_was_committed_and_not_answered_is_one_run(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """F2."""
    server = await stage(servers, shop, tmp_path, "start.after_commit_before_reply=kill")
    async with recording(server) as recorder:
        with pytest.raises(Unavailable):
            await recorder.start("pair", "m", request_id=REQUEST)
        await back(recorder)
        runs = [run.run_id async for run in recorder.client.list_runs()]
        assert len(runs) == 1
        seen = await to_the_end(recorder, recorder.watch(runs[0]), shop)
        assert seen.run.state == RunState.RUN_STATE_SUCCEEDED

        again = await recorder.client.start_run("pair", input={"mark": "m"}, request_id=REQUEST)
        assert again.disposition == StartDisposition.START_DISPOSITION_DEDUPLICATED
        assert again.run.run_id == runs[0]
    assert len(shop.of("charge")) == 1


# --- claim and lease ---------------------------------------------------------------------------


async def test_a_claim_that_came_to_nothing_is_claimed_again(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """F3."""
    server = await stage(servers, shop, tmp_path, "tool.before_intent=kill")
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        await server.killed()
        await server.spawn(failpoints="claim.after=kill")
        await back(recorder)
        seen = await to_the_end(recorder, watcher, shop)

    assert seen.run.state == RunState.RUN_STATE_SUCCEEDED
    assert seen.facts().count("run_started") == 1
    assert seen.facts().count("run_recovered") == 1
    assert len(shop.of("charge")) == 1


async def test_a_kill_while_leases_are_renewed_is_a_kill_like_any_other(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = await stage(servers, shop, tmp_path, "lease.renew=kill", more='[server]\nlease_ttl = "900ms"\n')
    shop.hold("look")
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        await back(recorder)
        shop.release("look")
        seen = await to_the_end(recorder, watcher, shop)

    assert seen.run.state == RunState.RUN_STATE_SUCCEEDED
    assert len(shop.once("look")) == 1


# --- control -----------------------------------------------------------------------------------


async def steered(recorder: Recorder, run_id: str) -> None:
    """Send one steer; the server may die under it."""
    async with recorder.server.client() as client:
        try:
            await client.steer(run_id, "Please be brief.", command_id="c-1")
        except Unavailable:
            return


@pytest.mark.parametrize("name", ["control.after_commit_before_apply", "control.after_apply"])
async def test_a_committed_command_is_applied_once(
    name: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    """F15."""
    server = await stage(servers, shop, tmp_path, f"{name}=kill")
    shop.hold("look")
    async with recording(server) as recorder:
        run_id = await recorder.start("pair", "m", request_id=REQUEST)
        watcher = recorder.watch(run_id)
        await shop.arrived("look")
        sent = asyncio.create_task(steered(recorder, run_id))
        if name == "control.after_apply":
            await sent
            shop.release("look")
        await back(recorder)
        await sent
        shop.release("look")
        seen = await to_the_end(recorder, watcher, shop)

        again = (await recorder.client.steer(run_id, "Please be brief.", command_id="c-1")).receipt
        assert (again.repeated, again.disposition) == (True, APPLIED)
    assert seen.facts().count("steered") == 1


async def test_a_question_waits_through_a_kill_and_its_answer_is_acted_on_once(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """F13, F14."""
    server = await stage(servers, shop, tmp_path, "tool.after_call_before_commit=kill@2")
    async with recording(server) as recorder:
        run_id = await recorder.start("pair", "m", request_id=REQUEST)
        watcher = recorder.watch(run_id)
        await back(recorder, failpoints="control.after_commit_before_apply=kill")
        await watcher.saw("interrupt_raised")
        asked = [one.interrupt_id async for one in recorder.client.list_interrupts(run_id)]
        await server.kill()
        await server.start(failpoints="control.after_commit_before_apply=kill")
        await recorder.reconnect()
        assert [one.interrupt_id async for one in recorder.client.list_interrupts(run_id)] == asked
        with pytest.raises(Unavailable):
            await recorder.client.answer(run_id, asked[0], "retry", command_id="c-1")
        await back(recorder)
        await recorder.done()

        assert watcher.has("interrupt_resolved")
        assert not watcher.has("interrupt_resolved", 2)
        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_SUCCEEDED
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)
    assert Counter(entry.tool for entry in shop.entries) == {"look": 1, "charge": 2}
    assert len(shop.once("charge")) == 1


# --- the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["finish.before_commit", "finish.after_commit"])
async def test_a_run_ends_once(name: str, servers: Servers, shop: ToolService, tmp_path: Path):
    """F18."""
    server = await stage(servers, shop, tmp_path, f"{name}=kill")
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        await back(recorder)
        seen = await to_the_end(recorder, watcher, shop)

    assert seen.run.state == RunState.RUN_STATE_SUCCEEDED
    assert seen.facts().count("run_finished") == 1
    assert len(shop.of("charge")) == 1


@pytest.mark.parametrize("name", ["drain.begin", "drain.after_release"])
async def test_a_kill_during_a_drain_loses_nothing(
    name: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    server = await stage(servers, shop, tmp_path, f"{name}=kill", more='[server]\ndrain_grace = "200ms"\n')
    shop.hold("look")
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        await shop.arrived("look")
        os.kill(server.pid, signal.SIGTERM)
        await back(recorder)
        shop.release("look")
        seen = await to_the_end(recorder, watcher, shop)

    drained = name == "drain.after_release"
    causes = [event.run_recovered.cause for event in seen.log if event.HasField("run_recovered")]
    expected = RecoveryCause.RECOVERY_CAUSE_DRAIN if drained else RecoveryCause.RECOVERY_CAUSE_CRASH
    assert causes == [expected]
    assert seen.run.recoveries == (0 if drained else 1)
    assert len(shop.of("charge")) == 1
