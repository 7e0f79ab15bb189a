"""How a server of its own accord ends the stream of a worker: one that is silent, stuck, or one too many."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs]  # ships its own types

from jackline.v1 import tool_worker_pb2 as wire
from jackline_server.api.limits import LIMITS
from jackline_server.runtime.ports.tools import ToolEnding
from tests.rpc.harness import Harness
from tests.rpc.test_worker_streams import LIST, opened, refusal, register, say, welcomed
from tests.tools.worker.scene import POOL, SECONDS, Scene, result_of

BEAT_MS = 100
LARGE = "x" * (1 << 20)
"""More than a stream carries to somebody who reads nothing."""


@asynccontextmanager
async def door_of(scene: Scene) -> AsyncGenerator[Harness]:
    """A server whose pool is that of the scene."""
    door = await Harness.open(LIMITS, workers=scene.pools)
    try:
        yield door
    finally:
        await door.close()


async def is_connected(door: Harness) -> bool:
    answer = await door.send(LIST, wire.ListToolWorkersRequest(pool=POOL))
    (pool,) = wire.ListToolWorkersResponse.FromString(answer).pools
    return any(worker.connected for worker in pool.workers)


async def test_a_worker_that_says_nothing_for_three_heartbeats_is_let_go() -> None:
    async with door_of(Scene(heartbeat_ms=BEAT_MS)) as door:
        worker = await welcomed(door)
        found = await refusal(worker)
        assert (found.code, found.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "WORKER_SILENT")
        assert not await is_connected(door)


async def test_a_worker_that_takes_nothing_for_three_heartbeats_is_let_go() -> None:
    scene = Scene(heartbeat_ms=10 * BEAT_MS, resume_grace_ms=0)
    async with door_of(scene) as door:
        worker = await welcomed(door)
        calls = [scene.call(arguments={"order": LARGE}) for _ in range(8)]
        async with asyncio.timeout(SECONDS):
            while await is_connected(door):
                await say(worker, wire.ConnectRequest(heartbeat=wire.WorkerHeartbeat()))
        found = await refusal(worker)
        assert (found.code, found.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW_CONSUMER")
        assert {(await result_of(call)).ending for call in calls} == {ToolEnding.FAILED}


async def test_a_worker_too_many_is_told_to_come_later() -> None:
    async with door_of(Scene(most_workers=1)) as door:
        first = await welcomed(door)
        second = opened(door)
        await say(second, register(worker="two"))
        found = await refusal(second)
        assert (found.code, found.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "WORKER_LIMIT")
        assert found.info.metadata["limit"] == "1"
        assert found.detail(error_details_pb2.RetryInfo).HasField("retry_delay")
        await first.done_writing()
        await first.code()
        third: Any = await welcomed(door, worker="two")
        await third.done_writing()
        await third.code()
