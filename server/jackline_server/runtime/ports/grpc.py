"""Connections of the operator's config that speak gRPC: shapes between the config and their users."""

from collections.abc import Mapping
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.secrets import Secret


@frozen
class GrpcTls:
    """How a server is known, and how it knows us. None stands for the system's roots, and for nobody."""

    roots: Path | None
    certificate: Path | None
    key: Path | None


@frozen
class GrpcConnection:
    """A connection of kind `grpc`: `target` as gRPC takes it, in the clear if `tls` is None.

    `metadata` goes with every call. `descriptors` is a file descriptor set; None asks the server itself, by
    reflection. The idempotency levels of its methods are believed if it is `trusted`. `allow` names the
    methods that may be called, None for all. `lock` is a file that pins them. `start_timeout_ms` caps finding
    out what there is, `timeout_ms` a call. For the others see `GuardedConnection`.
    """

    name: str
    target: str
    tls: GrpcTls | None
    metadata: Mapping[str, Secret]
    descriptors: Path | None
    trusted: bool
    allow: frozenset[str] | None
    lock: Path | None
    start_timeout_ms: int
    timeout_ms: int
    concurrency: int
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker()

    def allows(self, tool: str) -> bool:
        """True if the operator lets this method be called."""
        return self.allow is None or tool in self.allow
