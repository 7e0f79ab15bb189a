"""ToolWorkerService: the streams of workers, as long as each lasts.

Owns the beginning and the end of a stream, its heartbeats, and how long a silent or stuck worker is kept.
What is said on it is the registry's business.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from google.protobuf.message import Message

from jackline.v1 import tool_worker_pb2
from jackline_server.api.limits import Limits
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.api.worker_messages import (
    heartbeat_message,
    order_message,
    pool_message,
    registration_of,
    said_by,
    welcome_message,
)
from jackline_server.rpc.calls import Call
from jackline_server.rpc.streams import OpenStreams
from jackline_server.runtime.allowances import Pace
from jackline_server.runtime.ports.workers import WorkerLeaves, WorkerProgress, WorkerRegistry, WorkerSeat

_REGISTER_S = 10.0
_MISSED = 3
"""So many heartbeats without a word, or without a message taken, and the worker is let go."""

_BREAK_S = 0.5
"""A stream that breaks looks half-closed first; within so long its call is cancelled."""

_PROGRESS_A_SECOND = 20
"""Of each invocation: twice what the contract asks for. What is more than that is read no faster."""

_FEWEST = 10
"""A worker with fewer invocations is read as if it had so many."""

Requests = AsyncIterator[tool_worker_pb2.ConnectRequest]


class WorkerStreams:
    """Serves Connect, and tells who is connected."""

    def __init__(
        self, *, registry: WorkerRegistry, open_streams: OpenStreams, limits: Limits, version: str
    ) -> None:
        self._registry = registry
        self._open = open_streams
        self._limits = limits
        self._version = version

    async def connect(self, requests: Requests, call: Call) -> None:
        """One stream, until either side ends it."""
        async with self._open.life():
            said = aiter(requests)
            try:
                async with asyncio.timeout(_REGISTER_S):
                    first = await anext(said, None)
            except TimeoutError:
                raise _silent("The worker did not register in time.") from None
            if first is None:
                return
            seat = await self._registry.join(call.principal.name, registration_of(first))
            leaving = False
            try:
                leaving = await self._served(said, seat, call)
            finally:
                seat.end(leaving=leaving)

    async def list_tool_workers(
        self, request: tool_worker_pb2.ListToolWorkersRequest, call: Call
    ) -> tool_worker_pb2.ListToolWorkersResponse:
        """The pools and who is connected to them."""
        del call
        pools = self._registry.pools(request.pool)
        return tool_worker_pb2.ListToolWorkersResponse(pools=[pool_message(pool) for pool in pools])

    async def _served(self, said: Requests, seat: WorkerSeat, call: Call) -> bool:
        """Both directions, until the worker half-closes: True then. Raises what ends the stream."""
        beat_s = seat.welcome.heartbeat_ms / 1000
        # By itself: while a first message is on its way, a stream can't be given a status.
        await _written(call, welcome_message(seat.welcome, version=self._version), beat_s)
        hearing = asyncio.create_task(_heard(said, seat, silent_s=beat_s * _MISSED), name="worker hearing")
        telling = asyncio.create_task(self._told(seat, call, beat_s), name="worker telling")
        try:
            done, _ = await asyncio.wait({hearing, telling}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            telling.cancel()
            seat.hear(WorkerLeaves())  # nothing more is given to it, whichever it is
            await asyncio.sleep(_BREAK_S)
            return True
        finally:
            for task in (hearing, telling):
                task.cancel()
            await asyncio.gather(hearing, telling, return_exceptions=True)

    async def _told(self, seat: WorkerSeat, call: Call, beat_s: float) -> None:
        while True:
            message = heartbeat_message()
            with suppress(TimeoutError):
                async with asyncio.timeout(beat_s):
                    message = order_message(await seat.next_order())
            await _written(call, message, beat_s)


async def _heard(said: Requests, seat: WorkerSeat, *, silent_s: float) -> None:
    """Take in what the worker says until it half-closes; slowly, if it is a flood of progress."""
    pace = Pace()
    while True:
        try:
            async with asyncio.timeout(silent_s):
                request = await anext(said, None)
        except TimeoutError:
            raise _silent(f"Nothing was heard of the worker for {silent_s:g} s. Connect again.") from None
        if request is None:
            return
        message = said_by(request)
        if message is not None:
            seat.hear(message)
        if isinstance(message, WorkerProgress):
            most = max(seat.in_flight, _FEWEST) * _PROGRESS_A_SECOND
            if wait_s := pace.wait_s(most, asyncio.get_running_loop().time()):
                await asyncio.sleep(wait_s)


async def _written(call: Call, message: Message, beat_s: float) -> None:
    try:
        async with asyncio.timeout(beat_s * _MISSED):
            await call.context.write(message.SerializeToString())
    except TimeoutError:
        raise DoorRefused(
            DoorReason.SLOW_CONSUMER,
            f"The worker took nothing for {beat_s * _MISSED:g} s. Connect again.",
        ) from None


def _silent(message: str) -> DoorRefused:
    return DoorRefused(DoorReason.WORKER_SILENT, message)
