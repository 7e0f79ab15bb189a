"""The SDK's HTTP transport over the guarded clients: every rule of `egress` holds for MCP too.

Owns the bridge between the two. An answer is read whole, within a cap and a time, before the SDK sees any of
it; a server's standing stream of its own notices is not opened. Redirects are not followed.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
from mcp.client import Transport
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from jackline_server.runtime.http_ports import (
    HttpClients,
    HttpFailure,
    HttpRefused,
    HttpRequest,
    HttpUnsent,
    Reach,
)
from jackline_server.runtime.mcp_ports import McpEndpoint

MAX_BODY_BYTES = 8 * 1024 * 1024

HTTP_UNSENT = -32_097
"""Our own code for a request that the server certainly did not get."""

HTTP_UNCERTAIN = -32_096
"""Our own code for a request whose answer was lost."""

_DROPPED = frozenset({"host", "connection", "content-length", "accept-encoding", "transfer-encoding"})


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends each request of the SDK through the guarded clients, to the operator's endpoint alone."""

    def __init__(self, *, clients: HttpClients, endpoint: McpEndpoint, total_ms: int) -> None:
        self._clients = clients
        self._endpoint = endpoint
        self._total_ms = total_ms

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One exchange. A failure is an answer too: an exception would end the SDK's whole session."""
        if request.method == "GET":
            return httpx2.Response(405, request=request)  # "no standing stream here", in the SDK's own words
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _DROPPED}
        headers |= {key: value.reveal() for key, value in self._endpoint.headers.items()}
        try:
            response = await self._clients.request(
                HttpRequest(
                    method=request.method,
                    origin=self._endpoint.origin,
                    target=self._endpoint.path,
                    total_ms=self._total_ms,
                    header_ms=self._total_ms,
                    max_bytes=MAX_BODY_BYTES,
                    headers=headers,
                    body=await request.aread(),
                    reach=Reach(trusted=frozenset({self._endpoint.origin})),
                )
            )
        except (HttpRefused, HttpUnsent) as failure:
            return _failed(request, HTTP_UNSENT, failure)
        except HttpFailure as failure:
            return _failed(request, HTTP_UNCERTAIN, failure)
        kept = {key: value for key, value in response.headers.items() if key not in _DROPPED}
        return httpx2.Response(response.status, headers=kept, content=response.body, request=request)


def _failed(request: httpx2.Request, code: int, failure: HttpFailure) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": failure.message}}
    return httpx2.Response(502, json=error, request=request)


@asynccontextmanager
async def _streams(
    clients: HttpClients, endpoint: McpEndpoint, total_ms: int
) -> AsyncGenerator[TransportStreams]:
    origin = endpoint.origin
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    bridge = _GuardedTransport(clients=clients, endpoint=endpoint, total_ms=total_ms)
    async with (
        httpx2.AsyncClient(transport=bridge, trust_env=False, follow_redirects=False) as client,
        streamable_http_client(
            f"{origin.scheme}://{host}:{origin.port}{endpoint.path}", http_client=client
        ) as streams,
    ):
        yield streams


def guarded_transport(clients: HttpClients, endpoint: McpEndpoint, *, total_ms: int) -> Transport:
    """A transport to the endpoint; each exchange takes at most `total_ms`."""
    return _streams(clients, endpoint, total_ms)
