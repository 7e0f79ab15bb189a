"""A loopback HTTP server that misbehaves on demand and keeps the ledger of what reached it."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from jackline_server.runtime.ports.http import HttpRequest, Origin, Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A request as it came. Header names are lower-case; `hung_up` returns when the client has left."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    hung_up: Callable[[], Awaitable[bytes]]


Behaviour = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class RawServer:
    """The judge: `ledger` holds each request that arrived whole, `connections` counts the accepted ones."""

    behave: Behaviour
    port: int = 0
    ledger: list[Received] = field(default_factory=list[Received])
    connections: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def origin(self) -> Origin:
        return Origin(scheme="http", host="127.0.0.1", port=self.port)

    @property
    def trusted(self) -> Reach:
        return Reach(trusted=frozenset({self.origin}))

    def request(self, target: str = "/", **changes: object) -> HttpRequest:
        fields: dict[str, object] = {
            "method": "GET",
            "origin": self.origin,
            "target": target,
            "total_ms": 5_000,
            "max_bytes": 100_000,
            "reach": self.trusted,
        }
        return HttpRequest(**{**fields, **changes})  # pyright: ignore[reportArgumentType] - the fields of the test

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip("\r\n").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            received = Received(method=method, target=target, headers=headers, body=body, hung_up=reader.read)
            self.ledger.append(received)
            await self.behave(received, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    behave: Behaviour, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncGenerator[RawServer]:
    server = RawServer(behave=behave)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(server.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, host, 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.released.set()
        listener.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answer(
    body: bytes = b"{}", *, status: str = "200 OK", content_type: str = "application/json", more: str = ""
) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def always(reply: bytes) -> Behaviour:
    async def behave(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)

    return behave
