"""Step kind `mcp`: one call of a tool that is still what it was when the workflow was put.

Owns what the ways a call can end say about whether the server acted. Does not own the server (`link`).
"""

import asyncio
from collections.abc import Mapping

from jackline_server.core import json_text, templates
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonObject, JsonValue, McpAction
from jackline_server.runtime.mcp_ports import Catalog, McpTool
from jackline_server.runtime.ports import Invocation, ToolResult
from jackline_server.tools.http_message import MessageProblem, filled
from jackline_server.tools.mcp.failures import CallLate, CallLost, CallRefused, ServerDown
from jackline_server.tools.mcp.link import Link
from jackline_server.tools.mcp.servers import McpServers
from jackline_server.tools.results import failed

TOOL_CHANGED = "tool_changed"
"""The first word of what a caller is told of a tool that is no longer what it was."""

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
        try:
            async with asyncio.timeout_at(deadline):
                await link.slots.acquire()
        except TimeoutError:
            return failed("The connection was busy for the whole time; nothing was called.")
        try:
            return await self._called(link, action, invocation, deadline)
        finally:
            link.slots.release()

    async def _called(
        self, link: Link, action: McpAction, invocation: Invocation, deadline: float
    ) -> ToolResult:
        try:
            async with asyncio.timeout_at(deadline):
                catalog = await link.catalog(max_age_s=_CATALOG_AGE_S)
            tool = _pinned(action, catalog)
            arguments = _arguments(action, tool, invocation)
        except TimeoutError:
            return failed("The tool's server did not start in time; nothing was called.")
        except ServerDown as down:
            return failed(f"The tool's server can't be reached: {down.brief}.", may_pass=True)
        except _Changed as changed:
            return failed(f"{TOOL_CHANGED}: {changed} Nothing was called.")
        except MessageProblem as problem:
            return failed(f"The call can't be made: {problem}.")
        return await self._answer(link, tool, arguments, invocation, deadline)

    async def _answer(
        self, link: Link, tool: McpTool, arguments: JsonObject, invocation: Invocation, deadline: float
    ) -> ToolResult:
        repeatable = invocation.step.effect.repeatable
        left_s = max(deadline - asyncio.get_running_loop().time(), 0.001)
        try:
            answer = await link.call(tool.name, arguments, timeout_s=left_s)
        except ServerDown as down:
            return failed(f"The tool's server can't be reached: {down.brief}.", may_pass=True)
        except CallRefused as refused:
            return failed(refused.message)
        except CallLost as lost:
            late = isinstance(lost, CallLate)
            return failed(lost.message, uncertain=not repeatable, may_pass=not late, timed_out=late)
        from jackline_server.tools.mcp.answers import result_of  # noqa: PLC0415 - the SDK, loaded by now

        # A long answer takes a while to read, which must not hold up the event loop.
        return await asyncio.to_thread(result_of, answer, tool, self._schemas, repeatable=repeatable)


class _Changed(Exception):
    """The tool is not what the plan pinned."""


def _pinned(action: McpAction, catalog: Catalog) -> McpTool:
    tool = catalog.get(action.tool)
    if tool is None:
        raise _Changed(f"the server no longer has the tool {action.tool!r}.")
    if tool.digest != action.tool_digest:
        raise _Changed(f"the server now describes the tool {action.tool!r} differently.")
    return tool


def _arguments(action: McpAction, tool: McpTool, invocation: Invocation) -> JsonObject:
    """What the tool gets: what it takes of the step's input, what the caller chose, what is fixed, on top.

    Raises:
        MessageProblem: a template has no value.
    """
    fixed = json_text.parse_object(action.arguments_json)
    properties = json_text.parse_object(tool.input_schema_json).get("properties")
    takes: Mapping[str, JsonValue] = properties if isinstance(properties, dict) else {}
    only_in_templates = set(templates.names_in(fixed)) - set(takes)
    given = {name: value for name, value in invocation.step_input.items() if name in takes}
    for values in (invocation.arguments, invocation.bound):
        given |= {name: value for name, value in values.items() if name not in only_in_templates}
    made = filled(fixed, invocation.values)
    return {**given, **(made if isinstance(made, dict) else {})}
