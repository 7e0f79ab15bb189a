"""The door of ToolWorkerService: how a worker's stream begins and ends, and who is listed."""

import asyncio
from typing import Any

import grpc.aio
import pytest

from jackline.v1 import tool_worker_pb2 as wire
from jackline_server.identity.principals import Scope
from tests.rpc.harness import ALL, SECONDS, Harness, ended, token_for
from tests.tools.worker.scene import POOL

CONNECT = "/jackline.v1.ToolWorkerService/Connect"
LIST = "/jackline.v1.ToolWorkerService/ListToolWorkers"
TOOL = wire.WorkerTool(name="look", description="Looks.", parameters_json=b'{"type":"object"}')

LONG = "i" * 129


def opened(door: Harness, token: str = ALL) -> Any:
    return door.stream_stream(CONNECT)(metadata=door.metadata(token))


def register(**more: Any) -> wire.ConnectRequest:
    fields: dict[str, Any] = {"pool": POOL, "worker": "one", "tools": [TOOL], **more}
    return wire.ConnectRequest(register=wire.RegisterWorker(**fields))


def result(**fields: Any) -> wire.ConnectRequest:
    return wire.ConnectRequest(result=wire.InvocationResult(**fields))


def progress(**fields: Any) -> wire.ConnectRequest:
    return wire.ConnectRequest(progress=wire.InvocationProgress(**fields))


async def say(call: Any, message: wire.ConnectRequest) -> None:
    await call.write(message.SerializeToString())


async def heard(call: Any) -> wire.ConnectResponse:
    async with asyncio.timeout(SECONDS):
        return wire.ConnectResponse.FromString(await call.read())


async def welcomed(door: Harness, **more: Any) -> Any:
    call = opened(door)
    await say(call, register(**more))
    assert (await heard(call)).WhichOneof("message") == "welcome"
    return call


async def refusal(call: Any) -> Any:
    try:
        async with asyncio.timeout(SECONDS):
            while await call.read() is not grpc.aio.EOF:
                pass
    except grpc.aio.AioRpcError as error:
        return ended(error)
    raise AssertionError("the stream ended with OK")


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ((wire.ConnectRequest(heartbeat=wire.WorkerHeartbeat()),), "INVALID_REQUEST"),
        ((wire.ConnectRequest(),), "INVALID_REQUEST"),
        ((register(), register()), "INVALID_REQUEST"),
        ((register(), wire.ConnectRequest()), "INVALID_REQUEST"),
        ((register(), result()), "INVALID_REQUEST"),
        (
            (register(), result(invocation=LONG, text="")),
            "INVALID_REQUEST",
        ),
        (
            (register(), progress(invocation=LONG)),
            "INVALID_REQUEST",
        ),
        ((register(invocations=[LONG]),), "INVALID_REQUEST"),
        ((register(pool="nowhere"),), "WORKER_POOL_NOT_FOUND"),
        ((register(tools=[TOOL, TOOL]),), "INVALID_REQUEST"),
    ],
)
async def test_a_stream_against_the_rules_ends_with_the_reason(
    door: Harness, messages: tuple[wire.ConnectRequest, ...], reason: str
) -> None:
    call = opened(door)
    for message in messages:
        await say(call, message)
    assert (await refusal(call)).reason == reason


async def test_bytes_that_are_no_message_end_the_stream(door: Harness) -> None:
    call = opened(door)
    await call.write(b"\xff\xff\xff")
    assert (await refusal(call)).reason == "MALFORMED_REQUEST"


async def test_a_credential_needs_the_scope_of_workers(door: Harness) -> None:
    found = await refusal(opened(door, token_for(Scope.RUNS_START)))
    assert (found.code, found.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")


async def test_a_worker_that_half_closes_has_left_with_ok(door: Harness) -> None:
    call = await welcomed(door)
    await call.done_writing()
    async with asyncio.timeout(SECONDS):
        assert await call.code() is grpc.StatusCode.OK
    listed = wire.ListToolWorkersResponse.FromString(await door.send(LIST, b""))
    assert [len(pool.workers) for pool in listed.pools] == [0]


async def test_a_worker_that_is_connected_is_listed_with_its_tools(door: Harness) -> None:
    call = await welcomed(door, max_parallel=3)
    listed = wire.ListToolWorkersResponse.FromString(await door.send(LIST, b""))
    (pool,) = listed.pools
    (worker,) = pool.workers
    assert (worker.worker, worker.connected, worker.max_parallel, list(worker.tools)) == (
        "one",
        True,
        3,
        ["look"],
    )
    assert [tool.name for tool in pool.tools] == ["look"]
    await call.done_writing()
    await call.code()


async def test_a_drain_of_the_worker_is_answered_and_one_of_the_server_ends_its_stream(door: Harness) -> None:
    call = await welcomed(door)
    await say(call, wire.ConnectRequest(drain=wire.WorkerDrain()))
    answer = await heard(call)
    assert (answer.WhichOneof("message"), answer.drain.HasField("grace")) == ("drain", False)
    await call.done_writing()
    await call.code()

    other = await welcomed(door)
    await door.server.drain()
    told = await heard(other)
    assert (told.WhichOneof("message"), told.drain.HasField("grace")) == ("drain", True)
    assert (await refusal(other)).reason == "DRAINING"
    await door.check_health(serving=False)
    await door.channel.close()
    await door.server.stop(0)
    door.stopped = True


async def test_a_second_stream_of_a_session_ends_the_first(door: Harness) -> None:
    first = opened(door)
    await say(first, register())
    session = (await heard(first)).welcome.session
    second = opened(door)
    await say(second, register(session=session))
    assert (await heard(second)).welcome.resumed
    found = await refusal(first)
    assert (found.code, found.reason) == (grpc.StatusCode.ABORTED, "WORKER_SESSION_TAKEN")
    await second.done_writing()
    await second.code()


async def test_a_flood_of_progress_is_read_slowly(door: Harness) -> None:
    """A worker without invocations is read at 200 a second, after a second's worth."""
    call = await welcomed(door)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(500):
        await say(call, progress(invocation="i1", text="at it"))
    await say(call, wire.ConnectRequest(drain=wire.WorkerDrain()))
    while (await heard(call)).WhichOneof("message") != "drain":
        pass
    assert loop.time() - began > 1
    await call.done_writing()
