"""What the runtime needs of HTTP, in its own words: one guarded request, and the connections it may go to.

Owns the shapes that tools and webhooks use and that the operator's config fills in, the tree of failures,
and what Retry-After means. Does not own how a request is made or what is let through (`egress`). Times are
milliseconds.

    HttpFailure
    ├── HttpRefused            policy forbids it; nothing was sent
    ├── HttpUnsent             the server certainly did not get the request (DNS, connect, TLS)
    │   └── HttpConnectLate    there was no connection within its time
    └── HttpUncertain          the server may have acted; its whole answer did not come
        ├── HttpLate           its time was over first
        ├── HttpTooLarge       the answer is longer than the caller takes
        └── HttpUnreadable     the answer breaks the rules, or is compressed though that was not asked for
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.secrets import Secret

UNREACHABLE = "The server could not be reached."
"""What a model is told of a host that is blocked, unknown, silent or refuses TLS: always the same."""


@frozen
class Origin:
    """Where a server is. `scheme` is `http` or `https`, `host` lower-case ASCII without brackets."""

    scheme: str
    host: str
    port: int


@frozen
class Reach:
    """What the operator lets the requests of one connection reach beyond public addresses.

    `trusted` are origins that the operator wrote; they may be private, and be any port. `hosts` are further
    hosts that a redirect may lead to, on ports 80 and 443; `allow_private` lets these be private too. Without
    `trusted_private` a trusted origin may be any port and no private address.
    """

    trusted: frozenset[Origin] = frozenset()
    hosts: frozenset[str] = frozenset()
    allow_private: bool = False
    trusted_private: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request. `target` is the path and query, percent-encoded, beginning with `/`.

    `total_ms` bounds everything, `header_ms` the wait for the answer's headers, redirects included.
    `max_bytes` is the longest body that the caller takes.
    """

    method: str
    origin: Origin
    target: str
    total_ms: int
    max_bytes: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | None = None
    header_ms: int = 30_000
    reach: Reach = field(default_factory=Reach)


@frozen
class HttpResponse:
    """A whole answer. Header names are lower-case; of a name that comes twice the first value is kept.

    A 3xx is an answer like any other: it is a redirect that was not to be followed.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpFailure(Exception):
    """A request has no whole answer.

    `message` is safe for a model: no address, no header, nothing that tells a blocked host from an unknown
    one. `detail` is for the operator's log.
    """

    def __init__(self, message: str, *, detail: str) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


class HttpRefused(HttpFailure):
    """Policy forbids the request; nothing was sent."""


class HttpUnsent(HttpFailure):
    """The server certainly did not get the request."""


class HttpConnectLate(HttpUnsent):
    """There was no connection within the time that one may take."""


class HttpUncertain(HttpFailure):
    """The server may have got the request and acted on it."""


class HttpLate(HttpUncertain):
    """The whole answer had not come when the time was over."""


class HttpTooLarge(HttpUncertain):
    """The answer is longer than `max_bytes`."""


class HttpUnreadable(HttpUncertain):
    """The answer is not HTTP, or is compressed though that was not asked for."""


RETRY_AFTER_CAP_MS = 60_000
"""No server makes a run wait longer."""

_SECONDS = re.compile(r"[+-]?\d{1,12}(?:\.\d{1,9})?", re.ASCII)


def retry_after_ms(value: object, *, now_unix_s: float, most_ms: int = RETRY_AFTER_CAP_MS) -> int | None:
    """What a Retry-After header asks for, in milliseconds: seconds or an HTTP date, at most `most_ms`.

    None for what is neither, and for a time that is not ahead. Fractions of a second count, as some servers
    send them.
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now_unix_s
        except (ValueError, TypeError, OverflowError):
            return None
    return waited_ms(seconds * 1000, most_ms=most_ms)


def waited_ms(asked_ms: float, *, most_ms: int = RETRY_AFTER_CAP_MS) -> int | None:
    """A wait that a server asks for, within what we grant; None if it is no time ahead."""
    if math.isnan(asked_ms) or asked_ms <= 0:
        return None
    return math.ceil(min(asked_ms, most_ms))


class HttpClients(Protocol):
    """The only way out for a request whose target a workflow or a model had a hand in."""

    async def request(self, request: HttpRequest) -> HttpResponse:
        """Make one request, without retries. Cancelling it closes the connection.

        GET and HEAD follow up to three redirects to the same host, or to one in `reach.hosts` (then without
        the caller's headers); every other redirect is returned as it came.

        Raises:
            HttpFailure: one of its kinds, its timers and caps included.
        """
        ...


@frozen
class HttpConnection:
    """A connection of the operator's config that workflows name.

    `base_path` is put before every path: empty, or beginning with `/` and not ending with it. `headers`
    go with every request and win over a workflow's. `timeout_ms` caps a call. For the others see
    `GuardedConnection`.
    """

    name: str
    origin: Origin
    base_path: str
    headers: Mapping[str, Secret]
    timeout_ms: int
    header_timeout_ms: int
    concurrency: int
    reach: Reach
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker()
