"""Health (public) and reflection (with a token), from their libraries."""

import asyncio
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # pyright: ignore[reportMissingTypeStubs]
from grpc_reflection.v1alpha import (  # pyright: ignore[reportMissingTypeStubs]
    reflection,
    reflection_pb2,
    reflection_pb2_grpc,
)

from jackline_server.rpc.services import RUN_SERVICE, TOOL_WORKER_SERVICE, WORKFLOW_SERVICE

_SERVICES = (RUN_SERVICE.full_name, WORKFLOW_SERVICE.full_name, TOOL_WORKER_SERVICE.full_name)
_REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"
_SET_SECONDS = 2.0

# The libraries are not typed, and their stubs leave out the parts for asyncio.
_untyped_grpc: Any = grpc
_untyped_health: Any = health
_untyped_health_grpc: Any = health_pb2_grpc
_untyped_reflection: Any = reflection
_untyped_reflection_grpc: Any = reflection_pb2_grpc


class Health:
    """Says SERVING or NOT_SERVING, for the server and for each of its services; nothing else."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._servicer: Any = _untyped_health.aio.HealthServicer()
        _untyped_health_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set_serving(self, *, serving: bool) -> None:
        """Switch all of them. A watcher that reads nothing can hold this up for 2 s a name, no longer."""
        status = (
            health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        )
        for name in ("", *_SERVICES):
            try:
                async with asyncio.timeout(_SET_SECONDS):
                    await self._servicer.set(name, status)
            except TimeoutError:
                continue


def add_reflection(server: grpc.aio.Server) -> None:
    """Serve reflection as v1alpha, which the library has, and as v1, whose messages are the same bytes."""
    names = (*_SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME, _REFLECTION_V1)
    servicer: Any = _untyped_reflection.aio.ReflectionServicer(names)
    _untyped_reflection_grpc.add_ServerReflectionServicer_to_server(servicer, server)
    handler: Any = _untyped_grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(_REFLECTION_V1, {"ServerReflectionInfo": handler}),)
    )
