"""Time that is over, while the model hangs. Judged by the endpoint's hit log."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from jackline.v1.run_pb2 import RunBounds, RunState, StopReason
from tests.outside import worlds
from tests.outside.recording import now_ms, recording
from tests.outside.test_process_life import SLOW, put
from tests.support.openai_endpoint import Hang, Wire, serve
from tests.support.server_process import Servers

SLACK_MS = 2_500


async def test_an_absolute_deadline_ends_a_run_whose_model_hangs(llm_servers: Servers):
    async with serve(lambda _: Wire(pieces=[Hang()])) as model:
        server = llm_servers.make(worlds.endpoint(model.base_url))
        await server.start()
        await put(server, SLOW)
        async with recording(server) as recorder:
            begun = now_ms()
            run_id = await recorder.start("slow", "m", deadline=datetime.now(UTC) + timedelta(seconds=1.5))
            recorder.watch(run_id)
            await recorder.done()
            took = now_ms() - begun

            run = await recorder.client.get_run(run_id)
            assert (run.state, run.signal) == (RunState.RUN_STATE_EXHAUSTED, "time_exceeded")
            assert run.stop_reason == StopReason.STOP_REASON_DEADLINE
            assert 1_500 <= took < 1_500 + SLACK_MS
            await recorder.judged([run_id], hits=[run_id] * len(model.hits))
        async with asyncio.timeout(5):
            assert await model.ended(1) == "client_gone"
        assert len(model.hits) == 1


async def test_the_time_of_a_run_ends_it_while_its_model_hangs(llm_servers: Servers):
    async with serve(lambda _: Wire(pieces=[Hang()])) as model:
        server = llm_servers.make(worlds.endpoint(model.base_url))
        await server.start()
        await put(server, SLOW)
        async with recording(server) as recorder:
            bounds = RunBounds(run_timeout=Duration(seconds=1))
            run_id = await recorder.start("slow", "m", bounds=bounds)
            recorder.watch(run_id)
            await recorder.done()

            run = await recorder.client.get_run(run_id)
            assert (run.state, run.signal) == (RunState.RUN_STATE_EXHAUSTED, "time_exceeded")
            assert run.stop_reason == StopReason.STOP_REASON_TIME_BUDGET
            assert 1_000 <= run.active_time.ToMilliseconds() < 1_000 + SLACK_MS
            assert len(model.hits) == 1
            await recorder.judged([run_id], hits=[run_id] * len(model.hits))


async def test_a_deadline_that_passes_while_the_server_is_down_ends_the_run_after_it(
    servers: Servers, tmp_path: Path
):
    script = [{"text": "Thought.", "delay_ms": 60_000}]
    server = servers.make(worlds.scripted(tmp_path, script))
    await server.start()
    await put(server, SLOW)
    async with recording(server) as recorder:
        deadline = datetime.now(UTC) + timedelta(seconds=1)
        run_id = await recorder.start("slow", "m", deadline=deadline)
        watcher = recorder.watch(run_id)
        await watcher.saw("model_call_started")
        await server.kill()
        over = asyncio.Event()
        left = (deadline - datetime.now(UTC)).total_seconds()
        asyncio.get_running_loop().call_later(max(left, 0), over.set)
        await over.wait()
        await server.start()
        await recorder.done()

        run = await recorder.client.get_run(run_id)
        assert run.stop_reason == StopReason.STOP_REASON_DEADLINE
        assert not watcher.has("model_call_started", 2)


async def test_a_delayed_run_outlives_its_server_and_begins_at_its_time(servers: Servers, tmp_path: Path):
    server = servers.make(worlds.scripted(tmp_path, [{"text": "Thought."}]))
    await server.start()
    await put(server, SLOW)
    async with recording(server) as recorder:
        run_id = await recorder.start("slow", "m", start_delay=timedelta(seconds=2))
        await server.kill()
        await server.start()
        seen = recorder.watch(run_id)
        await recorder.done()

        run = await recorder.client.get_run(run_id)
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        begun = next(event for event in seen.events() if event.HasField("step_started"))
        assert begun.time.ToDatetime() >= run.start_time.ToDatetime() > run.created_at.ToDatetime()
        await recorder.judged([run_id])
