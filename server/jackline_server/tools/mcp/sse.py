"""The transport of servers of 2024-11-05 over the guarded clients: a standing stream, and a path to post to.

Owns that path, which the server names in its stream and which is taken only at the operator's own origin, and
what becomes of a message that could not be posted: an answer of ours, so that nobody waits for the server's.
The end of the stream is the end of the session.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCRequest
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

from jackline_server.runtime.ports.http import HttpFailure, HttpLate, HttpRefused, HttpUnsent
from jackline_server.runtime.ports.http_streams import HttpPool, HttpWays
from jackline_server.runtime.ports.mcp import McpConnection, McpEndpoint
from jackline_server.tools.mcp.guarded import (
    HTTP_UNCERTAIN,
    HTTP_UNSENT,
    MAX_BODY_BYTES,
    SESSION_GONE,
    EventBytes,
    base_url,
    headers_to,
    is_of_no_session,
    settings_of,
    whole,
)

_log = logging.getLogger(__name__)

_SUCCESS = range(200, 300)
_CLIENT_ERRORS = range(400, 500)


class NotAnEndpoint(OSError):
    """What answers is no server of this transport. `strerror` is for people."""

    def __init__(self, words: str) -> None:
        super().__init__(0, words)


@dataclass(slots=True, kw_only=True)
class _Session:
    """One stream and what is posted beside it."""

    pool: HttpPool
    endpoint: McpEndpoint
    total_ms: int
    on_end: asyncio.Event
    to_sdk: MemoryObjectSendStream[SessionMessage | Exception]
    from_sdk: MemoryObjectReceiveStream[SessionMessage]
    target: str = ""

    async def read(self, events: AsyncIterator[httpx2.ServerSentEvent]) -> None:
        """Give every message of the stream to the SDK until it ends."""
        try:
            async for event in events:
                if event.event != "message" or not event.data:
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                except ValidationError:
                    _log.warning("an MCP server sent an event that is no message; it was skipped")
                    continue
                await self.to_sdk.send(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError, httpx2.SSEError):
            return  # the session is gone, or the stream is
        finally:
            self.on_end.set()
            self.to_sdk.close()

    async def write(self) -> None:
        """Post every message of the SDK, each by itself: a slow one holds up none behind it."""
        async with asyncio.TaskGroup() as posting:
            async for item in self.from_sdk:
                posting.create_task(self._posted(item))

    async def _posted(self, item: SessionMessage) -> None:
        error = await self._problem(item)
        if error is None or not isinstance(item.message, JSONRPCRequest):
            return
        reply = JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error)
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self.to_sdk.send(SessionMessage(reply))

    async def _problem(self, item: SessionMessage) -> ErrorData | None:
        """Post it; why its request will have no answer."""
        body = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode("utf-8", "replace")
        headers = headers_to(self.endpoint, {"content-type": "application/json"})
        try:
            async with (
                asyncio.timeout(self.total_ms / 1000),
                self.pool.post(self.target, headers=headers, body=body) as answer,
            ):
                status, said = answer.status, await whole(answer)
        except (HttpRefused, HttpUnsent) as failure:
            return ErrorData(code=HTTP_UNSENT, message=failure.message)
        except (HttpFailure, TimeoutError) as failure:
            return ErrorData(code=HTTP_UNCERTAIN, message=str(failure) or "It was not taken in time.")
        if status in _SUCCESS:
            return None
        if is_of_no_session(status, said):
            return ErrorData(code=SESSION_GONE, message="The session is over.")
        code = INVALID_REQUEST if status in _CLIENT_ERRORS else HTTP_UNCERTAIN
        return ErrorData(code=code, message=f"It answered with status {status}.")


@asynccontextmanager
async def _streams(
    clients: HttpWays, connection: McpConnection, endpoint: McpEndpoint, on_end: asyncio.Event
) -> AsyncGenerator[TransportStreams]:
    async with AsyncExitStack() as stack:
        pool = await clients.pool(settings_of(endpoint, concurrency=connection.concurrency))
        stack.push_async_callback(pool.close)
        events = await _opened(stack, pool, endpoint)
        stack.push_async_callback(events.aclose)
        to_sdk, sdk_reads = anyio.create_memory_object_stream[SessionMessage | Exception](16)
        sdk_writes, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
        for stream in (to_sdk, sdk_reads, sdk_writes, from_sdk):
            stack.callback(stream.close)
        session = _Session(
            pool=pool,
            endpoint=endpoint,
            total_ms=connection.timeout_ms,
            on_end=on_end,
            to_sdk=to_sdk,
            from_sdk=from_sdk,
            target=await _target(events, endpoint),
        )
        tasks = [asyncio.create_task(session.read(events)), asyncio.create_task(session.write())]
        try:
            yield sdk_reads, sdk_writes
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _opened(
    stack: AsyncExitStack, pool: HttpPool, endpoint: McpEndpoint
) -> AsyncGenerator[httpx2.ServerSentEvent]:
    """The events of the server's stream. Raises NotAnEndpoint."""
    headers = headers_to(endpoint, {"accept": "text/event-stream", "cache-control": "no-store"})
    try:
        answer = await stack.enter_async_context(pool.get(endpoint.path, headers=headers))
    except HttpLate:
        raise
    except HttpFailure as failure:
        raise NotAnEndpoint(failure.message) from None
    if answer.status != HTTPStatus.OK:
        raise NotAnEndpoint(f"it answers with status {answer.status}")
    request = httpx2.Request("GET", base_url(endpoint.origin) + endpoint.path)
    kind = answer.headers.get("Content-Type", "")
    response = httpx2.Response(
        answer.status,
        headers={"content-type": kind},
        stream=EventBytes(answer, AsyncExitStack()),
        request=request,
    )
    return _events(httpx2.EventSource(response, max_event_size=MAX_BODY_BYTES))


async def _events(source: httpx2.EventSource) -> AsyncGenerator[httpx2.ServerSentEvent]:
    async for event in source:
        yield event


async def _target(events: AsyncIterator[httpx2.ServerSentEvent], endpoint: McpEndpoint) -> str:
    """Where to post to: what the first event says, at the same origin. Raises NotAnEndpoint."""
    try:
        async for event in events:
            if event.event == "endpoint":
                return _within(event.data, endpoint)
    except (httpx2.HTTPError, httpx2.SSEError):
        raise NotAnEndpoint("its stream is none of MCP") from None
    raise NotAnEndpoint("its stream ended before it named a path")


def _within(place: str, endpoint: McpEndpoint) -> str:
    try:
        base = httpx2.URL(base_url(endpoint.origin) + endpoint.path)
        url = base.join(place)
    except httpx2.InvalidURL:
        raise NotAnEndpoint("it names a path that is none") from None
    if (url.scheme, url.host, url.port) != (base.scheme, base.host, base.port) or url.userinfo:
        raise NotAnEndpoint("it wants to be posted to at another server")
    return url.raw_path.decode("ascii")


def sse_transport(
    clients: HttpWays, connection: McpConnection, endpoint: McpEndpoint, *, on_end: asyncio.Event
) -> Transport:
    """A transport to the endpoint. `on_end` is set when the stream ends."""
    return _streams(clients, connection, endpoint, on_end)
