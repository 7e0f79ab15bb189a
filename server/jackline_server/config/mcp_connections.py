"""Connections of kind `mcp`: servers that speak the Model Context Protocol.

Owns what an operator says about one. What is started and reached stands in the config alone: no workflow and
no call names a command or a host.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from jackline_server.config.environment import read_environment
from jackline_server.config.guarding import read_breaker, read_calls_per_minute
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.mcp import McpConnection, McpEndpoint, McpProcess
from jackline_server.runtime.ports.secrets import Secret

_TRANSPORTS = ("stdio", "http", "sse")
_ROOT = Path("/")

Endpoint = Callable[[], tuple[Origin, str, Mapping[str, Secret]]]
"""Reads `url` and `headers` as connections of kind `http` do."""


def read_mcp(name: str, table: Section, *, endpoint: Endpoint) -> McpConnection | None:
    """The connection; None if it says nothing that could be reached, which is then reported."""
    transport = _transport(table, endpoint)
    allow = table.texts("allow")
    connection = (
        None
        if transport is None
        else McpConnection(
            name=name,
            transport=transport,
            trusted=table.boolean("trusted", default=False) or False,
            allow=frozenset(allow) if table.has_seen("allow") else None,
            lock=table.path("lock"),
            start_timeout_ms=table.span("start_timeout", default_ms=15_000),
            timeout_ms=table.span("timeout", default_ms=300_000),
            concurrency=table.integer("concurrency", default=8, least=1, most=1_000),
            calls_per_minute=read_calls_per_minute(table),
            breaker=read_breaker(table),
        )
    )
    if connection is not None:  # else each of its other keys would seem unknown
        table.finish()
    return connection


def _transport(table: Section, endpoint: Endpoint) -> McpProcess | McpEndpoint | None:
    kind = table.text("transport")
    if kind in ("http", "sse"):
        origin, path, headers = endpoint()
        return McpEndpoint(origin=origin, path=path or "/", headers=headers, is_old=kind == "sse")
    if kind == "stdio":
        command = table.command("command")
        if command is None:
            if not table.has_seen("command"):
                table.missing("command", 'name the program and its arguments, such as ["/usr/bin/my-mcp"]')
            return None
        return McpProcess(
            command=command,
            environment=read_environment(table),
            directory=table.path("directory", default=_ROOT) or _ROOT,
        )
    if kind is None and not table.has_seen("transport"):
        table.missing("transport", "say stdio, http, or sse for a server of before 2025")
    else:
        table.problem(ProblemCode.BAD_VALUE, "transport", f"must be one of {', '.join(_TRANSPORTS)}")
    return None
