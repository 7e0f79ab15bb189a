"""Connections of kind `grpc`: services whose unary methods are steps.

Owns what an operator says about one. Where a call goes, and what goes with it, stands in the config alone.
"""

import re
from collections.abc import Mapping

from jackline_server.config.grpc_targets import read_target
from jackline_server.config.guarding import read_breaker, read_calls_per_minute
from jackline_server.config.headers import read_headers
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.runtime.ports.secrets import Secret

REFLECTION = "reflection"

_KEY = re.compile(r"[a-z0-9_.-]{1,128}", re.ASCII)
_OURS = frozenset({"te", "content-type", "user-agent", "traceparent", "tracestate"})
_VALUE = re.compile(r"[\x20-\x7e]{1,8000}")


def read_grpc(name: str, table: Section) -> GrpcConnection:
    """The connection."""
    target, tls = read_target(table, example="billing.internal:443")
    allow = table.texts("allow")
    return GrpcConnection(
        name=name,
        target=target,
        tls=tls,
        metadata=_metadata(table),
        descriptors=None if _asks(table) else table.path("descriptors"),
        trusted=table.boolean("trusted", default=False) or False,
        allow=frozenset(allow) if table.has_seen("allow") else None,
        lock=table.path("lock"),
        start_timeout_ms=table.span("start_timeout", default_ms=10_000),
        timeout_ms=table.span("timeout", default_ms=30_000),
        concurrency=table.integer("concurrency", default=16, least=1, most=10_000),
        calls_per_minute=read_calls_per_minute(table),
        breaker=read_breaker(table),
    )


def _asks(table: Section) -> bool:
    """True where the server itself is asked what there is, as the word `reflection` says, or nothing."""
    return table.peeked("descriptors") in (None, REFLECTION) and table.text("descriptors") in (
        None,
        REFLECTION,
    )


def _metadata(table: Section) -> Mapping[str, Secret]:
    headers = read_headers(table, of="gRPC connection")
    metadata: dict[str, Secret] = {}
    for name, value in headers.items():
        key = name.lower()
        if (
            _KEY.fullmatch(key) is None
            or key in _OURS
            or key.startswith(("grpc-", "jackline-"))
            or key[-4:] == "-bin"
        ):
            table.problem(
                ProblemCode.BAD_VALUE, "headers", f"{name!r} is no metadata that a connection may set"
            )
        elif _VALUE.fullmatch(value.reveal()) is None:
            table.problem(ProblemCode.BAD_VALUE, "headers", f"the value of {name!r} is not plain ASCII")
        else:
            metadata[key] = value
    return metadata
