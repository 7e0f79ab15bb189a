"""What the runtime needs of HTTP for answers that are read while they come: connections kept to one server.

Owns the shapes; the failures are those of `ports.http`. Does not own how a request is made or what is let
through (`egress`), nor time: but for the connect timer, whoever asks keeps the clock and cancels.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.http import HttpClients, Origin, Reach


@frozen
class PoolSettings:
    """One server, and how many connections may be open. `connect_ms` bounds DNS, TCP and TLS together.

    Without `reads_bodies` only heads of answers count: how a body is encoded is nobody's business.
    """

    origin: Origin
    reach: Reach
    connections: int
    connect_ms: int
    reads_bodies: bool = True


class HttpAnswer(Protocol):
    """An answer whose head has come. The names of `headers` are looked up in any case."""

    @property
    def status(self) -> int:
        """The HTTP status. A 3xx is an answer like any other: no redirect is followed."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        ...

    async def read(self) -> bytes:
        """The next bytes of the body as soon as there are any, at most some 100 KiB; empty at its end.

        Raises:
            HttpFailure: the rest of the body will not come.
        """
        ...


class HttpPool(Protocol):
    """Kept connections to one server. Used in one event loop; closed by whoever asked for it."""

    def post(
        self, target: str, *, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpAnswer]:
        """Send one POST, without retries, and give the answer once its head is there.

        `target` is path and query, percent-encoded. A block that is left by an exception, cancellation
        included, closes the connection at once; one that is left before the body's end closes it too,
        unless the end comes by itself within a moment.

        Raises:
            HttpFailure: there is no answer.
        """
        ...

    def get(self, target: str, *, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpAnswer]:
        """The same for one GET."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...


class HttpPools(Protocol):
    """The only maker of such pools."""

    async def pool(self, settings: PoolSettings) -> HttpPool:
        """A pool to that server. Connects nowhere yet.

        Raises:
            HttpRefused: policy forbids the server.
        """
        ...


class HttpWays(HttpClients, HttpPools, Protocol):
    """Both ways out: single requests, and kept connections."""
