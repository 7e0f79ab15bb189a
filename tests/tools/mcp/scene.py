"""MCP servers for tests: the real ones, and one that misbehaves. Every process is ended with its scene."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jackline_server.core.facts import ToolReply
from jackline_server.core.plan import Effect, JsonValue, McpAction, OnUnknown, ToolStep
from jackline_server.egress.client import GuardedClients
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.mcp import McpConnection, McpEndpoint, McpProcess
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.tool_reports import Report
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.http import HttpTool
from jackline_server.tools.mcp.servers import McpServers
from jackline_server.tools.mcp.tool import McpToolCalls
from jackline_server.tools.toolbox import StepToolbox

HOSTILE = Path(__file__).with_name("hostile_server.py")
USUAL = Breaker()
NAME = "there"


def process(*command: str, **environ: str) -> McpProcess:
    """A server of this command, with the search path and nothing else of our environment."""
    environment = {"PATH": os.environ["PATH"], **environ}
    return McpProcess(
        command=command,
        environment={name: Secret(value) for name, value in environment.items()},
        directory=Path("/"),
    )


def connection(
    transport: McpProcess | McpEndpoint,
    *,
    trusted: bool = True,
    allow: frozenset[str] | None = None,
    lock: Path | None = None,
    start_timeout_ms: int = 20_000,
    breaker: Breaker = USUAL,
) -> McpConnection:
    return McpConnection(
        name=NAME,
        transport=transport,
        trusted=trusted,
        allow=allow,
        lock=lock,
        start_timeout_ms=start_timeout_ms,
        timeout_ms=60_000,
        concurrency=4,
        breaker=breaker,
    )


def at(port: int, headers: Mapping[str, Secret] | None = None, *, old: bool = False) -> McpConnection:
    """A server over HTTP on this machine; the SDK's are at these paths."""
    origin = Origin(scheme="http", host="127.0.0.1", port=port)
    path = "/sse" if old else "/mcp"
    return connection(McpEndpoint(origin=origin, path=path, headers=headers or {}, is_old=old))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One connection, reached as the runtime does. `ledger` is the hostile server's."""

    servers: McpServers
    toolbox: StepToolbox
    ledger: Path

    async def call(  # noqa: PLR0913 - what a test may want of one call
        self,
        tool: str,
        arguments: dict[str, JsonValue] | None = None,
        *,
        effect: Effect = Effect.READ,
        fixed: str = "{}",
        digest: str = "",
        timeout_ms: int = 20_000,
        bound: dict[str, JsonValue] | None = None,
        step_input: dict[str, JsonValue] | None = None,
        reply: ToolReply | None = None,
        report: Report | None = None,
    ) -> ToolResult:
        """One call of a tool, pinned as it is listed now unless a digest is given."""
        if not digest:
            await self.servers.refresh([NAME])
            catalog = self.servers.catalog(NAME)
            assert not isinstance(catalog, str), catalog
            digest = catalog[tool].digest
        action = McpAction(connection=NAME, tool=tool, arguments_json=fixed, tool_digest=digest)
        return await self.toolbox.call(
            Invocation(
                step=_step(action, effect, timeout_ms),
                run_id="run_1",
                call_key="key_1",
                attempt=1,
                arguments=arguments or {},
                bound=bound or {},
                step_input=step_input or {},
                subject={},
                timeout_ms=timeout_ms,
                reply=reply,
                report=report,
            )
        )

    def entries(self) -> list[dict[str, Any]]:
        """What the hostile server noted so far."""
        text = self.ledger.read_text("utf-8") if self.ledger.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def noted(self, key: str) -> Sequence[Any]:
        """The values of one key, in order."""
        return [entry[key] for entry in self.entries() if key in entry]


def _step(action: McpAction, effect: Effect, timeout_ms: int) -> ToolStep:
    return ToolStep(
        step_id="tool",
        kind="mcp",
        description="",
        input=None,
        routes={},
        next_step="",
        effect=effect,
        action=action,
        output_key="out",
        timeout_ms=timeout_ms,
        result_chars=8_000,
        on_unknown=OnUnknown.ASK,
        unknown_expiry_ms=60_000,
    )


@asynccontextmanager
async def reached(one: McpConnection, ledger: Path) -> AsyncGenerator[Scene]:
    """The connection behind a toolbox; its session is closed at the end."""
    clients = GuardedClients()
    servers = McpServers({NAME: one}, clients=clients)
    toolbox = StepToolbox(
        http=HttpTool(clients=clients, connections={}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=())),
        mcp=McpToolCalls(servers=servers, schemas=JsonSchemas()),
    )
    try:
        yield Scene(servers=servers, toolbox=toolbox, ledger=ledger)
    finally:
        await servers.close()


@asynccontextmanager
async def hostile(
    folder: Path, mode: str, *, start_timeout_ms: int = 20_000, breaker: Breaker = USUAL, **environ: str
) -> AsyncGenerator[Scene]:
    """The server that misbehaves in this mode, and as its environment says."""
    ledger = folder / "ledger.jsonl"
    command = process(sys.executable, "-I", "-S", str(HOSTILE), mode, str(ledger), **environ)
    one = connection(command, start_timeout_ms=start_timeout_ms, breaker=breaker)
    async with reached(one, ledger) as scene:
        yield scene
