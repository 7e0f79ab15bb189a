"""A policy service in Python that answers as it is told, on a real gRPC server."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from jackline.v1 import policy_pb2, policy_pb2_grpc

Check = Callable[[policy_pb2.CheckRequest], policy_pb2.CheckResponse]

ALLOW = policy_pb2.CheckResponse(decision=policy_pb2.POLICY_DECISION_ALLOW)
DENY = policy_pb2.CheckResponse(decision=policy_pb2.POLICY_DECISION_DENY, reason="not on a Monday")


@dataclass(slots=True, kw_only=True)
class PolicyDouble(policy_pb2_grpc.PolicyServiceServicer):
    """Answers by `check`, once `released`; raises what it raises."""

    check: Check
    asked: list[policy_pb2.CheckRequest] = field(default_factory=list[policy_pb2.CheckRequest])
    headers: list[dict[str, str | bytes]] = field(default_factory=list[dict[str, str | bytes]])
    called: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    address: str = ""

    async def Check(  # noqa: N802 - the contract's name
        self,
        request: policy_pb2.CheckRequest,
        context: grpc.aio.ServicerContext[policy_pb2.CheckRequest, policy_pb2.CheckResponse],
    ) -> policy_pb2.CheckResponse:
        """See policy.proto."""
        self.asked.append(request)
        self.called.set()
        self.headers.append(dict(context.invocation_metadata() or ()))
        await self.released.wait()
        return self.check(request)


@asynccontextmanager
async def served(
    check: Check, *, held: bool = False, credentials: grpc.ServerCredentials | None = None
) -> AsyncGenerator[PolicyDouble]:
    """The service on a free port; it answers nothing while it is `held`."""
    double = PolicyDouble(check=check)
    if not held:
        double.released.set()
    server = grpc.aio.server()
    policy_pb2_grpc.add_PolicyServiceServicer_to_server(double, server)
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    double.address = f"127.0.0.1:{port}"
    await server.start()
    try:
        yield double
    finally:
        await server.stop(None)
