"""The guarded way out for a server that may never need it.

Owns when the HTTP library is brought in: with the first request, in a thread, because it takes a good part of
what a server needs to start.
"""

import asyncio

from jackline_server.runtime.http_ports import HttpClients, HttpRequest, HttpResponse


class LateClients:
    """Implements `HttpClients`, with `GuardedClients` once there is a request. `own_ports` as there."""

    def __init__(self, *, own_ports: frozenset[int] = frozenset()) -> None:
        self._own_ports = own_ports
        self._clients: HttpClients | None = None

    async def request(self, request: HttpRequest) -> HttpResponse:
        """See `HttpClients.request`."""
        if self._clients is None:
            self._clients = await asyncio.to_thread(self._made)
        return await self._clients.request(request)

    def _made(self) -> HttpClients:
        from jackline_server.egress.client import GuardedClients  # noqa: PLC0415 - it imports the HTTP library

        return GuardedClients(own_ports=self._own_ports)
