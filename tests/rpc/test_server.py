"""The server itself: health, reflection, its address and its end."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2  # pyright: ignore[reportMissingTypeStubs]  # no types
from grpc_reflection.v1alpha import reflection_pb2  # pyright: ignore[reportMissingTypeStubs]  # no types

from jackline.v1.run_service_pb2 import (
    GetRunRequest,
    GetRunResponse,
)
from jackline_server.api.limits import LIMITS
from jackline_server.rpc.server import AddressRefused
from tests.rpc.doubles import (
    RUN_ID,
    Script,
    ScriptedRuns,
    fold,
    snapshot_of,
)
from tests.rpc.harness import ALL, SECONDS, Harness, ended, make_server

GET = GetRunRequest(run_id=RUN_ID)


async def test_health_is_public_and_can_be_switched(door: Harness) -> None:
    services = ("", "jackline.v1.RunService", "jackline.v1.WorkflowService")
    check = door.unary("/grpc.health.v1.Health/Check")
    for serving in (False, True):
        await door.server.set_serving(serving=serving)
        for service in services:
            request = health_pb2.HealthCheckRequest(service=service)
            data = await check(request.SerializeToString(), timeout=SECONDS)
            assert health_pb2.HealthCheckResponse.FromString(data).status == (1 if serving else 2)


async def test_a_health_watch_follows_the_switch(door: Harness) -> None:
    watch = door.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=SECONDS)
    assert health_pb2.HealthCheckResponse.FromString(await watch.read()).status == 1
    await door.server.set_serving(serving=False)
    assert health_pb2.HealthCheckResponse.FromString(await watch.read()).status == 2
    watch.cancel()
    await door.server.set_serving(serving=True)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_reflection_needs_a_credential_and_shows_both_services(door: Harness, version: str) -> None:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    request = reflection_pb2.ServerReflectionRequest(list_services="")

    async def talk(token: str | None, data: bytes) -> bytes:
        # All that is sent goes at once: grpcio forgets how a call was refused if a later write finds it over.
        call = door.unary_stream(path)(data, metadata=door.metadata(token), timeout=SECONDS)
        return await call.read()

    data = await talk(ALL, request.SerializeToString())
    listed = reflection_pb2.ServerReflectionResponse.FromString(data).list_services_response.service
    assert {"jackline.v1.RunService", "jackline.v1.WorkflowService"} <= {one.name for one in listed}
    for token, sent, reason in ((None, b"", "UNAUTHENTICATED"), (ALL, b"\xff", "MALFORMED_REQUEST")):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await talk(token, sent)
        assert ended(failed.value).reason == reason


async def test_reflection_can_be_left_out() -> None:
    harness = await Harness.open(LIMITS, reflection=False)
    path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
    refused = await harness.refused(path, b"")
    assert refused.reason == "NOT_SERVED"
    await harness.close()


async def test_a_second_server_on_an_address_is_refused(door: Harness) -> None:
    second = make_server(door.script, door.runs, LIMITS)
    with pytest.raises(AddressRefused):
        await second.start(door.address)
    await second.stop(0)


@pytest.mark.parametrize("address", ["203.0.113.77:0", "no-such-host.invalid:0", "127.0.0.1:99999"])
async def test_an_address_that_is_none_of_this_machine_is_refused(address: str) -> None:
    script = Script()
    server = make_server(script, ScriptedRuns(script), LIMITS)
    with pytest.raises(AddressRefused):
        await server.start(address)
    await server.stop(0)


async def test_a_stop_waits_for_calls_and_takes_no_new_ones(door: Harness) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(*_: object) -> Any:
        begun.set()
        await go.wait()
        return snapshot_of(fold())

    door.script.on("get", slow)
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        call = group.create_task(door.ask("GetRun", GET, GetRunResponse))
        await begun.wait()
        stop = group.create_task(door.server.stop(SECONDS))
        go.set()
        assert (await call).run.run_id == RUN_ID
        await stop
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await door.send("/jackline.v1.RunService/GetServerInfo", b"")
    assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
    door.stopped = True
