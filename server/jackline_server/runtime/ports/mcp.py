"""What the runtime needs of MCP servers, in its own words: the shapes that the operator's config fills in.

Does not own their tools and pins (`pinned_tools`) nor how a server is reached (`tools.mcp`). Times are
milliseconds.
"""

from collections.abc import Mapping
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.secrets import Secret


@frozen
class McpProcess:
    """A server that we start ourselves and speak to over its standard input and output.

    `command` begins with an absolute path. `environment` is the whole of it: nothing is inherited.
    """

    command: tuple[str, ...]
    environment: Mapping[str, Secret]
    directory: Path


@frozen
class McpEndpoint:
    """A server that is reached by streamable HTTP. `path` begins with `/`; each request has the `headers`.

    One that `is_old` speaks the transport of 2024-11-05: a stream of events, and a path that it names in it.
    """

    origin: Origin
    path: str
    headers: Mapping[str, Secret]
    is_old: bool = False


@frozen
class McpConnection:
    """A connection of the operator's config that speaks MCP.

    Its annotations are believed if it is `trusted`. `allow` names the tools that may be called, None for all.
    `lock` is a file that pins its catalog. `timeout_ms` caps a call. For the others see
    `GuardedConnection`.
    """

    name: str
    transport: McpProcess | McpEndpoint
    trusted: bool
    allow: frozenset[str] | None
    lock: Path | None
    start_timeout_ms: int
    timeout_ms: int
    concurrency: int
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker()

    def allows(self, tool: str) -> bool:
        """True if the operator lets this tool be called."""
        return self.allow is None or tool in self.allow
