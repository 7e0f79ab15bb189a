"""A worker: its tools, and serving them over as many streams as it takes.

Owns when it connects again, and when it gives up. Does not own what happens on a stream (`stream`).
"""

import asyncio
import logging
import os
import random
import signal
import socket
from collections.abc import Callable
from typing import Any, TypeVar, Unpack

from jackline.v1 import tool_worker_pb2 as wire
from jackline.v1.tool_worker_pb2_grpc import ToolWorkerServiceStub
from jackline_client._connection import Endpoint, open_channel
from jackline_client.credentials import find_address, find_token
from jackline_client.errors import CallError
from jackline_client.worker.invocations import Invocations
from jackline_client.worker.stream import Stream
from jackline_client.worker.tools import OptionNames, Tool, ToolOptions

_log = logging.getLogger(__name__)

_LEAVE = (signal.SIGTERM, signal.SIGINT)
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_AGAIN = frozenset(
    {"UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "CANCELLED", "UNKNOWN", "INTERNAL"}
)
"""How a stream can end so that another attempt may help."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Worker:
    """Serves tools for a pool of the operator's config. For one event loop, and one `serve`."""

    def __init__(
        self, pool: str, *, name: str | None = None, max_parallel: int = 8, endpoint: Endpoint | None = None
    ) -> None:
        """`name` is what people know it by, host and process id if left out.

        Without an `endpoint` the server and its token are found as by the command line: see `credentials`.
        """
        self._pool = pool
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._max_parallel = max_parallel
        self._endpoint = endpoint
        self._tools: dict[str, Tool] = {}
        self._leaving = asyncio.Event()
        self._session = ""

    def tool(self, **options: Unpack[OptionNames]) -> Callable[[_Function], _Function]:
        """Serve the function that this decorates.

        Its name, docstring and signature describe it, unless `name`, `description` or `parameters` (a JSON
        Schema) do. `effect` is "read", "idempotent", "write" (the default: never run twice by itself) or
        "destructive"; `output_schema` is that of its result; `max_parallel` its own limit within the
        worker's. A function that is not async runs in a thread. A parameter of type `Call` is given the call.

        Raises TypeError for a signature that is no schema, ValueError for a tool without a description or a
        name that is taken.
        """

        def taken(function: _Function) -> _Function:
            tool = Tool(function, ToolOptions(**options))
            if tool.name in self._tools:
                raise ValueError(f"the worker has a tool {tool.name!r} already")
            self._tools[tool.name] = tool
            return function

        return taken

    def drain(self) -> None:
        """Leave: take nothing more, finish what is in flight, then `serve` returns. May be repeated."""
        if not self._leaving.is_set():
            _log.info("the worker %s takes no more calls and leaves", self.name)
        self._leaving.set()

    async def serve(self, *, signals: bool = True) -> None:
        """Serve until told to leave. SIGTERM and SIGINT drain, and a second one ends the process at once.

        With `signals` False neither does, and it may run outside of the main thread.

        Cancelling it leaves at once: what is in flight is given up.

        Raises:
            CallError: the server refuses this worker, and would the next time.
            CredentialError, AddressError: there is no way to a server.
        """
        endpoint = self._endpoint or _found()
        invocations = Invocations(self._tools, max_parallel=self._max_parallel)
        loop = asyncio.get_running_loop()
        before = {one: signal.getsignal(one) for one in (_LEAVE if signals else ())}
        for one in before:
            loop.add_signal_handler(one, self._told_to_leave)
        try:
            await self._serve(endpoint, invocations)
        finally:
            invocations.close()
            for one, handler in before.items():
                loop.remove_signal_handler(one)
                if handler is not None:
                    signal.signal(one, handler)

    def _told_to_leave(self) -> None:
        """The first signal. The next is the system's: a tool in a thread would outlast an exception."""
        loop = asyncio.get_running_loop()
        for one in _LEAVE:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        self.drain()

    async def _serve(self, endpoint: Endpoint, invocations: Invocations) -> None:
        metadata = (("authorization", f"Bearer {endpoint.token}"),) if endpoint.token else ()
        pause_s = _FIRST_PAUSE_S
        while True:
            stream = Stream(invocations, leaving=self._leaving)
            at_least_s = 0.0
            try:
                # A connection of its own: the last one may be there and carry nothing any more.
                async with open_channel(endpoint) as channel:
                    call = ToolWorkerServiceStub(channel).Connect(metadata=metadata)
                    await stream.serve(call, self._register(invocations))
            except CallError as error:
                if error.code not in _AGAIN:
                    raise
                at_least_s = error.retry_after_s or 0.0
                _log.warning("the stream to the server broke: %s", error.message)
                if self._leaving.is_set() and not invocations.unacknowledged:
                    return
            else:
                if not stream.server_leaves:
                    return
                stream.session = self._session = ""  # it ended in good order
                pause_s = _FIRST_PAUSE_S
            if stream.session:
                self._session, pause_s = stream.session, _FIRST_PAUSE_S
            await asyncio.sleep(max(random.uniform(0, pause_s), at_least_s))  # noqa: S311 - a pause is no secret
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _register(self, invocations: Invocations) -> wire.RegisterWorker:
        return wire.RegisterWorker(
            pool=self._pool,
            worker=self.name,
            session=self._session,
            tools=[tool.offer for tool in self._tools.values()],
            max_parallel=self._max_parallel,
            invocations=invocations.unacknowledged,
            draining=self._leaving.is_set(),
        )


def _found() -> Endpoint:
    address = find_address()
    return Endpoint(address=address, token=find_token(address))
