"""How a server process begins and ends: drain, locks, exit codes. Proves G1, D1, and the boot's refusals."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import apsw
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import StartRunRequest
from jackline.v1.run_service_pb2_grpc import RunServiceStub
from jackline_client._statuses import error_from_rpc
from jackline_client.errors import Draining
from tests.outside import worlds
from tests.outside.recording import Recorder, Watcher, recording
from tests.support.openai_endpoint import Reply, serve
from tests.support.server_process import ServerDied, ServerProcess, Servers
from tests.support.tool_service import ToolService

SLOW = f"""\
name: slow
model: fast
{worlds.INPUT}
flow: [think]
steps:
  think: {{kind: completion, prompt: Think., answer: text}}
"""
RUNS = 20


async def put(server: ServerProcess, *workflows: str) -> None:
    async with server.client() as client:
        for workflow in workflows:
            await client.put_workflow(workflow)


async def until_not_serving(server: ServerProcess) -> None:
    """Watch the health service, as a load balancer does."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        async with asyncio.timeout(20):
            async for answer in watch:
                if answer.status == health_pb2.HealthCheckResponse.NOT_SERVING:
                    watch.cancel()
                    return
    raise AssertionError("the server went away without a word")


async def drained(watcher: Watcher) -> None:
    """Its one stream ended with DRAINING, after all that it was sent."""
    assert not await watcher.one_stream()


async def test_a_drain_lets_every_run_go_and_a_restart_finishes_them(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    script = [{"when": {"system_contains": "Think."}, "text": "Thought.", "delay_ms": 2500}]
    server = servers.make(worlds.scripted(tmp_path, [*script, *worlds.PAIR_SCRIPT], shop=shop.base_url))
    await server.start("--drain-grace", "500ms")
    await put(server, SLOW, worlds.PAIR)
    shop.hold("look")
    async with recording(server) as recorder:
        runs = [await recorder.start("slow", f"s{n}", request_id=f"s{n}") for n in range(RUNS)]
        held = await recorder.start("pair", "p", request_id="p")
        await shop.arrived("look")
        watchers = [Watcher(recorder, run, name=f"watcher of {run}") for run in (*runs, held)]
        streams = [asyncio.create_task(drained(watcher)) for watcher in watchers]
        for watcher in watchers:
            await watcher.saw("model_call_started")

        async with asyncio.timeout(0.5 + 5):
            assert await server.stop() == 0
        await asyncio.gather(*streams)
        assert {(stream.reason, stream.ending) for stream in recorder.streams} == {("DRAINING", "refused")}
        assert {int(stream.metadata["sent_through"]) for stream in recorder.streams} == {
            watcher.position for watcher in watchers
        }
        shop.release("look")
        await server.start()
        await recorder.reconnect()
        for watcher in watchers:
            await watcher.follow()
        for run_id in (*runs, held):
            run = await recorder.client.get_run(run_id)
            assert run.state == RunState.RUN_STATE_SUCCEEDED
            assert run.recoveries == 0
        await recorder.judged([*runs, held], entries=shop.entries, effects=worlds.EFFECTS)
    assert len(shop.of("charge")) == 1


async def test_a_write_in_flight_when_the_grace_ends_is_asked_about_after_the_restart(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start("--drain-grace", "300ms")
    await put(server, worlds.PAIR)
    shop.hold("charge")
    async with recording(server) as recorder:
        run_id = await recorder.start("pair", "p")
        await shop.arrived("charge")
        assert await server.stop() == 0
        await server.start()
        await recorder.reconnect()
        watcher = recorder.watch(run_id)
        await watcher.saw("interrupt_raised")
        questions = [one async for one in recorder.client.list_interrupts(run_id)]
        await recorder.client.answer(run_id, questions[0].interrupt_id, "succeeded")
        await recorder.done()
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)
    assert len(shop.of("charge")) == 1


async def impatient(recorder: Recorder, request_id: str) -> None:
    """One attempt at a start, without the library's retries. Raises CallError."""
    stub: Any = RunServiceStub(recorder.channel)
    request = StartRunRequest(workflow="pair", input_json=b'{"mark":"q"}', request_id=request_id)
    metadata = (("authorization", f"Bearer {recorder.server.token}"),)
    try:
        await stub.StartRun(request, metadata=metadata, timeout=20)
    except grpc.aio.AioRpcError as error:
        raise error_from_rpc(error) from error


async def test_a_draining_server_takes_no_new_run_but_answers_for_old_ones(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start("--drain-grace", "20s")
    await put(server, worlds.PAIR)
    shop.hold("look")
    async with recording(server) as recorder:
        run_id = await recorder.start("pair", "p", request_id="r-1")
        await shop.arrived("look")
        os.kill(server.pid, signal.SIGTERM)
        await until_not_serving(server)

        with pytest.raises(Draining) as refused:
            await impatient(recorder, "r-2")
        assert refused.value.retry_after_s
        assert await recorder.start("pair", "p", request_id="r-1") == run_id
        assert (await recorder.client.get_run(run_id)).state == RunState.RUN_STATE_RUNNING
        shop.release("look")
        assert await server.ended() == 0


async def test_a_second_signal_ends_it_at_once_and_loses_nothing(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start("--drain-grace", "60s")
    await put(server, worlds.PAIR)
    shop.hold("look")
    async with recording(server) as recorder:
        run_id = await recorder.start("pair", "p", request_id="r-1")
        watcher = recorder.watch(run_id)
        await shop.arrived("look")
        os.kill(server.pid, signal.SIGTERM)
        await until_not_serving(server)
        assert await server.stop(within_s=5) == 1

        shop.release("look")
        await server.start()
        await recorder.done()
        assert watcher.ended
        await recorder.judged([run_id], entries=shop.entries, effects=worlds.EFFECTS)


async def refused_start(server: ServerProcess, *flags: str) -> int:
    with pytest.raises(ServerDied) as died:
        await server.start(*flags)
    assert "Traceback" not in server.tail()
    return died.value.code


async def test_a_second_server_on_the_same_data_is_refused(servers: Servers, tmp_path: Path):
    config = worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop="http://127.0.0.1:9")
    first = servers.make(config)
    await first.start()

    assert await refused_start(servers.beside(first, config)) == 75

    async with first.client() as client:
        assert (await client.get_server_info()).version


async def test_an_address_in_use_is_refused(servers: Servers, tmp_path: Path):
    config = worlds.scripted(tmp_path, worlds.PAIR_SCRIPT)
    first, second = servers.make(config), servers.make(config)
    await first.start()

    assert await refused_start(second, "--listen", first.address) == 98


@pytest.mark.parametrize("cold", [True, False])
async def test_a_bad_config_is_refused(*, cold: bool, servers: Servers):
    assert await refused_start(servers.make("[server]\nlisten = 5\nnonsense = true\n", cold=cold)) == 2


async def test_a_misspelt_failpoint_is_refused(servers: Servers):
    server = servers.make("")
    with pytest.raises(ServerDied) as died:
        await server.start(failpoints="store.wrote=kill")
    assert died.value.code == 2


async def test_a_damaged_store_is_refused_and_left_alone(servers: Servers):
    server = servers.make("")
    await server.start()
    assert await server.stop() == 0
    database = server.data / "jackline.db"
    damaged = b"not a database" + database.read_bytes()[14:]
    database.write_bytes(damaged)

    assert await refused_start(server) == 74
    assert database.read_bytes() == damaged


async def test_a_store_of_a_newer_version_is_refused(servers: Servers):
    server = servers.make("")
    await server.start()
    assert await server.stop() == 0
    connection: Any = apsw.Connection(str(server.data / "jackline.db"))
    connection.execute("PRAGMA user_version = 1000")
    connection.close()

    assert await refused_start(server) == 78


async def test_a_cold_start_with_a_scripted_model_never_loads_litellm(servers: Servers, tmp_path: Path):
    server = servers.make(worlds.scripted(tmp_path, [{"text": "Thought."}]), cold=True)
    await server.start(PYTHONPROFILEIMPORTTIME="1")
    await put(server, SLOW)
    async with recording(server) as recorder:
        recorder.watch(await recorder.start("slow", "s"))
        await recorder.done()
    assert await server.stop() == 0

    log = (server.folder / "server.log").read_text(encoding="utf-8")
    loaded = {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}
    assert "jackline_server.models.late" in loaded
    assert not loaded & {"litellm", "openai", "httpx", "aiohttp", "rich"}


async def test_a_model_on_the_openai_wire_never_loads_litellm(servers: Servers):
    async with serve(lambda _: Reply(text="Thought.")) as model:
        server = servers.make(worlds.endpoint(model.base_url), cold=True)
        await server.start(PYTHONPROFILEIMPORTTIME="1")
        await put(server, SLOW)
        async with recording(server) as recorder:
            recorder.watch(await recorder.start("slow", "s"))
            await recorder.done()
        assert await server.stop() == 0
        assert len(model.hits) == 1

    log = (server.folder / "server.log").read_text(encoding="utf-8")
    loaded = {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}
    assert {"jackline_server.models.openai_adapter", "aiohttp"} <= loaded
    assert not loaded & {"litellm", "openai", "httpx"}


async def test_port_0_takes_a_free_one_and_says_which(servers: Servers):
    server = servers.make("")

    address = await server.start("--listen", "127.0.0.1:0")

    assert address != server.address
    assert int(address.rpartition(":")[2]) > 0
