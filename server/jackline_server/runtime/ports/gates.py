"""What an operator declares of hooks and policy services: shapes between the config and its users."""

from collections.abc import Mapping

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import OnHookError
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.grpc import GrpcTls
from jackline_server.runtime.ports.secrets import Secret


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
class PolicyTarget:
    """A policy service of the operator's: `target` as gRPC takes it, in the clear if `tls` is None."""

    name: str
    target: str
    tls: GrpcTls | None
    headers: Mapping[str, Secret]
