"""The server under test and a raw client: bytes in, messages or a status out."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  # ships its own types
    error_details_pb2,
    status_pb2,
)
from grpc_health.v1 import health_pb2  # pyright: ignore[reportMissingTypeStubs]  # no types

from jackline_server.api.limits import Limits
from jackline_server.api.server_info import ServerInfo
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.identity.principals import ALL_SCOPES, Principal, Scope
from jackline_server.identity.tokens import KnownToken, TokenRegister, digest_of
from jackline_server.rpc.server import RpcServer, Served, create_server
from jackline_server.runtime.ports.connection_views import Connections
from jackline_server.runtime.ports.store import Durability
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.tools.worker.pools import WorkerPools
from tests.rpc.doubles import (
    FixedClock,
    Script,
    ScriptedKillSwitch,
    ScriptedRuns,
    ScriptedThreads,
    ScriptedWebhooks,
    ScriptedWorkflows,
)
from tests.tools.worker.scene import POOL, connection

M = TypeVar("M", bound=Message)

ALL = "token-with-all-scopes"
OTHER_TENANT = "token-of-another-tenant"
_SCOPED = "token-for-"
POOLS = {POOL: connection(heartbeat_ms=60_000)}
SECONDS = 10.0


def token_for(scope: Scope) -> str:
    """A token that has one scope only."""
    return f"{_SCOPED}{scope.value}"


def _register() -> TokenRegister:
    def known(token: str, name: str, scopes: frozenset[Scope], tenant: Tenant = DEFAULT_TENANT) -> KnownToken:
        return KnownToken(
            digest=digest_of(token), principal=Principal(tenant=tenant, name=name, scopes=scopes)
        )

    return TokenRegister(
        [
            known(ALL, "local", ALL_SCOPES),
            known(OTHER_TENANT, "stranger", ALL_SCOPES, Tenant("other")),
            *(known(token_for(scope), scope.value, frozenset({scope})) for scope in Scope),
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended: its code, its message, and its details by type."""

    code: grpc.StatusCode
    message: str
    status: status_pb2.Status
    trailing: dict[str, str | bytes]

    @property
    def info(self) -> error_details_pb2.ErrorInfo:
        """The one ErrorInfo."""
        return self.detail(error_details_pb2.ErrorInfo)

    @property
    def reason(self) -> str:
        """Its reason, checked for being ours."""
        assert self.info.domain == "jackline"
        return self.info.reason

    @property
    def fields(self) -> list[str]:
        """The fields that BadRequest names."""
        return [one.field for one in self.detail(error_details_pb2.BadRequest).field_violations]

    def detail(self, kind: type[M]) -> M:
        """The one detail of that type."""
        found = [
            packed
            for packed in self.status.details
            if packed.type_url.endswith(f"/{kind.DESCRIPTOR.full_name}")
        ]
        assert len(found) == 1, self.status
        message = kind()
        found[0].Unpack(message)
        return message


def ended(error: grpc.aio.AioRpcError) -> Ended:
    """Read a failed call."""
    trailing = {key: value for key, value in error.trailing_metadata() or ()}  # noqa: C416  # no mapping
    raw = trailing.get("grpc-status-details-bin", b"")
    assert isinstance(raw, bytes)
    status = status_pb2.Status.FromString(raw)
    assert error.code() is not grpc.StatusCode.UNKNOWN
    return Ended(code=error.code(), message=error.details() or "", status=status, trailing=trailing)


def make_server(
    script: Script,
    runs: ScriptedRuns,
    limits: Limits,
    *,
    reflection: bool = True,
    workers: WorkerPools | None = None,
) -> RpcServer:
    """A server that is not listening yet."""
    pools = workers or WorkerPools(POOLS, schemas=JsonSchemas(), clock=FixedClock())
    served = Served(
        runs=runs,
        threads=ScriptedThreads(script),
        workflows=ScriptedWorkflows(script),
        webhooks=ScriptedWebhooks(script),
        kill_switch=ScriptedKillSwitch(script),
        workers=pools,
        authenticate=_register().authenticate,
        info=ServerInfo(
            version="1.2.3",
            durability=Durability.FSYNC,
            step_kinds=("agent",),
            models=("fast",),
            limits=limits,
        ),
        connections=Connections(pools),
        clock=FixedClock(),
        page_key=b"k" * 32,
    )
    return create_server(served, reflection=reflection)


def path_of(method: str) -> str:
    """The path of a method of RunService, or of the service that its name has."""
    service = next((one for one in ("Workflow", "Webhook") if one in method), "Run")
    return f"/jackline.v1.{service}Service/{method}"


@dataclass(kw_only=True)
class Harness:
    """One server and one channel to it."""

    script: Script
    runs: ScriptedRuns
    server: RpcServer
    address: str
    channel: grpc.aio.Channel
    stopped: bool = False
    trailing: dict[str, str | bytes] = field(default_factory=dict[str, "str | bytes"])

    @classmethod
    async def open(
        cls, limits: Limits, *, reflection: bool = True, workers: WorkerPools | None = None
    ) -> "Harness":
        """Start both."""
        script = Script()
        runs = ScriptedRuns(script)
        server = make_server(script, runs, limits, reflection=reflection, workers=workers)
        address = await server.start("127.0.0.1:0")
        await server.set_serving(serving=True)
        channel = grpc.aio.insecure_channel(address)
        return cls(script=script, runs=runs, server=server, address=address, channel=channel)

    async def close(self) -> None:
        """Stop both, after a look at whether the server still answers."""
        if not self.stopped:
            await self.check_health()
        await self.channel.close()
        await self.server.stop(0)

    async def check_health(self, *, serving: bool = True) -> None:
        """The server answers, without any credential."""
        call = self.unary("/grpc.health.v1.Health/Check")
        answer = health_pb2.HealthCheckResponse.FromString(await call(b"", timeout=SECONDS))
        expected = health_pb2.HealthCheckResponse.SERVING if serving else 2
        assert answer.status == expected

    def metadata(self, token: str | None) -> tuple[tuple[str, str], ...]:
        """What carries a token."""
        return () if token is None else (("authorization", f"Bearer {token}"),)

    def unary(self, path: str) -> Any:
        """A unary method as bytes in and out."""
        channel: Any = self.channel
        return channel.unary_unary(path)

    def unary_stream(self, path: str) -> Any:
        """A method with one request and many responses."""
        channel: Any = self.channel
        return channel.unary_stream(path)

    def stream_stream(self, path: str) -> Any:
        """A method with many of both."""
        channel: Any = self.channel
        return channel.stream_stream(path)

    async def send(
        self, method: str, request: Message | bytes, *, token: str | None = ALL, timeout: float = SECONDS
    ) -> bytes:
        """One unary call; raises grpc.aio.AioRpcError."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        call = self.unary(method)(data, metadata=self.metadata(token), timeout=timeout)
        response = await call
        self.trailing = {key: value for key, value in await call.trailing_metadata()}  # noqa: C416  # no mapping
        return response

    async def ask(self, method: str, request: Message | bytes, kind: type[M], **options: Any) -> M:
        """One unary call of RunService, WorkflowService or WebhookService that has to succeed."""
        return kind.FromString(await self.send(path_of(method), request, **options))

    async def refused(self, method: str, request: Message | bytes, **options: Any) -> Ended:
        """One unary call that has to fail, by a status with exactly one ErrorInfo."""
        path = method if method.startswith("/") else path_of(method)
        try:
            await self.send(path, request, **options)
        except grpc.aio.AioRpcError as error:
            found = ended(error)
            assert found.info.reason
            return found
        raise AssertionError(f"{method} was not refused")

    async def stream(
        self, request: Message | bytes, *, token: str | None = ALL, timeout: float = SECONDS
    ) -> AsyncIterator[bytes]:
        """The frames of StreamProgress as bytes. Whoever is cancelled, or wants no more, is gone at once."""
        data = request if isinstance(request, bytes) else request.SerializeToString()
        path = "/jackline.v1.RunService/StreamProgress"
        call = self.unary_stream(path)(data, metadata=self.metadata(token), timeout=timeout)
        try:
            async for frame in call:
                yield frame
        finally:
            call.cancel()  # a task that is cancelled before its first frame leaves the call as it is

    async def stream_refused(self, request: Message | bytes, **options: Any) -> Ended:
        """A stream that has to end by a status with exactly one ErrorInfo."""
        try:
            async for _ in self.stream(request, **options):
                pass
        except grpc.aio.AioRpcError as error:
            found = ended(error)
            assert found.info.reason
            return found
        raise AssertionError("the stream ended OK")
