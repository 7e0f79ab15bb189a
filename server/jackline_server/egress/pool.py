"""Kept connections to one server, for answers that are read while they come.

Implements `runtime.ports.http_streams.HttpPool`. Every new connection goes to an address that was checked
after resolving and again where its socket is made. No cookie, no redirect, no proxy of the environment, no
compression; what is sent twice is decided by whoever asks, never here.
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

import aiohttp
from yarl import URL

from jackline_server.egress.policy import problem_of_address
from jackline_server.egress.resolving import CheckingResolver, MakeSocket, Resolve, checked_sockets
from jackline_server.runtime.ports.http import (
    UNREACHABLE,
    HttpConnectLate,
    HttpFailure,
    HttpRefused,
    HttpUncertain,
    HttpUnreadable,
    HttpUnsent,
)
from jackline_server.runtime.ports.http_streams import HttpAnswer, PoolSettings

_KEEP_S = 4.0
"""Shorter than the five seconds after which many a server hangs up: what is sent at that moment is lost."""

_AT_ONCE_BYTES = 512 * 1024
_END_S = 0.05
"""How long a body that nobody reads any more may take to its end for its connection to be kept."""

_REST_BYTES = 65_536
_BROKEN = "The connection broke before the whole answer came."


class GuardedPool:
    """See HttpPool. Made by `GuardedClients.pool`, which has checked the origin."""

    def __init__(
        self,
        settings: PoolSettings,
        *,
        resolve: Resolve,
        make_socket: MakeSocket,
        tls: ssl.SSLContext | Literal[True],
    ) -> None:
        def refusal(address: str) -> str | None:
            return problem_of_address(address, settings.origin, settings.reach)

        host = settings.origin.host
        bare = f"[{host}]" if ":" in host else host
        self._base = f"{settings.origin.scheme}://{bare}:{settings.origin.port}"
        self._urls: dict[str, URL] = {}
        self._reads_bodies = settings.reads_bodies
        self._tls = tls
        connect_s = settings.connect_ms / 1000
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                resolver=CheckingResolver(resolve, refusal),
                use_dns_cache=False,
                limit=settings.connections,
                keepalive_timeout=_KEEP_S,
                socket_factory=checked_sockets(refusal, make_socket),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=connect_s, sock_read=None, sock_connect=connect_s
            ),
            trust_env=False,
            auto_decompress=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "jackline"},
        )

    def post(
        self, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpAnswer]:
        """See HttpPool."""
        return self._answered("POST", target, headers, body)

    def get(self, target: str, *, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpAnswer]:
        """See HttpPool."""
        return self._answered("GET", target, headers, None)

    @asynccontextmanager
    async def _answered(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncGenerator[HttpAnswer]:
        response = await self._sent(method, target, headers, body)
        is_over = False
        try:
            encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
            if self._reads_bodies and encoding not in ("", "identity"):
                raise HttpUnreadable(
                    "The answer is compressed, which was not asked for.",
                    detail=f"content-encoding {encoding!r}",
                )
            yield _Answer(response)
            is_over = response.content.at_eof() or await _comes_to_its_end(response)
        finally:
            if is_over:
                response.release()
            else:
                _abort(response)

    async def close(self) -> None:
        """See HttpPool."""
        await self._session.close()

    async def _sent(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> aiohttp.ClientResponse:
        long = body is not None and len(body) > _AT_ONCE_BYTES
        try:
            return await self._session.request(
                method,
                self._url(target),
                data=io.BytesIO(body) if body is not None and long else body,  # a long one part by part
                headers=headers,
                allow_redirects=False,
                ssl=self._tls,
            )
        except ssl.SSLError as error:  # of a certificate it is a ValueError as well, and the request is sound
            raise _failure(error) from None
        except (aiohttp.InvalidURL, ValueError) as error:
            raise HttpRefused("The request is not valid HTTP.", detail=type(error).__name__) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _failure(error) from None

    def _url(self, target: str) -> URL:
        url = self._urls.get(target)
        if url is None:
            self._urls.clear()  # a pool has one target, or few: no need to keep more than the last
            url = self._urls[target] = URL(self._base + target, encoded=True)
        return url


class _Answer:
    """See HttpAnswer."""

    __slots__ = ("_content", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._content = response.content

    async def read(self) -> bytes:
        """See HttpAnswer."""
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _failure(error) from None


def _failure(error: Exception) -> HttpFailure:
    detail = f"{type(error).__name__}: {error}"
    match error:
        case aiohttp.ConnectionTimeoutError():
            return HttpConnectLate(UNREACHABLE, detail=detail)
        case aiohttp.ClientConnectorError():
            return HttpUnsent(UNREACHABLE, detail=detail)
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError() | ValueError():
            return HttpUnreadable("The answer is not valid HTTP.", detail=detail)
        case _:
            return HttpUncertain(_BROKEN, detail=detail)


async def _comes_to_its_end(response: aiohttp.ClientResponse) -> bool:
    """True if the rest of the body is short and there within a moment: the end of a stream comes so."""
    rest = 0
    with contextlib.suppress(aiohttp.ClientError, OSError, ValueError):  # a TimeoutError is an OSError
        async with asyncio.timeout(_END_S):
            while part := await response.content.readany():
                rest += len(part)
                if rest > _REST_BYTES:
                    return False
            return True
    return False


def _abort(response: aiohttp.ClientResponse) -> None:
    """Close the connection without waiting for what is still to be sent on it."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()
