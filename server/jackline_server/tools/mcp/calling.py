"""The one request that calls a tool.

Owns its shape. The SDK's own `call_tool` would also check the answer, with a validator that takes whatever
time a server's pattern takes; `answers` checks it with ours.
"""

from collections.abc import Awaitable, Callable

from mcp.client import ClientSession
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
from pydantic import TypeAdapter

from jackline_server.core.plan import JsonObject

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


def tool_call(
    tool: str, arguments: JsonObject
) -> Callable[[ClientSession], Awaitable[CallToolResult | InputRequiredResult]]:
    """The request, for `McpSession.request`."""

    async def call(session: ClientSession) -> CallToolResult | InputRequiredResult:
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=dict(arguments)))
        return await session.send_request(request, _ANSWER)

    return call
