"""A TCP relay before a server, for tests of what a broken network does.

Owns the connections that go through it. `sever` resets them, `freeze` keeps them and carries nothing more;
later ones are carried. Does not own the server behind it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

_CHUNK = 64 * 1024


class Relay:
    """The relay. `address` is where to connect to; `connections` is how many have come."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self.connections = 0

    def sever(self) -> None:
        """Reset every connection that is there."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def freeze(self) -> None:
        """Carry nothing more over the connections that are there, and close none of them."""
        for task in self._tasks:
            task.cancel()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning."""
        self.connections += 1
        there_reader, there_writer = await asyncio.open_connection(*self._target)
        self._writers |= {writer, there_writer}
        for source, sink in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(_pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End everything."""
        self.freeze()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.sever()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry bytes one way. The end of one side is the end of the other; a freeze closes nothing."""
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    sink.close()


@asynccontextmanager
async def relaying(target: str) -> AsyncGenerator[Relay]:
    """A relay on a free port of the loopback."""
    relay = Relay(target)
    server = await asyncio.start_server(relay.carry, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
