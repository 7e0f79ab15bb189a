"""The catalogs of servers whose tools are pinned: what compiler, runtime and operator ask of them.

Owns when a catalog is asked for again, and the lock files that pin one for an operator. Does not own how a
server is asked: each kind of connection brings links of its own.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from jackline_server.core.plan import GrpcAction, McpAction, Plan, ToolStep, WorkerAction
from jackline_server.runtime import pinned_tools
from jackline_server.runtime.pinned_tools import BadPins, Catalog, CatalogConnection
from jackline_server.tools.locks import read_lock_file

_log = logging.getLogger(__name__)

_COMPILE_AGE_S = 2.0
_START_AGE_S = 60.0
_START_WAIT_S = 5.0


class ServerDown(Exception):
    """A server can't be asked; nothing was asked of it.

    `message` is for people, and may repeat what the server itself said: a model gets `brief`.
    """

    def __init__(self, message: str, *, brief: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.brief = brief or message


class CatalogLink(Protocol):
    """A connection, as far as its catalog goes. `known` is what it listed last, `problem` why not."""

    known: Catalog | None
    problem: str

    @property
    def connection(self) -> CatalogConnection:
        """What the operator says of it."""
        ...

    async def catalog(self, *, max_age_s: float) -> Catalog:
        """What it lists now, or did so long ago. Raises ServerDown."""
        ...


LinkT_co = TypeVar("LinkT_co", bound=CatalogLink, covariant=True)


class PinnedCatalogs(Generic[LinkT_co]):
    """Implements `Catalogs` for the runtime, and the compiler's view of the same catalogs."""

    def __init__(self, links: Mapping[str, LinkT_co]) -> None:
        """Asks nobody yet."""
        self._links = links
        self._locked: dict[str, Catalog | str] = {}
        self._asking: set[asyncio.Task[Catalog]] = set()

    def forget(self) -> None:
        """Wait for no answer any more."""
        for task in self._asking:
            task.cancel()

    def link(self, name: str) -> LinkT_co | None:
        """The connection of that name."""
        return self._links.get(name)

    # --- for the compiler ------------------------------------------------------------------------

    def names(self) -> Collection[str]:
        """The connections."""
        return self._links.keys()

    def connection(self, name: str) -> CatalogConnection | None:
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
        wanted: dict[str, dict[str, tuple[str, str]]] = {}
        for step_id, step in plan.steps.items():
            if isinstance(step, ToolStep) and (pinned := pinned_by(step)) is not None:
                connection, tool, digest = pinned
                if connection in self._links:
                    wanted.setdefault(connection, {})[step_id] = (tool, digest)
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
        return pinned_tools.pins_text({one: listed[one] for one in listed if link.connection.allows(one)})

    # --- within ----------------------------------------------------------------------------------

    async def _refreshed(self, name: str) -> str | None:
        link = self._links.get(name)
        if link is None:
            return None
        lock = link.connection.lock
        if lock is not None:
            self._locked[name] = await asyncio.to_thread(_read_lock, lock)
            locked = self._locked[name]
            return None if isinstance(locked, str) else pinned_tools.version_of(locked)
        try:
            return pinned_tools.version_of(await link.catalog(max_age_s=_COMPILE_AGE_S))
        except ServerDown:
            return None if link.known is None else pinned_tools.version_of(link.known)

    async def _changed(self, name: str, steps: Mapping[str, tuple[str, str]]) -> list[str]:
        link = self._links[name]
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
            for step_id, (tool, digest) in steps.items()
            if tool not in listed or listed[tool].digest != digest
        ]

    def _asked(self, task: asyncio.Task[Catalog]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.debug("a server could not be asked for its tools", exc_info=task.exception())


class EveryCatalog:
    """The catalogs of all kinds of connections behind one door. No name stands for two."""

    def __init__(self, *kinds: PinnedCatalogs[CatalogLink]) -> None:
        self._kinds = kinds

    def link(self, name: str) -> CatalogLink | None:
        """The connection of that name."""
        return next((link for kind in self._kinds if (link := kind.link(name)) is not None), None)

    def connection(self, name: str) -> CatalogConnection | None:
        """What the operator says of one."""
        link = self.link(name)
        return None if link is None else link.connection

    async def refresh(self, connections: Collection[str]) -> Mapping[str, str | None]:
        """See `Catalogs.refresh`."""
        found: dict[str, str | None] = dict.fromkeys(connections)
        for kind in self._kinds:
            found |= await kind.refresh([name for name in connections if name in kind.names()])
        return found

    async def changed(self, plan: Plan) -> Sequence[str]:
        """See `Catalogs.changed`."""
        found = await asyncio.gather(*(kind.changed(plan) for kind in self._kinds))
        return sorted(step_id for some in found for step_id in some)

    async def lock_text(self, name: str) -> str:
        """See `PinnedCatalogs.lock_text`."""
        kind = next(kind for kind in self._kinds if name in kind.names())
        return await kind.lock_text(name)


def pinned_by(step: ToolStep) -> tuple[str, str, str] | None:
    """The connection, the tool and its digest that a step is pinned to; None for one that is not."""
    match step.action:
        case McpAction(connection=connection, tool=tool, tool_digest=digest):
            return connection, tool, digest
        case GrpcAction(connection=connection, method=method, method_digest=digest):
            return connection, method, digest
        case WorkerAction(connection=connection, tool=tool, tool_digest=digest) if digest:
            return connection, tool, digest
        case _:
            return None


def _read_lock(path: Path) -> Catalog | str:
    """The catalog of a lock file, or why it pins nothing."""
    try:
        return read_lock_file(path)
    except OSError as error:
        return f"its lock file {path.name} can't be read ({error.strerror}); make it, or take `lock` out"
    except BadPins as problem:
        return f"its lock file {path.name} is wrong: {problem}"
