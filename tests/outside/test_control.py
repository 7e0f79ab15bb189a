"""Commands to real runs, sent from outside while things are in flight. Proves C1, I2, P1."""

import asyncio
import random
from pathlib import Path

import pytest

from jackline.v1.control_pb2 import CommandDisposition, ReceiptStage
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import RunState, ToolCallStatus
from jackline_client.errors import CommandIdReused, RunTerminal
from jackline_server.testing.validators.history import Limits
from tests.outside import worlds
from tests.outside.recording import Recorder, now_ms, recording
from tests.outside.test_process_life import SLOW, put
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

APPLIED = CommandDisposition.COMMAND_DISPOSITION_APPLIED
EFFECTIVE = ReceiptStage.RECEIPT_STAGE_EFFECTIVE
SETTLED = ReceiptStage.RECEIPT_STAGE_SETTLED
NOW_MS = 2_000
RACES = 200

SCRIPT = [
    {"when": {"system_contains": "Think."}, "text": "Thought.", "delay_ms": 60_000},
    {"when": {"turn": 1}, "tool_calls": [{"name": "look"}, {"name": "charge"}]},
    {"when": {"user_contains": "be brief"}, "text": "Brief."},
    {"text": "Looked, and charged."},
]


@pytest.fixture
async def server(servers: Servers, shop: ToolService, tmp_path: Path) -> ServerProcess:
    made = servers.make(worlds.scripted(tmp_path, SCRIPT, shop=shop.base_url))
    await made.start()
    await put(made, SLOW, worlds.PAIR)
    return made


async def held(recorder: Recorder, shop: ToolService, tool: str) -> str:
    """A run whose call of a tool is in flight."""
    shop.hold(tool)
    run_id = await recorder.start("pair", "m")
    recorder.watch(run_id)
    await shop.arrived(tool)
    return run_id


def facts(log: list[StepEvent]) -> list[str]:
    return [str(event.WhichOneof("fact")) for event in log]


async def test_a_pause_holds_the_run_before_its_next_call_and_outlives_a_kill(
    server: ServerProcess, shop: ToolService
):
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "look")
        watcher = recorder.watch(run_id, name="second")
        await recorder.client.pause(run_id)
        shop.release("look")
        await watcher.saw("paused")
        paused = await recorder.client.get_run(run_id)
        assert paused.state == RunState.RUN_STATE_PAUSED
        assert shop.of("charge") == []

        await server.kill()
        await server.start()
        await recorder.reconnect()
        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_PAUSED
        assert shop.of("charge") == []
        resumed = await recorder.client.resume(run_id, wait=SETTLED)
        assert (resumed.receipt.disposition, resumed.reached) == (APPLIED, True)
        await recorder.done()
        run = await recorder.client.get_run(run_id)
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        log = facts(watcher.events())
        assert "tool_call_started" not in log[log.index("paused") : log.index("resumed")]
        assert "model_call_started" not in log[log.index("paused") : log.index("resumed")]
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)


async def test_a_steer_reaches_the_model_as_a_users_message(server: ServerProcess, shop: ToolService):
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "charge")
        await recorder.client.steer(run_id, "Please be brief.")
        shop.release("charge")
        await recorder.done()

        run = await recorder.client.get_run(run_id)
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        messages = await recorder.client.list_run_messages(run_id)
        steered = [message for message in messages if "Please be brief." in message.text]
        assert [message.provenance.partition(":")[0] for message in steered] == ["steer"]
        assert messages[-1].text == "Brief."
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)


async def test_an_abort_now_ends_a_run_whose_write_hangs_within_two_seconds(
    server: ServerProcess, shop: ToolService
):
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "charge")
        begun = now_ms()
        receipt = (await recorder.client.abort(run_id, wait=SETTLED)).receipt
        assert now_ms() - begun < NOW_MS
        await recorder.done()
        assert now_ms() - begun < NOW_MS
        assert (receipt.stage, receipt.disposition) == (SETTLED, APPLIED)

        run = await recorder.client.get_run(run_id)
        assert (run.state, run.signal) == (RunState.RUN_STATE_ABORTED, "aborted")
        calls = {call.tool: call.status for call in await recorder.client.list_tool_calls(run_id)}
        assert calls["charge"] == ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN
        assert len(shop.entries) == 2
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)


async def test_an_abort_now_ends_a_run_whose_model_hangs_within_two_seconds(server: ServerProcess):
    async with recording(server) as recorder:
        run_id = await recorder.start("slow", "m")
        watcher = recorder.watch(run_id)
        await watcher.saw("model_call_started")
        begun = now_ms()
        await recorder.client.abort(run_id)
        await recorder.done()
        assert now_ms() - begun < NOW_MS
        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_ABORTED
        await recorder.judged([run_id])


async def test_a_graceful_abort_lets_the_call_in_hand_end_and_starts_no_other(
    server: ServerProcess, shop: ToolService
):
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "look")
        await recorder.client.abort(run_id, graceful=True)
        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_RUNNING
        shop.release("look")
        await recorder.done()

        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_ABORTED
        calls = {call.tool: call.status for call in await recorder.client.list_tool_calls(run_id)}
        assert calls["look"] == ToolCallStatus.TOOL_CALL_STATUS_COMPLETED
        assert shop.of("charge") == []
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)


async def test_a_graceful_abort_does_not_wait_for_ever(server: ServerProcess, shop: ToolService):
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "look")
        begun = now_ms()
        await recorder.client.abort(run_id, graceful=True)
        await recorder.done()

        assert 5_000 < now_ms() - begun < 11_000
        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_ABORTED


async def test_an_acknowledged_abort_survives_a_kill_and_starts_nothing(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, SCRIPT, shop=shop.base_url))
    await server.start(failpoints="control.after_apply=kill")
    await put(server, worlds.PAIR)
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "charge")
        await recorder.client.abort(run_id, command_id="c-1")
        await server.killed()
        await server.start()
        await recorder.reconnect()
        await recorder.done()

        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_ABORTED
        assert len(shop.of("charge")) == 1
        again = (await recorder.client.abort(run_id, command_id="c-1")).receipt
        assert (again.repeated, again.disposition) == (True, APPLIED)
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)


async def test_a_command_sent_twice_acts_once_and_is_told_the_same(server: ServerProcess, shop: ToolService):
    async with recording(server) as recorder:
        run_id = await held(recorder, shop, "charge")
        receipts = await asyncio.gather(
            *(recorder.client.steer(run_id, "Please be brief.", command_id="c-1") for _ in range(20))
        )
        assert sum(not answer.receipt.repeated for answer in receipts) == 1
        with pytest.raises(CommandIdReused):
            await recorder.client.steer(run_id, "Or rather not.", command_id="c-1")
        shop.release("charge")
        watcher = recorder.watch(run_id, name="second")
        await recorder.done()

        assert facts(watcher.events()).count("steered") == 1
        again = (await recorder.client.steer(run_id, "Please be brief.", command_id="c-1")).receipt
        applied = next(event for event in watcher.events() if event.HasField("command_applied"))
        assert (again.repeated, again.disposition, again.sequence) == (True, APPLIED, applied.sequence)


async def test_an_ended_run_takes_an_abort_without_a_change_and_nothing_else(
    server: ServerProcess, shop: ToolService
):
    async with recording(server) as recorder:
        run_id = await recorder.start("pair", "m")
        recorder.watch(run_id)
        await recorder.done()
        before = (await recorder.client.get_run(run_id)).head_sequence

        receipt = (await recorder.client.abort(run_id)).receipt

        assert receipt.already_terminal
        assert (await recorder.client.get_run(run_id)).head_sequence == before
        with pytest.raises(RunTerminal):
            await recorder.client.pause(run_id)


async def raced(recorder: Recorder, number: int) -> None:
    """Abort a short run at some moment of it; what the answer says is what the log says."""
    run_id = await recorder.start("pair", str(number))
    watcher = recorder.watch(run_id, name=str(number))
    moments = ("", "model_replied", "tool_call_started", "tool_call_finished", "run_finished")
    moment = random.Random(number).choice(moments)  # noqa: S311 - the number says which race this was
    if moment:
        await watcher.saw(moment)
    receipt = (await recorder.client.abort(run_id, wait=SETTLED)).receipt
    await watcher.at_end()
    run = await recorder.client.get_run(run_id)
    ends = [event for event in watcher.events() if event.HasField("run_finished")]
    assert [event.run_finished.state for event in ends] == [run.state]
    if receipt.disposition == APPLIED:
        assert run.state == RunState.RUN_STATE_ABORTED
    else:
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        assert receipt.already_terminal or receipt.rejection == ErrorReason.ERROR_REASON_RUN_TERMINAL


async def test_a_race_of_abort_and_completion_has_one_winner(server: ServerProcess, shop: ToolService):
    async with recording(server) as recorder:
        slots = asyncio.Semaphore(16)

        async def one(number: int) -> None:
            async with slots:
                await raced(recorder, number)

        async with asyncio.timeout(90):
            await asyncio.gather(*(one(number) for number in range(RACES)))
        await recorder.done()
        runs = [start.run for start in recorder.starts]
        states = [(await recorder.client.get_run(run)).state for run in runs]
        assert {RunState.RUN_STATE_SUCCEEDED, RunState.RUN_STATE_ABORTED} == set(states)
        await recorder.judged(
            runs, entries=shop.entries, effects=worlds.EFFECTS, limits=Limits(quiescent=True)
        )
