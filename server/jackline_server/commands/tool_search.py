"""Which connections and workflows `jackline tools test` looks at: none that has no part is started.

Owns that choice. What the tools of each are is `toolshed`'s.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from jackline_server.bootstrap import Workbench
from jackline_server.commands.compiling import loaded_workflow, workflow_files
from jackline_server.commands.toolshed import (
    Group,
    NoTools,
    group_of_connection,
    group_of_workflow,
    read_lock,
)
from jackline_server.config import Config
from jackline_server.core.frozen import frozen
from jackline_server.definitions.tool_origins import ToolOrigins, tool_origins
from jackline_server.runtime.pinned_tools import CatalogConnection
from jackline_server.runtime.ports.grpc import GrpcConnection


@frozen
class Found:
    """The groups that were looked at, and the names of tools that are written down anywhere."""

    groups: Sequence[Group]
    names: Collection[str]


async def every_tool(config: Config, bench: Workbench) -> list[Group]:
    """Each connection and each workflow of the folder; one that can't be had leaves the others."""
    files = await asyncio.to_thread(workflow_files, config)
    connections = [await group_of_connection(name, bench) for name in config.pinned_connections]
    return connections + [await group_of_workflow(path, bench, step_id=None) for path in files]


async def one_tool(config: Config, bench: Workbench, tool: str) -> Found:
    """Wherever a tool may be found.

    A workflow that names it comes before what a server may list under its name: then only the connections are
    asked that it comes from there. Else each that may list it is.
    """
    files = await asyncio.to_thread(workflow_files, config)
    origins = {path: await _origins(path, tool) for path in files}
    named = [path for path, one in origins.items() if one is not None and one.is_named]
    possible = named or [path for path, one in origins.items() if one is None or one.is_possible]
    connections = [] if named else await asyncio.to_thread(_may_list, config.pinned_connections, tool)
    groups = [await group_of_connection(name, bench) for name in connections]
    groups += [await group_of_workflow(path, bench, step_id=None, tool=tool) for path in possible]
    written = {name for one in origins.values() if one is not None for name in one.names}
    allowed = {name for one in config.mcp_connections.values() for name in one.allow or ()}
    return Found(groups=groups, names=written | allowed)


async def tool_of_workflow(path: Path, bench: Workbench, tool: str, *, step_id: str | None) -> Found:
    """A tool in one workflow, or among the tools of one of its steps."""
    origins = await _origins(path, tool, step_id)
    if origins is not None and not (origins.is_named or origins.is_possible):
        return Found(groups=(), names=origins.names)
    group = await group_of_workflow(path, bench, step_id=step_id, tool=tool)
    return Found(groups=[group], names=origins.names if origins is not None else ())


async def _origins(path: Path, tool: str, step_id: str | None = None) -> ToolOrigins | None:
    """What the text of a workflow says of it; None if it can't be read, which its group then says."""
    try:
        source = (await loaded_workflow(path)).source
    except OSError:
        return None
    if source is None:
        return None
    return await asyncio.to_thread(tool_origins, source, tool=tool, step_id=step_id)


def _may_list(connections: Mapping[str, CatalogConnection], tool: str) -> list[str]:
    """The connections that may have a tool of that name, as far as the config and its lock files say."""
    return [name for name, one in connections.items() if one.allows(tool) and _is_known(one, tool)]


def _is_known(connection: CatalogConnection, tool: str) -> bool:
    """False if its tools are pinned without this one, or if nothing of its kind is named so."""
    if isinstance(connection, GrpcConnection) and "/" not in tool:
        return False
    try:
        pinned = read_lock(connection)
    except NoTools:  # its group says so
        return True
    return pinned is None or tool in pinned
