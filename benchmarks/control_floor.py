"""The least that a command can take: a bare grpc.aio server that makes two writes durable.

Owns that server. A command's row is committed, then the call is answered; an event of the run is committed,
then shown to its watcher. The store is the bare one of `loop_floor`, at FULL; bytes and schema are the
server's own.
"""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop

from benchmarks.fanout_floor import until_told_to_end
from benchmarks.loop_floor import BareStore, Order, make_store
from benchmarks.outside import read_order, say

COMMAND = "/floor.Floor/Command"
WATCH = "/floor.Floor/Watch"


class _Floor(grpc.GenericRpcHandler):
    """COMMAND and WATCH; the request of each is the key of a run."""

    def __init__(self, store: BareStore, payload: bytes, frame: bytes) -> None:
        self._store = store
        self._payload = payload
        self._frame = frame
        self._sequence = 0
        self._shown: dict[bytes, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._handlers: dict[str, Any] = {
            COMMAND: grpc.unary_unary_rpc_method_handler(self._command),
            WATCH: grpc.unary_stream_rpc_method_handler(self._watch),
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - a handler over bytes
        """The handler of the method, if it is one of the two."""
        return self._handlers.get(handler_call_details.method)

    async def _command(self, key: bytes, _context: object) -> bytes:
        await self._write(self._payload)
        task = asyncio.create_task(self._apply(key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return self._payload

    async def _apply(self, key: bytes) -> None:
        await self._write(self._frame)
        self._of(key).set()

    async def _watch(self, key: bytes, context: Any) -> None:  # noqa: ANN401 - a servicer context over bytes
        await context.write(b"")
        await self._of(key).wait()
        await context.write(self._frame)

    def _of(self, key: bytes) -> asyncio.Event:
        return self._shown.setdefault(key, asyncio.Event())

    async def _write(self, data: bytes) -> None:
        self._sequence += 1
        await self._store.append(1, [(self._sequence, data, b"")], b"")


async def serve(order: dict[str, Any]) -> None:
    """Serve until standard input ends."""
    made_from = Order(source=Path(order["source"]), folder=Path(order["folder"]), rounds=(), cuts=())
    store = make_store(made_from, "control", ())
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    floor = _Floor(store, bytes.fromhex(order["payload"]), bytes.fromhex(order["frame"]))
    server.add_generic_rpc_handlers((floor,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    say({"address": f"127.0.0.1:{port}"})
    await until_told_to_end()
    await server.stop(None)
    await store.close()


if __name__ == "__main__":
    uvloop.run(serve(read_order()))
