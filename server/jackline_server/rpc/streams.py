"""StreamProgress: a watcher's frames, written as fast as it takes them and no faster.

Owns how a stream ends: OK after the terminal event, and by a status with `sent_through` in every other case.
A watcher that takes nothing for too long is let go, and so is every watcher when the server drains.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext

from jackline.v1 import run_service_pb2
from jackline_server.api.kinds import wanted_kinds
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.api.run_requests import check_run, owner_grace
from jackline_server.api.views import is_full
from jackline_server.rpc.calls import Call
from jackline_server.rpc.frames import FrameCache, FrameWriter
from jackline_server.rpc.stall import Stall
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.service.ports import RunUseCases
from jackline_server.runtime.use_cases import Frame

CUT_OFF_S = 1.0
"""How long a stream may take to hand over what is durable when the server drains."""


class OpenStreams:
    """The streams that are open now, so that a drain can end them."""

    __slots__ = ("_draining", "_lives")

    def __init__(self) -> None:
        self._lives: set[asyncio.Timeout] = set()
        self._draining = False

    def drain(self) -> None:
        """Let no stream begin, and cut off each that has not ended by itself in a moment.

        A stream that takes what it is sent ends by the use case, after its last event and with its true
        position. One that is cut off in a write can't know whether that frame went out.
        """
        self._draining = True
        for life in self._lives:
            life.reschedule(asyncio.get_running_loop().time() + CUT_OFF_S)

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[None]:
        """The time of one stream. Raises DoorRefused (DRAINING) when a drain ends it."""
        if self._draining:
            raise _draining()
        life = asyncio.timeout(None)
        try:
            async with life:
                self._lives.add(life)
                try:
                    yield
                finally:
                    self._lives.discard(life)
        except TimeoutError:
            if life.expired():
                raise _draining() from None
            raise


def _draining() -> DoorRefused:
    return DoorRefused(
        DoorReason.DRAINING, "The server is going down. Resume after the last event that you have."
    )


class ProgressStreams:
    """Serves StreamProgress."""

    def __init__(
        self, *, runs: RunUseCases, open_streams: OpenStreams, frame_bytes: int, stall_seconds: int
    ) -> None:
        self._runs = runs
        self._open = open_streams
        self._frame_bytes = frame_bytes
        self._stall_seconds = stall_seconds
        self._cache = FrameCache()

    async def stream_progress(self, request: run_service_pb2.StreamProgressRequest, call: Call) -> None:
        """Write frames until the run has ended; each event once, in order, without a gap."""
        check_run(request)
        position = _Position(request.after_sequence)
        with position.told():
            async with self._open.life():
                await self._follow(request, call, position)

    async def _follow(
        self, request: run_service_pb2.StreamProgressRequest, call: Call, position: "_Position"
    ) -> None:
        writer = FrameWriter(
            run_id=request.run_id,
            full=is_full(request.view),
            cache=self._cache,
            most=self._frame_bytes,
            kinds=wanted_kinds(request.kinds),
            words=is_full(request.view) or request.include_deltas,
        )
        frames = self._runs.watch(
            call.tenant,
            request.run_id,
            after_sequence=request.after_sequence,
            deltas=request.include_deltas,
            progress=request.include_progress,
            positions=dict(request.positions) if request.include_children else None,
        )
        stall = Stall(wait_s=self._stall_seconds)
        try:
            async with self._owner(request, call), _closing(frames):
                async for frame in frames:
                    for data, through in writer.write(frame):
                        await self._write(call, data, stall)
                        position.sent_through = through
        finally:
            stall.close()

    def _owner(
        self, request: run_service_pb2.StreamProgressRequest, call: Call
    ) -> AbstractAsyncContextManager[None]:
        """What the stream is beside a watcher."""
        if not request.HasField("owner"):
            return nullcontext()
        return self._runs.own(
            call.tenant,
            request.run_id,
            after_sequence=request.after_sequence,
            grace_ms=owner_grace(request.owner),
        )

    async def _write(self, call: Call, data: bytes, stall: Stall) -> None:
        stall.begin()
        try:
            await call.context.write(data)
        except asyncio.CancelledError:
            if not stall.is_over():
                raise
            raise DoorRefused(
                DoorReason.SLOW_CONSUMER,
                f"Nothing of the stream was taken for {self._stall_seconds} s. "
                "Resume after the last event that you have.",
            ) from None
        finally:
            stall.end()


class _Position:
    """How far a stream has come, for whoever has to resume it."""

    __slots__ = ("sent_through",)

    def __init__(self, sent_through: int) -> None:
        self.sent_through = sent_through

    @contextmanager
    def told(self) -> Generator[None]:
        """Name the position in whatever refusal ends the stream."""
        try:
            yield
        except (Refused, DoorRefused) as error:
            if error.reason.value in _RESUMABLE:
                error.metadata["sent_through"] = str(self.sent_through)
            raise


_RESUMABLE = frozenset({"DRAINING", "STORE_UNAVAILABLE", "SLOW_CONSUMER"})


@asynccontextmanager
async def _closing(frames: AsyncIterator[Frame]) -> AsyncGenerator[None]:
    """Free what the iterator holds, however the stream ends."""
    try:
        yield
    finally:
        if isinstance(frames, AsyncGenerator):
            await frames.aclose()
