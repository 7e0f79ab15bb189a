"""Every gRPC connection of the config: its link, and what is asked of its catalog.

Owns the links. Does not own calls (`tool`), nor what a pinned catalog is asked (`catalogs`).
"""

import asyncio
from collections.abc import Mapping

from jackline_server.runtime.ports.connection_views import ConnectionView
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.tools.catalogs import PinnedCatalogs
from jackline_server.tools.grpc.link import GrpcLink

_CLOSE_S = 5.0


class GrpcTargets(PinnedCatalogs[GrpcLink]):
    """The services of the config that speak gRPC. One is connected to when it is first asked."""

    def __init__(self, connections: Mapping[str, GrpcConnection]) -> None:
        """Connects to nobody."""
        super().__init__({name: GrpcLink(one) for name, one in connections.items()})

    def views(self) -> list[ConnectionView]:
        """See `ConnectionSource`."""
        return [link.view() for link in self._links.values()]

    async def close(self) -> None:
        """End every channel. Bounded."""
        self.forget()
        closing = [asyncio.create_task(link.close()) for link in self._links.values()]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)
