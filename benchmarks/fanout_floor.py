"""The least that a fan-out can cost: the same frames, from memory, through a bare grpc.aio server stream."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop

from benchmarks.outside import read_order, say

METHOD = "/floor.Floor/Stream"
_LENGTH_BYTES = 8


def write_frames(path: Path, frames: Sequence[bytes]) -> None:
    """Leave frames in a file."""
    path.write_bytes(b"".join(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame for frame in frames))


def read_frames(path: Path) -> list[bytes]:
    """Frames that `write_frames` left."""
    data, position, frames = path.read_bytes(), 0, list[bytes]()
    while position < len(data):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        frames.append(data[start:position])
    return frames


class _Stream(grpc.GenericRpcHandler):
    """Answers METHOD with the frames."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self._handler: Any = grpc.unary_stream_rpc_method_handler(self._send)
        self._frames = frames

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - a handler over bytes
        """The handler of METHOD."""
        return self._handler if handler_call_details.method == METHOD else None

    async def _send(self, _request: bytes, context: Any) -> None:  # noqa: ANN401 - a servicer context over bytes
        for frame in self._frames:
            await context.write(frame)


async def serve(order: dict[str, Any]) -> None:
    """Serve the frames of a file until standard input ends."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    server.add_generic_rpc_handlers((_Stream(read_frames(Path(order["frames"]))),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    say({"address": f"127.0.0.1:{port}"})
    await until_told_to_end()
    await server.stop(None)


async def until_told_to_end() -> None:
    """Return when standard input ends."""
    try:
        while True:
            await asyncio.to_thread(read_order)
    except EOFError:
        return


if __name__ == "__main__":
    uvloop.run(serve(read_order()))
