"""One request on one fresh connection: connect to a checked address, send, read the answer under its cap.

Owns the HTTP library. Each exchange has its own session: no cookie, no connection and no trust passes from
one to the next, and a connection that an idle server closed can't be mistaken for one that broke.
"""

import asyncio
import ssl
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Literal

import aiohttp
from yarl import URL

from jackline_server.core.frozen import frozen
from jackline_server.egress.policy import problem_of_address
from jackline_server.egress.resolving import MakeSocket, PinnedResolver, Resolve, checked_sockets
from jackline_server.runtime.ports.http import (
    UNREACHABLE,
    HttpFailure,
    HttpLate,
    HttpRefused,
    HttpRequest,
    HttpResponse,
    HttpTooLarge,
    HttpUncertain,
    HttpUnreadable,
    HttpUnsent,
    Origin,
)

_CONNECT_SECONDS = 10.0
_CHUNK = 65_536
_NO_TIMERS = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=_CONNECT_SECONDS)
_BROKEN = "The connection broke before the whole answer came."
_LATE = "The server did not answer in time."


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a request got. `sent` is true once a connection stood, TLS included."""

    sent: bool = False


@frozen
class Exchange:
    """One hop of a request. `deadline` and `header_deadline` are times of the event loop, in seconds."""

    request: HttpRequest
    url: URL
    origin: Origin
    deadline: float
    header_deadline: float
    resolve: Resolve
    make_socket: MakeSocket
    tls: ssl.SSLContext | Literal[True]

    async def run(self) -> HttpResponse:
        """Make the exchange. Raises HttpFailure."""
        progress = Progress()
        try:
            async with asyncio.timeout_at(self.deadline):
                return await self._run(progress)
        except HttpFailure:
            raise
        except TimeoutError as error:
            raise _failure(progress, HttpLate, _LATE, error) from None
        except aiohttp.ClientResponseError as error:
            raise _failure(progress, HttpUnreadable, "The answer is not valid HTTP.", error) from None
        except ssl.SSLError as error:  # of a certificate it is a ValueError as well, and the request is sound
            raise _failure(progress, HttpUncertain, _BROKEN, error) from None
        except (aiohttp.InvalidURL, ValueError) as error:
            if progress.sent:
                raise HttpUnreadable("The answer is not valid HTTP.", detail=repr(error)) from None
            raise HttpRefused("The request is not valid HTTP.", detail=repr(error)) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(progress, HttpUncertain, _BROKEN, error) from None

    async def _run(self, progress: Progress) -> HttpResponse:
        async with self._session(await self._addresses(), progress) as session:
            async with asyncio.timeout_at(self.header_deadline):
                response = await session.request(
                    self.request.method,
                    self.url,
                    headers=self.request.headers,
                    data=self.request.body,
                    allow_redirects=False,
                    ssl=self.tls,
                )
            async with response:
                return await self._read(response)

    async def _addresses(self) -> list[str]:
        try:
            addresses = list(await self.resolve(self.origin.host, self.origin.port))
        except (OSError, UnicodeError) as error:
            raise HttpUnsent(UNREACHABLE, detail=f"{self.origin.host}: {error}") from None
        if not addresses:
            raise HttpUnsent(UNREACHABLE, detail=f"{self.origin.host}: no address")
        for address in addresses:
            if (problem := self._refusal(address)) is not None:
                raise HttpRefused(UNREACHABLE, detail=f"{self.origin.host}: {problem}")
        return addresses

    def _refusal(self, address: str) -> str | None:
        return problem_of_address(address, self.origin, self.request.reach)

    def _session(self, addresses: list[str], progress: Progress) -> aiohttp.ClientSession:
        def refusal(address: str) -> str | None:
            # The library would send a request again by itself when a server hangs up on it.
            return "this request was sent already" if progress.sent else self._refusal(address)

        connector = aiohttp.TCPConnector(
            resolver=PinnedResolver(addresses),
            use_dns_cache=False,
            force_close=True,
            socket_factory=checked_sockets(refusal, self.make_socket),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=_NO_TIMERS,
            trust_env=False,
            auto_decompress=False,
            trace_configs=[_watch(progress)],
        )

    async def _read(self, response: aiohttp.ClientResponse) -> HttpResponse:
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            raise HttpUnreadable(
                "The answer is compressed, which was not asked for.", detail=f"content-encoding {encoding!r}"
            )
        cap = self.request.max_bytes
        announced = response.content_length or 0
        body = bytearray()
        if announced <= cap or self.request.method == "HEAD":
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > cap:
                    break
        if len(body) > cap or (announced > cap and self.request.method != "HEAD"):
            raise HttpTooLarge(
                f"The answer is longer than {cap} bytes.", detail=f"{max(announced, len(body))} bytes"
            )
        headers: dict[str, str] = {}
        for name, value in response.headers.items():
            headers.setdefault(name.lower(), value)
        return HttpResponse(status=response.status, headers=headers, body=bytes(body))


def _watch(progress: Progress) -> aiohttp.TraceConfig:
    async def connected(
        _session: aiohttp.ClientSession, _context: SimpleNamespace, _: aiohttp.TraceConnectionCreateEndParams
    ) -> None:
        progress.sent = True

    watch = aiohttp.TraceConfig()
    watch.on_connection_create_end.append(connected)
    return watch


def _failure(
    progress: Progress, kind: type[HttpUncertain], message: str, error: Exception
) -> HttpUncertain | HttpUnsent:
    detail = f"{type(error).__name__}: {error}"
    if progress.sent:
        return kind(message, detail=detail)
    return HttpUnsent(UNREACHABLE, detail=detail)
