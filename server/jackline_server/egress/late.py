"""The guarded way out for a server that may never need it.

Owns when the HTTP library is brought in: with the first request, in a thread, because it takes a good part of
what a server needs to start.
"""

import asyncio
from typing import TYPE_CHECKING

from jackline_server.runtime.ports.http import HttpRequest, HttpResponse
from jackline_server.runtime.ports.http_streams import HttpPool, PoolSettings

if TYPE_CHECKING:
    from jackline_server.egress.client import GuardedClients


class LateClients:
    """Implements `HttpClients` and `HttpPools`, with `GuardedClients` once there is a request.

    `own_ports` as there.
    """

    def __init__(self, *, own_ports: frozenset[int] = frozenset()) -> None:
        self._own_ports = own_ports
        self._clients: GuardedClients | None = None

    async def request(self, request: HttpRequest) -> HttpResponse:
        """See `HttpClients.request`."""
        return await (await self._there()).request(request)

    async def pool(self, settings: PoolSettings) -> HttpPool:
        """See `HttpPools.pool`."""
        return await (await self._there()).pool(settings)

    async def _there(self) -> "GuardedClients":
        if self._clients is None:
            self._clients = await asyncio.to_thread(self._made)
        return self._clients

    def _made(self) -> "GuardedClients":
        from jackline_server.egress.client import GuardedClients  # noqa: PLC0415 - it imports the HTTP library

        return GuardedClients(own_ports=self._own_ports)
