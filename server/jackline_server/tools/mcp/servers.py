"""Every MCP connection of the config: its link, and what is asked of its catalog.

Owns the links. Does not own calls (`tool`), nor what a pinned catalog is asked (`catalogs`).
"""

import asyncio
from collections.abc import Mapping

from jackline_server.runtime.connection_views import ConnectionView
from jackline_server.runtime.http_streams import HttpWays
from jackline_server.runtime.mcp_ports import McpConnection
from jackline_server.tools.catalogs import PinnedCatalogs
from jackline_server.tools.mcp.link import Link

_CLOSE_S = 10.0


class McpServers(PinnedCatalogs[Link]):
    """The servers of the config that speak MCP. One is started when it is first asked."""

    def __init__(self, connections: Mapping[str, McpConnection], *, clients: HttpWays) -> None:
        """Starts nothing."""
        super().__init__({name: Link(one, clients=clients) for name, one in connections.items()})

    def views(self) -> list[ConnectionView]:
        """See `ConnectionSource`."""
        return [link.view() for link in self._links.values()]

    def let_go(self, run_id: str) -> None:
        """See `HeldCalls`."""
        for link in self._links.values():
            link.held.let_go(run_id)

    async def close(self) -> None:
        """End every session and process. Bounded."""
        self.forget()
        closing = [asyncio.create_task(link.close()) for link in self._links.values()]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)
