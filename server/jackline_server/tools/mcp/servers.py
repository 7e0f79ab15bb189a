"""Every MCP connection of the config: what the compiler and the runtime ask of their catalogs.

Owns the links, and the lock files that pin a catalog for an operator. Does not own calls (`tool`).
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from jackline_server.core.plan import McpAction, Plan, ToolStep
from jackline_server.runtime import mcp_ports
from jackline_server.runtime.http_ports import HttpClients
from jackline_server.runtime.mcp_ports import BadPins, Catalog, McpConnection
from jackline_server.tools.mcp.failures import ServerDown
from jackline_server.tools.mcp.link import Link
from jackline_server.tools.mcp.locks import read_lock_file

_log = logging.getLogger(__name__)

_COMPILE_AGE_S = 2.0
_START_AGE_S = 60.0
_START_WAIT_S = 5.0
_CLOSE_S = 10.0


class McpServers:
    """Implements `Catalogs` for the runtime, and the compiler's view of the same catalogs."""

    def __init__(self, connections: Mapping[str, McpConnection], *, clients: HttpClients) -> None:
        """Starts nothing: a server is started when it is first asked."""
        self._links = {name: Link(one, clients=clients) for name, one in connections.items()}
        self._locked: dict[str, Catalog | str] = {}
        self._asking: set[asyncio.Task[Catalog]] = set()

    async def close(self) -> None:
        """End every session and process. Bounded."""
        for task in self._asking:
            task.cancel()
        closing = [asyncio.create_task(link.close()) for link in self._links.values()]
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S)

    def link(self, name: str) -> Link | None:
        """The connection of that name."""
        return self._links.get(name)

    # --- for the compiler ------------------------------------------------------------------------

    def names(self) -> Collection[str]:
        """The connections."""
        return self._links.keys()

    def connection(self, name: str) -> McpConnection | None:
        """What the operator says of one."""
        link = self._links.get(name)
        return None if link is None else link.connection

    def catalog(self, name: str) -> Catalog | str:
        """Its tools as locked, else as fetched last; or why there are none."""
        link = self._links.get(name)
        if link is None:
            return "there is no such connection"
        if link.connection.lock is not None:
            return self._locked.get(name, "its lock file was not read yet")
        return link.problem if link.known is None else link.known

    # --- for the runtime -------------------------------------------------------------------------

    async def refresh(self, connections: Collection[str]) -> Mapping[str, str | None]:
        """See `Catalogs.refresh`. A locked catalog is that of its file, whatever its server says."""
        versions = await asyncio.gather(*(self._refreshed(name) for name in connections))
        return dict(zip(connections, versions, strict=True))

    async def changed(self, plan: Plan) -> Sequence[str]:
        """See `Catalogs.changed`. Waits for a server at most five seconds."""
        wanted: dict[str, dict[str, McpAction]] = {}
        for step_id, step in plan.steps.items():
            if isinstance(step, ToolStep) and isinstance(step.action, McpAction):
                wanted.setdefault(step.action.connection, {})[step_id] = step.action
        found = await asyncio.gather(*(self._changed(name, steps) for name, steps in wanted.items()))
        return sorted(step_id for some in found for step_id in some)

    # --- for the operator ------------------------------------------------------------------------

    async def lock_text(self, name: str) -> str:
        """The text of a lock file for what the server lists now and the config allows.

        Raises:
            ServerDown: it can't be asked.
            KeyError: there is no such connection.
        """
        link = self._links[name]
        listed = await link.catalog(max_age_s=0)
        return mcp_ports.pins_text({one: listed[one] for one in listed if link.connection.allows(one)})

    # --- within ----------------------------------------------------------------------------------

    async def _refreshed(self, name: str) -> str | None:
        link = self._links.get(name)
        if link is None:
            return None
        if link.connection.lock is not None:
            self._locked[name] = await asyncio.to_thread(_read_lock, link.connection)
            locked = self._locked[name]
            return None if isinstance(locked, str) else mcp_ports.version_of(locked)
        try:
            return mcp_ports.version_of(await link.catalog(max_age_s=_COMPILE_AGE_S))
        except ServerDown:
            return None if link.known is None else mcp_ports.version_of(link.known)

    async def _changed(self, name: str, steps: Mapping[str, McpAction]) -> list[str]:
        link = self._links.get(name)
        if link is None:
            return []
        # Whoever starts a run waits only so long; the question itself goes on, for the calls to come.
        asking = asyncio.create_task(link.catalog(max_age_s=_START_AGE_S))
        self._asking.add(asking)
        asking.add_done_callback(self._asked)
        await asyncio.wait({asking}, timeout=_START_WAIT_S)
        if not asking.done() or asking.cancelled() or asking.exception() is not None:
            return []
        listed = asking.result()
        return [
            step_id
            for step_id, action in steps.items()
            if action.tool not in listed or listed[action.tool].digest != action.tool_digest
        ]

    def _asked(self, task: asyncio.Task[Catalog]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.debug("an MCP server could not be asked", exc_info=task.exception())


def _read_lock(connection: McpConnection) -> Catalog | str:
    """The catalog of a lock file, or why it pins nothing."""
    path = connection.lock
    if path is None:
        return "it has no lock file"
    try:
        return read_lock_file(path)
    except OSError as error:
        return f"its lock file {path.name} can't be read ({error.strerror}); make it, or take `lock` out"
    except BadPins as problem:
        return f"its lock file {path.name} is wrong: {problem}"
