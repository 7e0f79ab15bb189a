"""Step kind `mcp`: one call of a tool that is still what it was when the workflow was put.

Owns what the ways a call can end say about whether the server acted. Does not own the server (`link`).
"""

import asyncio
import logging

from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonObject, McpAction
from jackline_server.runtime.pinned_tools import PinnedTool
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.guards import from_here, is_fair
from jackline_server.tools.http_message import MessageProblem
from jackline_server.tools.mcp.failures import CallLate, CallLost, CallRefused, ServerDown, SessionGone
from jackline_server.tools.mcp.link import Link
from jackline_server.tools.mcp.servers import McpServers
from jackline_server.tools.pinned_calls import ToolChanged, arguments_of, changed_words, pinned
from jackline_server.tools.results import failed

_log = logging.getLogger(__name__)

_CATALOG_AGE_S = 60.0


class McpToolCalls:
    """Calls tools of the operator's MCP connections."""

    def __init__(self, *, servers: McpServers, schemas: SchemaValidator) -> None:
        self._servers = servers
        self._schemas = schemas

    async def call(self, action: McpAction, invocation: Invocation) -> ToolResult:
        """Make one call. Waits for a slot, and for the server's start, first; that counts.

        Raises nothing but CancelledError, upon which the server is told to stop.
        """
        link = self._servers.link(action.connection)
        if link is None:
            return failed(f"There is no MCP connection {action.connection!r} on this server.")
        if not link.connection.allows(action.tool):
            return failed(f"The operator does not allow the tool {action.tool!r}.")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(invocation.timeout_ms, link.connection.timeout_ms) / 1000
        return await link.guard.run(
            deadline,
            lambda: self._called(link, action, from_here(invocation, deadline), deadline),
            on_wait=invocation.on_wait,
        )

    async def _called(
        self, link: Link, action: McpAction, invocation: Invocation, deadline: float
    ) -> ToolResult:
        try:
            return await self._tried(link, action, invocation, deadline)
        except SessionGone:
            _log.info("MCP server %s has forgotten its session; a new one is begun", link.connection.name)
        try:  # it did nothing: once more in a new session, if the tool is the same there
            return await self._tried(link, action, invocation, deadline)
        except SessionGone as gone:
            return failed(gone.message, may_pass=True, connection_failed=True)

    async def _tried(
        self, link: Link, action: McpAction, invocation: Invocation, deadline: float
    ) -> ToolResult:
        """See `call`. Raises SessionGone."""
        try:
            async with asyncio.timeout_at(deadline):
                catalog = await link.catalog(max_age_s=_CATALOG_AGE_S)
            tool = pinned(action.tool, action.tool_digest, catalog)
            arguments = arguments_of(action.arguments_json, tool, invocation)
        except TimeoutError:
            late = is_fair(invocation.timeout_ms, link.connection.timeout_ms)
            message = "The tool's server did not start in time; nothing was called."
            return failed(message, connection_failed=late)
        except ServerDown as down:
            return _unreachable(down)
        except ToolChanged as changed:
            return failed(changed_words(changed))
        except MessageProblem as problem:
            return failed(f"The call can't be made: {problem}.")
        return await self._answer(link, tool, arguments, invocation, deadline)

    async def _answer(
        self, link: Link, tool: PinnedTool, arguments: JsonObject, invocation: Invocation, deadline: float
    ) -> ToolResult:
        from jackline_server.tools.mcp.exchange import Exchange  # noqa: PLC0415 - the SDK, loaded by now

        exchange = Exchange(
            link=link,
            tool=tool,
            arguments=arguments,
            invocation=invocation,
            deadline=deadline,
            schemas=self._schemas,
        )
        try:
            return await exchange.run()
        except ServerDown as down:
            return _unreachable(down)
        except SessionGone:
            raise
        except CallRefused as refused:
            return failed(refused.message)
        except CallLost as lost:
            late = isinstance(lost, CallLate)
            return failed(
                lost.message,
                uncertain=not invocation.step.effect.repeatable,
                may_pass=not late,
                timed_out=late,
                connection_failed=not late or is_fair(invocation.timeout_ms, link.connection.timeout_ms),
            )


def _unreachable(down: ServerDown) -> ToolResult:
    return failed(f"The tool's server can't be reached: {down.brief}.", may_pass=True, connection_failed=True)
