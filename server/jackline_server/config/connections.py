"""Section `[connections]`: the servers that workflows may only name.

Owns what an operator says about one: where it is, what goes with every request, what may be reached from it.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from jackline_server.config.grpc_connections import read_grpc
from jackline_server.config.guarding import read_breaker, read_calls_per_minute
from jackline_server.config.headers import read_headers
from jackline_server.config.mcp_connections import read_mcp
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.sections import NAME
from jackline_server.config.worker_connections import read_worker
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.runtime.ports.http import HttpConnection, Origin, Reach
from jackline_server.runtime.ports.mcp import McpConnection
from jackline_server.runtime.ports.workers import WorkerConnection

_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?", re.ASCII)
_BASE_PATH = re.compile(r"(/[A-Za-z0-9%!$&'()*+,;=:@._~-]+)*/?", re.ASCII)
_PORTS = {"http": 80, "https": 443}
NOWHERE = Origin(scheme="https", host="nowhere.invalid", port=443)


@frozen
class Connections:
    """The connections of each kind, by name. No name stands for two."""

    http: Mapping[str, HttpConnection]
    mcp: Mapping[str, McpConnection]
    grpc: Mapping[str, GrpcConnection]
    worker: Mapping[str, WorkerConnection]


def read_connections(section: Section) -> Connections:
    """The connections by name. One that is not well described is reported, and stands for nothing."""
    connections: dict[str, HttpConnection] = {}
    mcp: dict[str, McpConnection] = {}
    grpc: dict[str, GrpcConnection] = {}
    worker: dict[str, WorkerConnection] = {}
    for name, table in section.tables():
        if NAME.fullmatch(name) is None:
            section.problem(ProblemCode.BAD_VALUE, name, "a connection's name is letters, digits, _ and -")
        connection = read_connection(name, table)
        if isinstance(connection, HttpConnection):
            connections[name] = connection
        elif isinstance(connection, GrpcConnection):
            grpc[name] = connection
        elif isinstance(connection, WorkerConnection):
            worker[name] = connection
        elif connection is not None:
            mcp[name] = connection
    return Connections(http=connections, mcp=mcp, grpc=grpc, worker=worker)


AnyConnection = HttpConnection | McpConnection | GrpcConnection | WorkerConnection


def read_connection(name: str, table: Section) -> AnyConnection | None:
    """One connection of any kind; None if it is not well described, which is then reported."""
    kind = table.text("kind")
    if kind == "mcp":
        return read_mcp(
            name, table, endpoint=lambda: (*_base(table, key="url"), read_headers(table, of="connection"))
        )
    if kind == "grpc":
        grpc = read_grpc(name, table)
        table.finish()
        return grpc
    if kind == "worker":
        worker = read_worker(name, table)
        table.finish()
        return worker
    if kind != "http":
        table.problem(ProblemCode.BAD_VALUE, "kind", "must be http, mcp, grpc or worker")
        return None  # its other keys belong to another kind: saying so of each would help nobody
    origin, base_path = _base(table)
    connection = HttpConnection(
        name=name,
        origin=origin,
        base_path=base_path,
        headers=read_headers(table, of="connection"),
        timeout_ms=table.span("timeout", default_ms=30_000),
        header_timeout_ms=table.span("header_timeout", default_ms=30_000),
        concurrency=table.integer("concurrency", default=16, least=1, most=10_000),
        calls_per_minute=read_calls_per_minute(table),
        breaker=read_breaker(table),
        reach=Reach(
            trusted=frozenset({origin}),
            hosts=_hosts(table),
            allow_private=table.boolean("allow_private", default=False) or False,
        ),
    )
    table.finish()
    return connection


def _base(table: Section, *, key: str = "base_url") -> tuple[Origin, str]:
    url = table.text(key)
    if url is None:
        if not table.has_seen(key):
            table.missing(key, "say where the server is, such as https://orders.internal")
        return NOWHERE, ""
    try:
        parts = urlsplit(url)
        origin = read_origin(parts)
    except ValueError:
        origin = None
        parts = SplitResult("", "", "", "", "")
    if origin is None or "?" in url or "#" in url or _BASE_PATH.fullmatch(parts.path) is None:
        table.problem(
            ProblemCode.BAD_VALUE,
            key,
            "must be an http or https URL without a user, query or fragment; secrets go into headers",
        )
        return NOWHERE, ""
    if any(segment in (".", "..") for segment in parts.path.split("/")):
        table.problem(ProblemCode.BAD_VALUE, key, "its path holds . or ..")
    return origin, parts.path.rstrip("/")


def read_origin(parts: SplitResult) -> Origin | None:
    """Where a URL leads. Raises ValueError for a port or an IPv6 address that is none."""
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        return None
    host = parts.hostname
    if ":" in host:
        host = str(ip_address(host))
    elif not host.isascii():
        host = host.encode("idna").decode()
    if ":" not in host and _HOST.fullmatch(host) is None:
        return None
    port = _PORTS[parts.scheme] if parts.port is None else parts.port
    return Origin(scheme=parts.scheme, host=host, port=port) if port else None


def _hosts(table: Section) -> frozenset[str]:
    hosts = frozenset(host.lower() for host in table.texts("hosts"))
    if not all(_HOST.fullmatch(host) for host in hosts):
        table.problem(
            ProblemCode.BAD_VALUE, "hosts", "holds what is no host name; ports and schemes don't belong here"
        )
    return hosts
