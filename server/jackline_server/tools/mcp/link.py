"""One connection: its session started on first use and started again with backoff, and its catalog.

Owns when a server is started, and how old a catalog may be. Does not own a session's inside (`session`).
"""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from jackline_server.runtime.pinned_tools import Catalog
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionState, ConnectionView
from jackline_server.runtime.ports.http_streams import HttpWays
from jackline_server.runtime.ports.mcp import McpConnection
from jackline_server.tools.guards import Guard
from jackline_server.tools.mcp.failures import McpFailure, ServerDown, SessionGone
from jackline_server.tools.mcp.held_calls import HeldDialogues

if TYPE_CHECKING:
    from jackline_server.tools.mcp.session import McpSession

_log = logging.getLogger(__name__)

STARTS_A_MINUTE = 6
"""The first start, and five more."""

_MINUTE_S = 60.0
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0


class Link:
    """A connection of the config. Safe to use from any task of one event loop."""

    def __init__(self, connection: McpConnection, *, clients: HttpWays) -> None:
        self.connection = connection
        self.guard = Guard(connection)
        self.known: Catalog | None = None
        self.problem = "it was not asked yet"
        self._brief = self.problem
        self.held = HeldDialogues()
        self._clients = clients
        self._session: McpSession | None = None
        self._starting = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=STARTS_A_MINUTE)
        self._failures = 0
        self._not_before = 0.0
        self._listing = asyncio.Lock()
        self._listed: tuple[McpSession, float] | None = None
        self._closed = False

    async def catalog(self, *, max_age_s: float) -> Catalog:
        """The server's tools as it lists them now, or did at most so long ago in this session.

        Raises:
            ServerDown: it can't be asked, or its list can't be used.
        """
        async with self._listing:
            session = await self._live()
            if self.known is not None and self._is_fresh(session, max_age_s):
                return self.known
            try:
                self.known = await self._listed_anew(session)
            except ServerDown as down:
                self._note(down)
                raise
            except McpFailure as failure:
                down = ServerDown(failure.message)
                self._note(down)
                raise down from None
            return self.known

    def view(self) -> ConnectionView:
        """How it does now."""
        if self._session is not None and self._session.alive:
            return self.guard.view(ConnectionKind.MCP, state=ConnectionState.READY)
        if self._starting.locked():
            return self.guard.view(ConnectionKind.MCP, state=ConnectionState.STARTING)
        if self._failures:
            return self.guard.view(ConnectionKind.MCP, state=ConnectionState.FAILED, problem=self.problem)
        return self.guard.view(ConnectionKind.MCP, state=ConnectionState.UNUSED)

    async def session(self) -> "McpSession":
        """The session, started if there is none. Raises ServerDown."""
        return await self._live()

    async def close(self) -> None:
        """End the session, if there is one, and start no other. Bounded."""
        self._closed = True
        self.held.close()
        if self._session is not None:
            await self._session.close()

    # --- sessions --------------------------------------------------------------------------------

    async def _live(self) -> "McpSession":
        """The session, started if there is none. Raises ServerDown."""
        async with self._starting:
            if self._session is not None:
                if self._session.alive:
                    return self._session
                await self._session.close()
                self._session = None
                _log.warning("MCP server %s has ended", self.connection.name)
            return await self._started()

    async def _started(self) -> "McpSession":
        now = asyncio.get_running_loop().time()
        self._require_turn(now)
        self._starts.append(now)
        module = await asyncio.to_thread(_loaded)
        session = module(self.connection, self._clients)
        try:
            await session.start()
        except ServerDown as down:
            self._failures += 1
            wait_s = min(_FIRST_WAIT_S * 2 ** (self._failures - 1), _LONGEST_WAIT_S)
            self._not_before = asyncio.get_running_loop().time() + wait_s
            self._note(down)
            _log.warning("MCP server %s can't be reached: %s", self.connection.name, down.message)
            raise
        self._failures = 0
        self._session = session
        return session

    def _require_turn(self, now: float) -> None:
        """Raise ServerDown if the server may not be started yet."""
        if self._closed:
            raise ServerDown("this server is going down")
        if now < self._not_before:
            again = f"it is tried again in {self._not_before - now:.1f} s"
            raise ServerDown(f"{self.problem}; {again}", brief=f"{self._brief}; {again}")
        if len(self._starts) == STARTS_A_MINUTE and now - self._starts[0] < _MINUTE_S:
            wait_s = _MINUTE_S - (now - self._starts[0])
            raise ServerDown(f"it ended {STARTS_A_MINUTE} times within a minute; wait {wait_s:.0f} s")

    def _note(self, down: ServerDown) -> None:
        self.problem, self._brief = down.message, down.brief

    # --- the catalog -----------------------------------------------------------------------------

    def _is_fresh(self, session: "McpSession", max_age_s: float) -> bool:
        if self._listed is None or self._listed[0] is not session or session.stale:
            return False
        return asyncio.get_running_loop().time() - self._listed[1] <= max_age_s

    async def _listed_anew(self, session: "McpSession") -> Catalog:
        """What the server lists, in a new session if it has forgotten this one."""
        session.stale = False
        try:
            catalog = await self._asked(session)
        except SessionGone:
            session = await self._live()
            catalog = await self._asked(session)
        self._listed = (session, asyncio.get_running_loop().time())
        return catalog

    async def _asked(self, session: "McpSession") -> Catalog:
        from jackline_server.tools.mcp.listing import listed  # noqa: PLC0415 - the SDK, on first use

        return await session.request(listed, timeout_s=self.connection.start_timeout_ms / 1000)


def _loaded() -> "type[McpSession]":
    """The session's class. The first time this imports the SDK, which takes a second: call it in a thread."""
    from jackline_server.tools.mcp import calling, listing, session  # noqa: PLC0415 - on first use

    del calling, listing
    return session.McpSession
