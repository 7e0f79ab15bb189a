"""An MCP server over HTTP that misbehaves on demand: its sessions, its streams, its ledger."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.egress.raw_server import Received, answer, serving

TOOL: dict[str, Any] = {
    "name": "say",
    "description": "Says.",
    "inputSchema": {"type": "object", "properties": {}},
}
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

NOT_FOUND = answer(
    b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}',
    status="404 Not Found",
)
NO_SESSION = answer(
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID"}}',
    status="400 Bad Request",
)
EMPTY_404 = answer(b"", status="404 Not Found", content_type="text/plain")


async def until(true: Callable[[], bool]) -> None:
    """Return once it is true."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.get_running_loop().run_in_executor(None, lambda: None)


def event(data: object, kind: str = "message") -> bytes:
    """One event of a stream."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {kind}\ndata: {text}\n\n".encode()


@dataclass(slots=True, kw_only=True)
class Remote:
    """A server of streamable HTTP with sessions. `unknown` is what it says of one it does not know."""

    unknown: bytes = NOT_FOUND
    forgets_calls: bool = False
    is_silent: bool = False
    hung_up: bool = False
    sessions: int = 0
    calls: int = 0
    methods: list[str] = field(default_factory=list[str])
    live: set[str] = field(default_factory=set[str])

    def forget(self) -> None:
        """Know no session any more, as after a restart."""
        self.live.clear()

    async def behave(self, received: Received, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        if received.method != "POST":
            writer.write(answer(b"", status="405 Method Not Allowed"))
            return
        message: dict[str, Any] = json.loads(received.body)
        method: str = message["method"]
        self.methods.append(method)
        known = received.headers.get("mcp-session-id") in self.live
        if method == "server/discover":
            writer.write(_error(message, -32601))
        elif method == "initialize":
            self.sessions += 1
            self.live.add(f"s{self.sessions}")
            writer.write(_result(message, _hello(), more=f"Mcp-Session-Id: s{self.sessions}\r\n"))
        elif not known or (self.forgets_calls and method == "tools/call"):
            self.live.clear()
            writer.write(self.unknown)
        elif method.startswith("notifications/"):
            writer.write(answer(b"", status="202 Accepted"))
        elif method == "tools/call" and self.is_silent:
            self.calls += 1
            await received.hung_up()
            self.hung_up = True
        else:
            self.calls += method == "tools/call"
            writer.write(_result(message, result_of(method)))


@asynccontextmanager
async def remote(unknown: bytes = NOT_FOUND) -> AsyncGenerator[tuple[int, Remote]]:
    """The server at a port of this machine."""
    there = Remote(unknown=unknown)
    async with serving(there.behave) as server:
        yield server.port, there


def result_of(method: str) -> dict[str, object]:
    """What a server that behaves answers."""
    if method == "initialize":
        return _hello()
    if method == "tools/list":
        return {"tools": [TOOL]}
    return {"content": [{"type": "text", "text": "said"}]}


def _hello() -> dict[str, object]:
    info = {"name": "remote", "version": "1"}
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}


def _result(message: dict[str, Any], result: dict[str, object], *, more: str = "") -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
    return answer(body.encode(), more=more)


def _error(message: dict[str, Any], code: int) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "no"}})
    return answer(body.encode())
