"""A strict double of ToolWorkerService on a real grpc.aio server: the test plays the server itself.

Owns the streams that came, what was said on them, and the invocations without an acknowledgement. What a
worker does against the rules of proto/jackline/v1/tool_worker.proto is noted in `breaches`. Every wait is
bounded.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from jackline.v1 import tool_worker_pb2 as wire
from jackline.v1.tool_worker_pb2_grpc import (
    ToolWorkerServiceServicer,
    add_ToolWorkerServiceServicer_to_server,
)
from tests.support.scripted_service import Failure, authenticate, fail

WAIT_S = 60
SESSION = "wks_the-session"


class WorkerStream:
    """One stream of a worker, from its `register` on. What the test sends goes out in order."""

    def __init__(self, service: "WorkerService", register: wire.RegisterWorker) -> None:
        self.register = register
        self.said: list[wire.ConnectRequest] = []
        """What came after the `register`."""
        self.half_closed = False
        self.over = False
        self.closed_early = ""
        """Against the rules, unless the worker has cancelled the stream, which looks the same at first."""
        self._service = service
        self._welcomed = False
        self._drained = False
        self._beating = False
        self._ending = False
        self._outgoing: asyncio.Queue[wire.ConnectResponse | Failure | None] = asyncio.Queue()
        self._changed = asyncio.Condition()

    # --- what the server says ---

    def welcome(
        self,
        *,
        resumed: bool = False,
        session: str = SESSION,
        heartbeat_s: float = 30,
        grace_s: float = 60,
        largest: int = 1 << 20,
        beating: bool = False,
    ) -> None:
        """Answers the `register`. `beating` answers each heartbeat with one."""
        if not resumed:
            self._service.open.clear()
        message = wire.WorkerWelcome(session=session, resumed=resumed, max_result_bytes=largest)
        message.heartbeat.FromMilliseconds(int(heartbeat_s * 1000))
        message.resume_grace.FromMilliseconds(int(grace_s * 1000))
        self._welcomed, self._beating = True, beating
        self._send(wire.ConnectResponse(welcome=message))

    def invoke(
        self,
        invocation: str,
        tool: str,
        *,
        flight: str = "JL1",
        seat: str = "1A",
        timeout_s: float = 60,
        attempt: int = 1,
    ) -> None:
        """Asks for a call; its key is `key-` and the invocation."""
        arguments = {"flight": flight} if tool == "seats_left" else {"flight": flight, "seat": seat}
        message = wire.InvokeTool(
            invocation=invocation,
            tool=tool,
            arguments_json=json.dumps(arguments).encode(),
            call_key=f"key-{invocation}",
            attempt=attempt,
            run_id="run_1",
            step_id="reserve",
        )
        message.timeout.FromMilliseconds(int(timeout_s * 1000))
        self._service.open.add(invocation)
        self._send(wire.ConnectResponse(invoke=message))

    def cancel(self, invocation: str) -> None:
        """Says that the run was aborted."""
        reason = wire.CancelInvocationReason.CANCEL_INVOCATION_REASON_ABORTED
        message = wire.CancelInvocation(invocation=invocation, reason=reason)
        self._send(wire.ConnectResponse(cancel=message))

    def acknowledge(self, invocation: str) -> None:
        """Says that the result is had."""
        self._service.open.discard(invocation)
        self._send(wire.ConnectResponse(acknowledged=wire.ResultAcknowledged(invocation=invocation)))

    def drain(self) -> None:
        """Says that nothing more is invoked."""
        self._drained = True
        self._send(wire.ConnectResponse(drain=wire.WorkerDrain()))

    def end(self, failure: Failure | None = None) -> None:
        """Ends the stream: with OK, or as told. What crosses the end is not taken."""
        self._ending = True
        self._outgoing.put_nowait(failure)

    def _send(self, message: wire.ConnectResponse) -> None:
        self._outgoing.put_nowait(message)

    # --- what the worker said ---

    def count(self, kind: str) -> int:
        """How many messages of a kind came."""
        return sum(one.WhichOneof("message") == kind for one in self.said)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until something holds that messages, a half-close or the end bring."""
        async with self._changed, asyncio.timeout(WAIT_S):
            await self._changed.wait_for(holds)

    async def heard(self, kind: str, count: int = 1) -> None:
        """Waits until so many messages of a kind came."""
        await self.until(lambda: self.count(kind) >= count)

    async def result(self, invocation: str) -> wire.InvocationResult:
        """Waits for a result; `acknowledge` is the test's."""
        await self.until(lambda: self._results(invocation) != [])
        return self._results(invocation)[0]

    async def answered(self, invocation: str) -> wire.InvocationResult:
        """The same, acknowledged."""
        found = await self.result(invocation)
        self.acknowledge(invocation)
        return found

    async def closed_in_order(self) -> None:
        """Waits for the half-close, and ends the stream with OK."""
        await self.until(lambda: self.half_closed)
        self.end()

    def _results(self, invocation: str) -> list[wire.InvocationResult]:
        return [
            one.result
            for one in self.said
            if one.WhichOneof("message") == "result" and one.result.invocation == invocation
        ]

    async def took(self, message: wire.ConnectRequest) -> None:
        """Notes a message, and whether the rules allow it."""
        if self._ending:
            return
        if breach := self._against(message):
            self._service.breaches.append(breach)
        async with self._changed:
            self.said.append(message)
            self._changed.notify_all()
        if self._beating and message.WhichOneof("message") == "heartbeat":
            self._send(wire.ConnectResponse(heartbeat=wire.WorkerHeartbeat()))

    def _against(self, message: wire.ConnectRequest) -> str:
        kind = message.WhichOneof("message")
        if not self._welcomed:
            return f"{kind} before the welcome"
        match kind:
            case "result" if message.result.WhichOneof("outcome") is None:
                return f"an empty result of {message.result.invocation}"
            case "result":
                return self._not_open(kind, message.result.invocation)
            case "progress":
                return self._not_open(kind, message.progress.invocation)
            case "drain":
                return "a second drain" if self.count("drain") or self.register.draining else ""
            case "heartbeat":
                return ""
            case _:
                return f"{kind} in the middle of a stream"

    def _not_open(self, kind: str, invocation: str) -> str:
        fine = invocation in self._service.open and not self._results(invocation)
        return "" if fine else f"{kind} of {invocation}, which is not open or was answered"

    async def closing(self) -> None:
        """Notes a half-close, and whether the rules allow it."""
        if self._service.open or not self._drained:
            self.closed_early = f"half-closed with {self._service.open} open, or before the server's drain"
        async with self._changed:
            self.half_closed = True
            self._changed.notify_all()

    async def sending(self) -> AsyncIterator[wire.ConnectResponse | Failure]:
        """What to send, until the end; a failure is the last."""
        while (message := await self._outgoing.get()) is not None:
            yield message
            if isinstance(message, Failure):
                return

    async def ended(self) -> None:
        """Notes the end."""
        async with self._changed:
            self.over = True
            self._changed.notify_all()


class WorkerService(ToolWorkerServiceServicer):
    """The service. `stream` hands out the streams in the order in which they came."""

    def __init__(self) -> None:
        self.breaches: list[str] = []
        self.open: set[str] = set()
        """The invocations that were sent and not acknowledged."""
        self.came = 0
        self._streams: asyncio.Queue[WorkerStream] = asyncio.Queue()

    async def stream(self) -> WorkerStream:
        """Waits for the next stream."""
        async with asyncio.timeout(WAIT_S):
            return await self._streams.get()

    async def Connect(  # noqa: N802 - the contract's name
        self, request_iterator: AsyncIterator[wire.ConnectRequest], context: Any
    ) -> AsyncIterator[wire.ConnectResponse]:
        await authenticate(context)
        first = await anext(aiter(request_iterator))
        if first.WhichOneof("message") != "register":
            self.breaches.append("the first message is no register")
        stream = WorkerStream(self, first.register)
        self.came += 1
        reading = asyncio.create_task(_read(request_iterator, stream))
        self._streams.put_nowait(stream)
        try:
            async for message in stream.sending():
                if isinstance(message, Failure):
                    await fail(context, message)
                else:
                    yield message
            if stream.closed_early:
                self.breaches.append(stream.closed_early)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await stream.ended()

    async def ListToolWorkers(  # noqa: N802 - the contract's name
        self, request: wire.ListToolWorkersRequest, context: Any
    ) -> wire.ListToolWorkersResponse:
        del request
        await fail(context, Failure(code=grpc.StatusCode.UNIMPLEMENTED))
        raise AssertionError("a failure ends the call")


async def _read(requests: AsyncIterator[wire.ConnectRequest], stream: WorkerStream) -> None:
    async for message in requests:
        await stream.took(message)
    await stream.closing()


@asynccontextmanager
async def serving(service: WorkerService, *, port: int = 0) -> AsyncGenerator[str]:
    """Serves on the loopback, on a free port unless told, and yields the address."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_ToolWorkerServiceServicer_to_server(service, server)
    found = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"127.0.0.1:{found}"
    finally:
        await server.stop(None)
