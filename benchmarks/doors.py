"""A server seen from outside: starts, commands, and streams whose frames stay bytes.

Owns the channels. Nothing is decoded while something is being measured; `histories` does that afterwards.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from benchmarks.histories import Watched
from benchmarks.served import Served
from jackline.v1.run_pb2 import Run, RunState, View
from jackline.v1.run_service_pb2 import (
    ControlRequest,
    ControlResponse,
    ListRunsRequest,
    ListRunsResponse,
    StartRunRequest,
    StartRunResponse,
    StreamProgressRequest,
)

CALL_S = 120.0
STREAM = "/jackline.v1.RunService/StreamProgress"
_START = "/jackline.v1.RunService/StartRun"
_CONTROL = "/jackline.v1.RunService/Control"
_LIST = "/jackline.v1.RunService/ListRuns"
_PAGE = 500
_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 16 << 20))


def channel_to(address: str) -> grpc.aio.Channel:
    """A channel with a connection of its own. The caller closes it."""
    return grpc.aio.insecure_channel(address, options=_OPTIONS)


@dataclass(slots=True, kw_only=True)
class Watching:
    """One watcher: the frames so far, and when each came, by the monotonic clock."""

    run_id: str
    frames: list[bytes] = field(default_factory=list[bytes])
    arrived: list[float] = field(default_factory=list[float])
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, frame: bytes) -> None:
        """Note a frame that has just come."""
        self.frames.append(frame)
        self.arrived.append(time.monotonic())
        self._came.set()

    async def has_frames(self, count: int) -> None:
        """Return once so many frames have come."""
        while len(self.frames) < count:
            self._came.clear()
            await self._came.wait()

    def watched(self) -> Watched:
        """What it got."""
        return Watched(run_id=self.run_id, frames=tuple(self.frames))


class Doors:
    """One client of one server. Made by `doors_of`."""

    def __init__(self, served: Served, unary: grpc.aio.Channel, streams: grpc.aio.Channel) -> None:
        self._metadata = grpc.aio.Metadata(("authorization", f"Bearer {served.token}"))
        self._start = unary.unary_unary(
            _START,
            request_serializer=StartRunRequest.SerializeToString,
            response_deserializer=StartRunResponse.FromString,
        )
        self._control = unary.unary_unary(
            _CONTROL,
            request_serializer=ControlRequest.SerializeToString,
            response_deserializer=ControlResponse.FromString,
        )
        self._list = unary.unary_unary(
            _LIST,
            request_serializer=ListRunsRequest.SerializeToString,
            response_deserializer=ListRunsResponse.FromString,
        )
        self._stream: Any = streams.unary_stream(  # without a deserializer a message is its bytes
            STREAM, request_serializer=StreamProgressRequest.SerializeToString, response_deserializer=None
        )

    async def start(self, workflow: str, input_json: bytes = b"{}") -> str:
        """Start a run; its id, once it is durable."""
        request = StartRunRequest(workflow=workflow, input_json=input_json)
        response = await self._start(request, metadata=self._metadata, timeout=CALL_S)
        return response.run.run_id

    async def control(self, request: ControlRequest) -> ControlResponse:
        """Give a run a command."""
        return await self._control(request, metadata=self._metadata, timeout=CALL_S)

    async def active(self) -> list[Run]:
        """All runs that are running now."""
        found: list[Run] = []
        request = ListRunsRequest(states=[RunState.RUN_STATE_RUNNING], page_size=_PAGE)
        while True:
            page = await self._list(request, metadata=self._metadata, timeout=CALL_S)
            found += page.runs
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def count_active(self) -> int:
        """How many runs are running now."""
        return await self.count(RunState.RUN_STATE_RUNNING)

    async def count(self, state: RunState.ValueType) -> int:
        """How many runs are in that state now."""
        request = ListRunsRequest(states=[state], page_size=1)
        return (await self._list(request, metadata=self._metadata, timeout=CALL_S)).total_size

    async def watch(self, watching: Watching, *, view: View.ValueType = View.VIEW_FULL) -> Watching:
        """Take the run's frames to its end."""
        request = StreamProgressRequest(run_id=watching.run_id, view=view)
        call = self._stream(request, metadata=self._metadata)
        async for frame in call:
            watching.take(frame)
        return watching


@asynccontextmanager
async def doors_of(served: Served) -> AsyncGenerator[Doors]:
    """A client of the server, for the time of the context."""
    async with channel_to(served.address) as unary, channel_to(served.address) as streams:
        yield Doors(served, unary, streams)
