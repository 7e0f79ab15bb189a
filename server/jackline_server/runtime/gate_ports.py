"""What an operator declares of hooks and policy services: shapes between the config and its users."""

from collections.abc import Mapping
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import OnHookError
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.secrets import Secret


@frozen
class HookDeclaration:
    """A hook of the operator's. `class_path` is `package.module:Class`, or `entry_point` names one; not both.

    `options` are the keyword arguments that its one instance is made with.
    """

    name: str
    class_path: str
    entry_point: str
    options: Mapping[str, JsonValue]
    timeout_ms: int
    on_error: OnHookError


@frozen
class PolicyTls:
    """How a policy service is known, and how it knows us. None stands for the system's roots, and nobody."""

    roots: Path | None
    certificate: Path | None
    key: Path | None


@frozen
class PolicyTarget:
    """A policy service of the operator's: `target` as gRPC takes it, in the clear if `tls` is None."""

    name: str
    target: str
    tls: PolicyTls | None
    headers: Mapping[str, Secret]
