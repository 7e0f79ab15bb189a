"""Every MCP connection of the config: its link, and what is asked of its catalog.

Owns the links. Does not own calls (`tool`), nor what a pinned catalog is asked (`catalogs`).
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from jackline_server.runtime.ports.connection_views import ConnectionView
from jackline_server.runtime.ports.http_streams import HttpWays
from jackline_server.runtime.ports.mcp import McpConnection
from jackline_server.tools.catalogs import PinnedCatalogs
from jackline_server.tools.mcp.link import Link

_log = logging.getLogger(__name__)

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
        await close_all(self._links)


class Closes(Protocol):
    """What can be closed."""

    async def close(self) -> None:
        """Let go of all that it holds."""
        ...


async def close_all(links: Mapping[str, Closes], *, most_s: float = _CLOSE_S) -> None:
    """Close each, at once and for so long at most; what goes wrong is logged, and harms no other."""
    closing = {name: asyncio.create_task(link.close()) for name, link in links.items()}
    if not closing:
        return
    await asyncio.wait(closing.values(), timeout=most_s)
    for name, task in closing.items():
        if not task.done():
            _log.warning("MCP server %s: its session was not closed within %g s", name, most_s)
        elif not task.cancelled() and (error := task.exception()) is not None:
            _log.error("MCP server %s: its session could not be closed", name, exc_info=error)
