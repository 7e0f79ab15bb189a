"""The least that a server of grpc.aio takes to begin: an empty one that only says SERVING."""

import asyncio
import sys
from typing import Any

import grpc.aio
from grpc_health.v1 import (  # pyright: ignore[reportMissingTypeStubs] - it has none
    health,
    health_pb2,
    health_pb2_grpc,
)

# The library is not typed, and its stubs leave out the parts for asyncio.
_untyped_health: Any = health
_untyped_health_grpc: Any = health_pb2_grpc


async def serve(port: int) -> None:
    """Serve health on that port of the loopback until the process ends."""
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    servicer: Any = _untyped_health.aio.HealthServicer()
    _untyped_health_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
