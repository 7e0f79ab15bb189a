"""A server of the loopback that takes requests and never answers them, and sees its clients leave.

Owns the connections. With `streams` it begins an answer, as a provider does that stops in the midst of one.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

_BEGINNING = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    b'data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"hanging","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Well"},"finish_reason":null}]}\n\n'
)
_ESTABLISHED = "01"


@dataclass(slots=True)
class _Client:
    port: int
    left: asyncio.Future[float]


@dataclass(slots=True, kw_only=True)
class HangingServer:
    """The requests that came, from 1."""

    streams: bool
    port: int = 0
    _clients: list[_Client] = field(default_factory=list[_Client])
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def count(self) -> int:
        """How many requests have come."""
        return len(self._clients)

    async def arrived(self, number: int) -> None:
        """Return once that request hangs."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.count >= number)

    async def left(self, number: int) -> float:
        """When its client had closed the connection, by the monotonic clock."""
        return await self._clients[number - 1].left

    def is_established(self, number: int) -> bool:
        """True while the kernel has its connection as established."""
        port = self._clients[number - 1].port
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            _, local, remote, state, *_ = line.split()
            ends = (int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16))
            if ends == (port, self.port) and state == _ESTABLISHED:
                return True
        return False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one connection until its client has left."""
        try:
            await reader.readuntil(b"\r\n\r\n")
            if self.streams:
                writer.write(_BEGINNING)
                await writer.drain()
            client = _Client(writer.get_extra_info("peername")[1], asyncio.get_running_loop().create_future())
            async with self._changed:
                self._clients.append(client)
                self._changed.notify_all()
            while await reader.read(65_536):
                pass
            client.left.set_result(time.monotonic())
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def hanging_server(*, streams: bool) -> AsyncGenerator[HangingServer]:
    """Serve inside the context, on a free port of the loopback."""
    hanging = HangingServer(streams=streams)
    server = await asyncio.start_server(hanging.serve, "127.0.0.1", 0)
    hanging.port = server.sockets[0].getsockname()[1]
    try:
        yield hanging
    finally:
        server.close()
