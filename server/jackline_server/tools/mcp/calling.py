"""The one request that calls a tool.

Owns its shape. The SDK's own `call_tool` would also check the answer, with a validator that takes whatever
time a server's pattern takes; `answers` checks it with ours.
"""

from collections.abc import Callable, Coroutine

from mcp.client import ClientSession
from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult, InputRequiredResult
from pydantic import TypeAdapter

from jackline_server.core.plan import JsonObject
from jackline_server.tools.mcp.asking import Asked

_ANSWER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)


def tool_call(
    tool: str, arguments: JsonObject, asked: Asked | None = None
) -> Callable[[ClientSession, str], Coroutine[None, None, CallToolResult | InputRequiredResult]]:
    """The request, for `McpSession.converse`; with the answers to what its first one ended with.

    It takes a token, under which the server may say how far it is.
    """

    async def call(session: ClientSession, token: str) -> CallToolResult | InputRequiredResult:
        more: JsonObject = {}
        if asked is not None:
            more = {"inputResponses": asked.answers, "requestState": asked.request_state}
        params = CallToolRequestParams.model_validate(
            {"name": tool, "arguments": dict(arguments), "_meta": {"progressToken": token}, **more}
        )
        request = CallToolRequest(params=params)
        return await session.send_request(request, _ANSWER)

    return call
