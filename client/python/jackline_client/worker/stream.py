"""One stream of a worker: what it says and hears, from `register` to the end.

Owns the heartbeats and the order of things on a stream. Does not own what comes after its end (`serving`).
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import grpc.aio
from google.protobuf.duration_pb2 import Duration

from jackline.v1 import tool_worker_pb2 as wire
from jackline_client._statuses import in_our_words
from jackline_client.errors import WorkerSilent
from jackline_client.worker.invocations import Invocations

_log = logging.getLogger(__name__)

_MISSED = 3
_WELCOME_S = 30.0


class Stream:
    """Serves one stream. `session` is that of its `welcome`, empty before."""

    def __init__(self, invocations: Invocations, *, leaving: asyncio.Event) -> None:
        self._invocations = invocations
        self._leaving = leaving
        self._outbox: asyncio.Queue[wire.ConnectRequest] = asyncio.Queue()
        self._drained = asyncio.Event()
        self._beat_s = 10.0
        self.session = ""
        self.server_leaves = False

    async def serve(self, call: Any, register: wire.RegisterWorker) -> None:  # noqa: ANN401 - grpc.aio has no type for it
        """Until the server has ended the stream with OK.

        Raises:
            CallError: it ended otherwise, or nothing was heard for too long.
        """
        telling: asyncio.Task[None] | None = None
        try:
            with in_our_words():
                await call.write(wire.ConnectRequest(register=register))
                welcome = await _within(call.read(), _WELCOME_S)
                if welcome is grpc.aio.EOF:
                    await _ended(call)
                    return
                self._welcomed(welcome.welcome, asked=register.session)
                came = "is back in" if welcome.welcome.resumed else "serves"
                _log.info("the worker %s %s pool %s", register.worker, came, register.pool)
                telling = asyncio.create_task(self._tell(call, told=register.draining), name="worker telling")
                await self._hear(call)
        finally:
            self._invocations.say = lambda _: None
            if telling is not None:
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
            call.cancel()

    def _welcomed(self, welcome: wire.WorkerWelcome, *, asked: str) -> None:
        self.session = welcome.session
        self._beat_s = _seconds(welcome.heartbeat)
        if asked and not welcome.resumed:
            self._invocations.forget()
        self._invocations.most_result_bytes = welcome.max_result_bytes
        self._invocations.say = self._outbox.put_nowait
        self._invocations.say_again()

    async def _hear(self, call: Any) -> None:  # noqa: ANN401 - grpc.aio's stubs have no type for it
        while True:
            response = await _within(call.read(), self._beat_s * _MISSED)
            if response is grpc.aio.EOF:
                await _ended(call)
                return
            match response.WhichOneof("message"):
                case "invoke":
                    self._invocations.invoke(response.invoke)
                case "cancel":
                    self._invocations.cancel(response.cancel.invocation)
                case "acknowledged":
                    self._invocations.acknowledge(response.acknowledged.invocation)
                case "drain":
                    self.server_leaves = not self._leaving.is_set()
                    self._drained.set()
                case _:
                    pass  # a heartbeat, or what only a newer server says

    async def _tell(self, call: Any, *, told: bool) -> None:  # noqa: ANN401 - see above
        """All that is to be said, a heartbeat where there is nothing, and in the end the half-close."""
        going = asyncio.create_task(self._say_when_leaving(told=told), name="worker leaving")
        try:
            while not going.done() or not self._outbox.empty():
                message = await self._next(going)
                if message is not None:
                    await call.write(message)
            await call.done_writing()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # whoever hears is told the same
        finally:
            going.cancel()
            await asyncio.gather(going, return_exceptions=True)

    async def _next(self, going: "asyncio.Task[None]") -> wire.ConnectRequest | None:
        """What to say next; a heartbeat when it is time, None when there is nothing more to say."""
        getting = asyncio.create_task(self._outbox.get())
        try:
            await asyncio.wait({getting, going}, timeout=self._beat_s, return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                return getting.result()
        finally:
            getting.cancel()
        return None if going.done() else wire.ConnectRequest(heartbeat=wire.WorkerHeartbeat())

    async def _say_when_leaving(self, *, told: bool) -> None:
        """Ask for nothing more once this worker leaves, then wait until nothing more can come or is open.

        `told`: the registration has said so already.
        """
        asked = asyncio.create_task(self._leaving.wait())
        drained = asyncio.create_task(self._drained.wait())
        try:
            await asyncio.wait({asked, drained}, return_when=asyncio.FIRST_COMPLETED)
            if not drained.done():
                if not told:
                    self._outbox.put_nowait(wire.ConnectRequest(drain=wire.WorkerDrain()))
                await drained
            await self._invocations.settled()
        finally:
            asked.cancel()
            drained.cancel()


async def _within(reading: Awaitable[Any], seconds: float) -> Any:  # noqa: ANN401 - a message, or EOF
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        raise WorkerSilent(f"nothing was heard of the server for {seconds:g} s") from None


async def _ended(call: Any) -> None:  # noqa: ANN401 - see above
    """Raises AioRpcError for a status that is not OK."""
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            code, await call.initial_metadata(), await call.trailing_metadata(), details=await call.details()
        )


def _seconds(span: Duration) -> float:
    return span.ToTimedelta().total_seconds()
