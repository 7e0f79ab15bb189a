"""The endpoint that model calls are measured against: the OpenAI wire, the same bytes for whoever asks.

Owns those bytes and a server that does nothing but send them, one event at a time, so that it never holds up
the process that is measured. The target of a request says how many chunks its reply has.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping

import uvloop

from benchmarks.fanout_floor import until_told_to_end
from benchmarks.outside import read_order, say

CALL_CHUNKS = 1
"""A reply that comes at once: the least stream there is."""

USAGE = {"prompt_tokens": 400, "completion_tokens": 200, "total_tokens": 600}


def pieces(chunks: int) -> list[str]:
    """The text of a reply, as it is cut into chunks."""
    return [f"piece {number} of the reply, " for number in range(chunks)]


def events(chunks: int) -> list[bytes]:
    """The events of a reply: its chunks, the finish reason with the last, the usage, and the end of all."""
    said = [
        _event([{"index": 0, "delta": {"content": text}, "finish_reason": None}], None)
        for text in pieces(chunks)
    ]
    finish = _event([{"index": 0, "delta": {}, "finish_reason": "stop"}], None)
    return [*said, finish, _event([], USAGE), b"data: [DONE]\n\n"]


def _event(choices: list[dict[str, object]], usage: Mapping[str, int] | None) -> bytes:
    document = {
        "id": "chatcmpl-measured",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "measured",
        "choices": choices,
        "usage": usage,
    }
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


class _Endpoint:
    """Answers on kept connections."""

    def __init__(self, chunks: Mapping[str, int]) -> None:
        self._replies = {
            f"/{name}/".encode(): [b"%x\r\n%s\r\n" % (len(event), event) for event in events(count)]
            for name, count in chunks.items()
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client leaves."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                length = next(line for line in lines if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                frames = next(frames for name, frames in self._replies.items() if name in lines[0])
                await self._reply(frames, writer)
        writer.close()

    async def _reply(self, frames: list[bytes], writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for frame in frames:
            writer.write(frame)
            await asyncio.sleep(0)  # each event is written by itself, as a model's server does
        writer.write(b"0\r\n\r\n")


async def serve(chunks: Mapping[str, int]) -> None:
    """Serve until standard input ends."""
    endpoint = _Endpoint(chunks)
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    say({"port": server.sockets[0].getsockname()[1]})
    await until_told_to_end()
    server.close()


if __name__ == "__main__":
    uvloop.run(serve(read_order()["chunks"]))
