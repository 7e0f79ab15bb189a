"""The HTTP client under a provider's SDK, with caps on what a response may hold.

Owns the client's settings and the byte caps: a response is cut before an endless line, or an endless
error page, fills the memory. Does not own time: `limits` does; the time-outs here are a backstop.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextvars import ContextVar

import httpx

from jackline_server.models.wire_caps import (
    MAX_ERROR_BYTES,
    MAX_LINE_BYTES,
    MAX_SDK_MARKS,
    MAX_STREAM_BYTES,
    SDK_SLICE_BYTES,
    SPARSE_BYTES,
)
from jackline_server.models.wire_density import Density

under_way: ContextVar[asyncio.Event | None] = ContextVar("under_way", default=None)
"""Set by a caller who wants to know when its request has reached the transport."""

_FIRST_ERROR_STATUS = 300


class OverSize(httpx.RemoteProtocolError):
    """A response went over its cap."""


def capped_client(*, connections: int, tls: ssl.SSLContext) -> httpx.AsyncClient:
    """A client that follows no redirect, takes no compressed reply, and caps what it reads.

    It has no time-outs of its own: each request brings them. The caller closes it.
    """
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(
        transport=_CappedTransport(httpx.AsyncHTTPTransport(verify=tls, limits=limits)),
        timeout=None,  # noqa: S113 - each request brings its own
        headers={"accept-encoding": "identity"},
        follow_redirects=False,
    )


class _CappedTransport(httpx.AsyncBaseTransport):
    """Wraps each response's body."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if (event := under_way.get()) is not None:
            event.set()
        response = await self._inner.handle_async_request(request)
        if isinstance(response.stream, httpx.AsyncByteStream):
            is_error = response.status_code >= _FIRST_ERROR_STATUS
            cap = MAX_ERROR_BYTES if is_error else MAX_STREAM_BYTES
            response.stream = _CappedBody(response.stream, cap, cuts=is_error)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedBody(httpx.AsyncByteStream):
    """Counts a body, its current line and what a long line holds.

    One that `cuts` ends at its cap; another raises OverSize.
    """

    def __init__(self, inner: httpx.AsyncByteStream, cap: int, *, cuts: bool) -> None:
        self._inner = inner
        self._cap = cap
        self._cuts = cuts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = line = 0
        density = Density()
        async for part in self._inner:
            total += len(part)
            end = part.rfind(b"\n")
            if end < 0:
                line += len(part)
                density.add(part)
            else:
                line = len(part) - end - 1
                density = Density()
                density.add(part[end + 1 :])
            if self._cuts and total > self._cap:
                yield part[: len(part) - (total - self._cap)]
                return
            is_dense = line > SPARSE_BYTES and density.marks > MAX_SDK_MARKS
            if total > self._cap or line > MAX_LINE_BYTES or is_dense:
                raise OverSize("the response is over its size limit")
            yield part[:SDK_SLICE_BYTES]
            for start in range(SDK_SLICE_BYTES, len(part), SDK_SLICE_BYTES):
                await asyncio.sleep(0)  # a reader that nobody waits for would keep all others waiting
                yield part[start : start + SDK_SLICE_BYTES]

    async def aclose(self) -> None:
        await self._inner.aclose()
