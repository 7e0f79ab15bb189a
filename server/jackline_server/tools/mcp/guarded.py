"""The SDK's HTTP transport over the guarded clients: every rule of `egress` holds for MCP too.

Owns the bridge between the two. An answer in JSON is read whole, within a cap and a time, before the SDK sees
any of it; a stream of events is passed on as it comes, each event within a cap, because a server may ask
something in the midst of it: whoever asked keeps its time. Redirects are not followed.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

import httpx2
from mcp.client import Transport
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from jackline_server.runtime.ports.http import (
    HttpClients,
    HttpFailure,
    HttpLate,
    HttpRefused,
    HttpRequest,
    HttpTooLarge,
    HttpUnsent,
    Origin,
    Reach,
)
from jackline_server.runtime.ports.http_streams import HttpAnswer, HttpPool, HttpWays, PoolSettings
from jackline_server.runtime.ports.mcp import McpEndpoint

MAX_BODY_BYTES = 8 * 1024 * 1024
"""The longest answer in JSON, and the longest event of a stream."""

HTTP_UNSENT = -32_097
"""Our own code for a request that the server certainly did not get."""

HTTP_UNCERTAIN = -32_096
"""Our own code for a request whose answer was lost."""

SESSION_GONE = -32_095
"""Our own code for a request that the server refused because it does not know its session any more."""

SESSION_HEADER = "mcp-session-id"
_STREAM = "text/event-stream"
_DROPPED = frozenset(
    {"host", "connection", "content-length", "accept-encoding", "transfer-encoding", "cookie", "set-cookie"}
)
_SPARE = 66
"""Connections beyond those of calls in flight: calls that wait for a person, and the server's own stream."""

_CONNECT_MS = 10_000
_MAX_COMPLAINT = 64 * 1024


def settings_of(endpoint: McpEndpoint, *, concurrency: int) -> PoolSettings:
    """The connections to an endpoint, which the operator wrote and which may therefore be anywhere."""
    return PoolSettings(
        origin=endpoint.origin,
        reach=Reach(trusted=frozenset({endpoint.origin})),
        connections=concurrency + _SPARE,
        connect_ms=_CONNECT_MS,
    )


def base_url(origin: Origin) -> str:
    """The origin as the beginning of a URL."""
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return f"{origin.scheme}://{host}:{origin.port}"


def headers_to(endpoint: McpEndpoint, headers: Mapping[str, str]) -> dict[str, str]:
    """What goes with a request: the SDK's headers, and the operator's on top."""
    kept = {key: value for key, value in headers.items() if key.lower() not in _DROPPED}
    return kept | {key: value.reveal() for key, value in endpoint.headers.items()}


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends each request through the guarded clients, to the operator's origin alone.

    `total_ms` bounds the wait for an answer's head, and for all of one that is no stream.
    """

    def __init__(
        self,
        *,
        clients: HttpClients,
        pool: HttpPool,
        endpoint: McpEndpoint,
        total_ms: int,
    ) -> None:
        self._clients = clients
        self._pool = pool
        self._endpoint = endpoint
        self._total_ms = total_ms

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One exchange. A failure is an answer too: an exception would end the SDK's whole session."""
        try:
            if request.method == "DELETE":
                return await self._farewell(request)
            return await self._exchange(request)
        except (HttpRefused, HttpUnsent) as failure:
            return failed(request, HTTP_UNSENT, failure.message)
        except HttpFailure as failure:
            return failed(request, HTTP_UNCERTAIN, failure.message)

    async def _exchange(self, request: httpx2.Request) -> httpx2.Response:
        target = request.url.raw_path.decode("ascii")
        headers = headers_to(self._endpoint, request.headers)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._total_ms / 1000):
                    if request.method == "GET":
                        opened = self._pool.get(target, headers=headers)
                    else:
                        opened = self._pool.post(target, headers=headers, body=await request.aread())
                    answer = await stack.enter_async_context(opened)
                    kept = {
                        key: value for key, value in answer.headers.items() if key.lower() not in _DROPPED
                    }
                    if answer.status == HTTPStatus.OK and _is_stream(answer):
                        stream = EventBytes(answer, stack.pop_all())
                        return httpx2.Response(answer.status, headers=kept, stream=stream, request=request)
                    body = await whole(answer)
            except TimeoutError:
                raise HttpLate("The whole answer did not come in time.", detail="total") from None
        # A server that has no standing stream may say 404 to whoever asks for one.
        if (
            request.method == "POST"
            and SESSION_HEADER in request.headers
            and is_of_no_session(answer.status, body)
        ):
            return failed(request, SESSION_GONE, "The session is over.")
        return httpx2.Response(answer.status, headers=kept, content=body, request=request)

    async def _farewell(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._clients.request(
            HttpRequest(
                method=request.method,
                origin=self._endpoint.origin,
                target=request.url.raw_path.decode("ascii"),
                total_ms=self._total_ms,
                header_ms=self._total_ms,
                max_bytes=MAX_BODY_BYTES,
                headers=headers_to(self._endpoint, request.headers),
                reach=Reach(trusted=frozenset({self._endpoint.origin})),
            )
        )
        return httpx2.Response(response.status, request=request)


class EventBytes(httpx2.AsyncByteStream):
    """The bytes of a stream of events. Closing it closes the connection."""

    def __init__(self, answer: HttpAnswer, stack: AsyncExitStack) -> None:
        self._answer = answer
        self._stack = stack

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._answer.read():
                yield chunk
        except HttpFailure as failure:
            raise httpx2.ReadError(failure.message) from None

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._stack.aclose()


async def whole(answer: HttpAnswer) -> bytes:
    """All of a body. Raises HttpFailure."""
    parts: list[bytes] = []
    size = 0
    while part := await answer.read():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise HttpTooLarge(f"The answer is longer than {MAX_BODY_BYTES} bytes.", detail="max_bytes")
    return b"".join(parts)


def is_of_no_session(status: int, body: bytes) -> bool:
    """True if this answers a request of a session that the server does not know: it did nothing, then.

    404 is the word for it. Many a server of the older generation says 400, with words about the session.
    """
    if status == HTTPStatus.NOT_FOUND:
        return True
    return status == HTTPStatus.BAD_REQUEST and b"session" in body[:_MAX_COMPLAINT].lower()


def failed(request: httpx2.Request, code: int, message: str) -> httpx2.Response:
    """An answer that says so in the words of the protocol."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return httpx2.Response(502, json=error, request=request)


def _is_stream(answer: HttpAnswer) -> bool:
    kind, _, _ = answer.headers.get("Content-Type", "").partition(";")
    return kind.strip().lower() == _STREAM


@asynccontextmanager
async def _streams(
    clients: HttpWays, endpoint: McpEndpoint, *, concurrency: int, total_ms: int
) -> AsyncGenerator[TransportStreams]:
    pool = await clients.pool(settings_of(endpoint, concurrency=concurrency))
    try:
        bridge = GuardedTransport(clients=clients, pool=pool, endpoint=endpoint, total_ms=total_ms)
        async with (
            httpx2.AsyncClient(transport=bridge, trust_env=False, follow_redirects=False) as client,
            streamable_http_client(
                base_url(endpoint.origin) + endpoint.path,
                http_client=client,
                max_sse_event_size=MAX_BODY_BYTES,
            ) as streams,
        ):
            yield streams
    finally:
        await pool.close()


def guarded_transport(
    clients: HttpWays, endpoint: McpEndpoint, *, concurrency: int, total_ms: int
) -> Transport:
    """A transport to the endpoint; each exchange that is no stream takes at most `total_ms`."""
    return _streams(clients, endpoint, concurrency=concurrency, total_ms=total_ms)
