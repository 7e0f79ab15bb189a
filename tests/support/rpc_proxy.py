"""A proxy between a client and a server that holds up calls of one method, as one far away may.

Owns what it has taken: that is passed on when the door opens, whether or not its caller is still there. Does
not own the server. Calls of the RunService with one request and one answer only.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import grpc.aio

_SERVICE = "jackline.v1.RunService"
_METHODS = ("GetServerInfo", "StartRun", "GetRun", "ListRuns", "Control")


@dataclass(slots=True, kw_only=True)
class HoldingProxy:
    """`taken` says that a call of `held` waits for `opened`; `heard` that one of `after` came meanwhile."""

    channel: grpc.aio.Channel
    held: str
    after: str
    address: str = ""
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    calls: set[asyncio.Task[bytes]] = field(default_factory=set[asyncio.Task[bytes]])

    async def settle(self) -> None:
        """Return when everything that was taken has been answered."""
        if self.calls:
            await asyncio.wait(self.calls)

    def handler(self, method: str) -> Any:
        """How calls of this method are passed on."""

        async def answered(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
            told = {key: value for key, value in context.invocation_metadata() or () if key != "user-agent"}
            call = asyncio.create_task(self._passed(method, request, told))
            self.calls.add(call)
            call.add_done_callback(self.calls.discard)
            return await asyncio.shield(call)

        return cast(Any, grpc).unary_unary_rpc_method_handler(answered)

    async def _passed(self, method: str, request: bytes, metadata: Mapping[str, object]) -> bytes:
        if method == self.held:
            self.taken.set()
            await self.opened.wait()
        elif method == self.after and self.taken.is_set():
            self.heard.set()
        ask = cast(Any, self.channel).unary_unary(f"/{_SERVICE}/{method}")
        return await ask(request, metadata=tuple(metadata.items()))


@asynccontextmanager
async def holding(target: str, *, held: str, after: str) -> AsyncGenerator[HoldingProxy]:
    """A proxy on a free port of the loopback."""
    async with grpc.aio.insecure_channel(target) as channel:
        proxy = HoldingProxy(channel=channel, held=held, after=after)
        handlers = {method: proxy.handler(method) for method in _METHODS}
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
        proxy.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            yield proxy
        finally:
            proxy.opened.set()
            await server.stop(None)
            await proxy.settle()
