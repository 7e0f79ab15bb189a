"""What a server says of itself, as bootstrap knows it."""

from collections.abc import Sequence

from jackline.v1 import run_service_pb2
from jackline_server.api.limits import LIMITS, Limits
from jackline_server.codec.enums import COMMAND_KIND
from jackline_server.core.facts import CommandKind
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.store import Durability

_DURABILITY = {
    Durability.FSYNC: run_service_pb2.DURABILITY_CLASS_FSYNC,
    Durability.PROCESS: run_service_pb2.DURABILITY_CLASS_PROCESS,
    Durability.NONE: run_service_pb2.DURABILITY_CLASS_NONE,
}


@frozen
class ServerInfo:
    """Version, what an acknowledgement is worth, and what is served here."""

    version: str
    durability: Durability
    step_kinds: Sequence[str]
    models: Sequence[str]
    features: Sequence[str] = ()
    limits: Limits = LIMITS


def server_info_message(info: ServerInfo) -> run_service_pb2.GetServerInfoResponse:
    """The answer of GetServerInfo."""
    return run_service_pb2.GetServerInfoResponse(
        version=info.version,
        durability=_DURABILITY[info.durability],
        limits=[
            run_service_pb2.Limit(name=name, value=value) for name, value in info.limits.published().items()
        ],
        step_kinds=info.step_kinds,
        commands=[value for kind, value in COMMAND_KIND.wire.items() if kind is not CommandKind.END_CHILD],
        models=info.models,
        features=info.features,
    )
