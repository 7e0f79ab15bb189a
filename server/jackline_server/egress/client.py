"""The guarded way out: checks a request, follows the few redirects that are allowed, keeps the time.

Implements `runtime.ports.http.HttpClients` and `runtime.ports.http_streams.HttpPools`. Owns the rules for a
request as a whole; one connection is `exchange`, kept ones are `pool`, the judgement is `policy`.
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Literal

from yarl import URL

from jackline_server.egress.exchange import Exchange
from jackline_server.egress.policy import may_redirect, problem_of_address, problem_of_origin
from jackline_server.egress.pool import GuardedPool
from jackline_server.egress.resolving import MakeSocket, Resolve, resolve_by_system, system_socket
from jackline_server.runtime.ports.http import (
    UNREACHABLE,
    HttpRefused,
    HttpRequest,
    HttpResponse,
    HttpUnsent,
    Origin,
)
from jackline_server.runtime.ports.http_streams import PoolSettings

MAX_REDIRECTS = 3
USER_AGENT = "jackline"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FOLLOWED = frozenset({"GET", "HEAD"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TARGET = re.compile(r"/[!$-~]*", re.ASCII)  # visible ASCII without `"` and `#`
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}(%[a-z0-9._-]{1,16})?", re.ASCII)
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\U0010ffff]*")
_OWN_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "te",
        "trailer",
        "expect",
        "cookie",
        "accept-encoding",
        "proxy-authorization",
        "proxy-connection",
    }
)


class GuardedClients:
    """Makes requests that can't be led to where the operator did not let them.

    `own_ports` are the ports this server listens on. `tls` replaces the system's trust, for a private
    authority. `resolve` and `make_socket` are the system's unless a test watches them.
    """

    def __init__(
        self,
        *,
        own_ports: frozenset[int] = frozenset(),
        resolve: Resolve = resolve_by_system,
        make_socket: MakeSocket = system_socket,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._own_ports = own_ports
        self._resolve = resolve
        self._make_socket = make_socket
        self._tls: ssl.SSLContext | Literal[True] = tls or True

    async def request(self, request: HttpRequest) -> HttpResponse:
        """See `HttpClients.request`."""
        url = self._checked_url(request)
        sent = replace(request, headers=_with_defaults(request.headers))
        now = asyncio.get_running_loop().time()
        exchange = Exchange(
            request=sent,
            url=url,
            origin=request.origin,
            deadline=now + request.total_ms / 1000,
            header_deadline=now + min(request.total_ms, request.header_ms) / 1000,
            resolve=self._resolve,
            make_socket=self._make_socket,
            tls=self._tls,
        )
        response = await exchange.run()
        for _ in range(MAX_REDIRECTS):
            following = self._next(exchange, response)
            if following is None:
                return response
            try:
                response = await following.run()
            except (HttpRefused, HttpUnsent):
                return response  # blocked and unknown look the same: like a redirect that was not followed
            exchange = following
        return response

    async def pool(self, settings: PoolSettings) -> GuardedPool:
        """See `HttpPools.pool`."""
        origin = settings.origin
        problem = problem_of_origin(origin, settings.reach, self._own_ports)
        if problem is None and _HOST.fullmatch(origin.host) is None:
            problem = "the host is not written as one"
        if problem is None and _is_address(origin.host):
            problem = problem_of_address(origin.host, origin, settings.reach)
        if problem is not None:
            raise HttpRefused(UNREACHABLE, detail=problem)
        return GuardedPool(settings, resolve=self._resolve, make_socket=self._make_socket, tls=self._tls)

    def _checked_url(self, request: HttpRequest) -> URL:
        origin = request.origin
        if (problem := problem_of_origin(origin, request.reach, self._own_ports)) is not None:
            raise HttpRefused(UNREACHABLE, detail=problem)
        if _HOST.fullmatch(origin.host) is None:
            raise HttpRefused(UNREACHABLE, detail="the host is not written as one")
        if request.method not in _METHODS or _TARGET.fullmatch(request.target) is None:
            raise HttpRefused("The request is not valid HTTP.", detail="method or target")
        for name, value in request.headers.items():
            if name.lower() in _OWN_HEADERS or _HEADER_NAME.fullmatch(name) is None:
                raise HttpRefused("The request is not valid HTTP.", detail=f"header {name!r}")
            if _HEADER_VALUE.fullmatch(value) is None:
                raise HttpRefused("The request is not valid HTTP.", detail=f"the value of header {name!r}")
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        url = URL(f"{origin.scheme}://{host}:{origin.port}{request.target}", encoded=True)
        if _origin_of(url) != origin:
            raise HttpRefused(UNREACHABLE, detail="the address reads differently as a whole")
        return url

    def _next(self, exchange: Exchange, response: HttpResponse) -> Exchange | None:
        """The exchange that a redirect asks for, or None if it is none, or one not to be followed."""
        request = exchange.request
        location = response.headers.get("location", "")
        if response.status not in _REDIRECTS or request.method not in _FOLLOWED or not location:
            return None
        try:
            url = exchange.url.join(URL(location)).with_fragment(None)
            origin = _origin_of(url)
        except ValueError:
            return None
        if origin is None or not may_redirect(exchange.origin, origin, request.reach):
            return None
        if problem_of_origin(origin, request.reach, self._own_ports) is not None:
            return None
        if origin.host != exchange.origin.host:
            request = replace(request, headers=_with_defaults({}), body=None)
        return replace(exchange, request=request, url=url, origin=origin)


def _origin_of(url: URL) -> Origin | None:
    if url.raw_user is not None or url.raw_password is not None or not url.raw_host or url.port is None:
        return None
    return Origin(scheme=url.scheme, host=url.raw_host.lower(), port=url.port)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.split("%", 1)[0])
    except ValueError:
        return False
    return True


def _with_defaults(headers: Mapping[str, str]) -> dict[str, str]:
    given = {name.lower() for name in headers}
    defaults = {"User-Agent": USER_AGENT, "Accept": "application/json, text/*;q=0.8, */*;q=0.5"}
    merged = {name: value for name, value in defaults.items() if name.lower() not in given}
    return {**merged, **headers, "Accept-Encoding": "identity"}
