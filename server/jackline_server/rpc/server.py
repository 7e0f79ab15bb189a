"""The gRPC server: its settings, its address, its end.

Owns the options that were measured. What it serves is put together here from the use cases; who the use cases
are is bootstrap's business.
"""

import grpc
import grpc.aio

from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.server_info import ServerInfo
from jackline_server.core.frozen import frozen
from jackline_server.rpc.guard import Authenticate, Guard
from jackline_server.rpc.introspection import Health, add_reflection
from jackline_server.rpc.many_runs import ManyRunsMethods
from jackline_server.rpc.runs import RunMethods
from jackline_server.rpc.server_methods import ServerMethods
from jackline_server.rpc.services import run_service, tool_worker_service, webhook_service, workflow_service
from jackline_server.rpc.stream_limit import StreamLimit
from jackline_server.rpc.streams import CUT_OFF_S, OpenStreams, ProgressStreams
from jackline_server.rpc.threads import ThreadMethods
from jackline_server.rpc.webhooks import WebhookMethods
from jackline_server.rpc.worker_streams import WorkerStreams
from jackline_server.rpc.workflows import WorkflowMethods
from jackline_server.runtime.ports.connection_views import ConnectionSource
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.workers import WorkerRegistry
from jackline_server.runtime.service.ports import (
    KillSwitchUseCases,
    RunUseCases,
    ThreadUseCases,
    WebhookUseCases,
    WorkflowUseCases,
)

_LAST_PORT = 65_535


class AddressRefused(Exception):
    """The server can't listen there: the address is in use, not of this machine, or not allowed."""

    def __init__(self, address: str) -> None:
        super().__init__(
            f"cannot listen on {address}: it is in use, or not an address of this machine. "
            "Stop what listens there, or choose another with --listen."
        )
        self.address = address


@frozen
class Served:
    """What the server serves. `page_key` is random and kept with the data, so that page tokens outlive us."""

    runs: RunUseCases
    threads: ThreadUseCases
    workflows: WorkflowUseCases
    webhooks: WebhookUseCases
    kill_switch: KillSwitchUseCases
    workers: WorkerRegistry
    authenticate: Authenticate
    info: ServerInfo
    connections: ConnectionSource
    clock: Clock
    page_key: bytes


class RpcServer:
    """One server. Start it once, stop it once; between, everything happens in the loop that made it."""

    def __init__(
        self, *, server: grpc.aio.Server, health: Health, streams: OpenStreams, workers: WorkerRegistry
    ) -> None:
        self._server = server
        self._health = health
        self._streams = streams
        self._workers = workers

    async def start(self, address: str) -> str:
        """Listen on `host:port` and serve; returns the address with the real port where it was 0.

        Health says NOT_SERVING until `set_serving`.

        Raises:
            AddressRefused: nothing can listen there.
        """
        host, _, given = address.rpartition(":")
        local = address.startswith("unix:")
        # The transport takes a port beyond the last one for another.
        if not local and not (given.isascii() and given.isdigit() and int(given) <= _LAST_PORT):
            raise AddressRefused(address)
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError:
            raise AddressRefused(address) from None
        await self._health.set_serving(serving=False)
        await self._server.start()
        return address if local else f"{host}:{port}"

    async def set_serving(self, *, serving: bool) -> None:
        """What health says from now on."""
        await self._health.set_serving(serving=serving)

    async def drain(self) -> None:
        """Say NOT_SERVING, and see that every stream ends within a moment, with DRAINING. Calls go on."""
        self._workers.leave(grace_ms=int(CUT_OFF_S * 1000))
        self._streams.drain()
        await self._health.set_serving(serving=False)

    async def stop(self, grace_s: float) -> None:
        """Take no new call, let those that run end within the grace, then cut them off."""
        await self._server.stop(grace_s)


def create_server(served: Served, *, reflection: bool) -> RpcServer:
    """A server that is not listening yet. Call it in the loop that will run it."""
    limits = served.info.limits
    guard = Guard(
        authenticate=served.authenticate,
        streams=StreamLimit(most=limits.principal_streams_count),
        limits=limits,
    )
    server = grpc.aio.server(
        interceptors=(guard,),
        options=_options(limits.message_bytes, limits.connection_streams_count),
    )
    tokens = PageTokens(key=served.page_key)
    open_streams = OpenStreams()
    streams = ProgressStreams(
        runs=served.runs,
        open_streams=open_streams,
        frame_bytes=limits.frame_bytes,
        stall_seconds=limits.stall_seconds,
    )
    runs = RunMethods(runs=served.runs, tokens=tokens, clock=served.clock)
    many = ManyRunsMethods(runs=served.runs, kill_switch=served.kill_switch, tokens=tokens)
    about = ServerMethods(info=served.info, connections=served.connections, kill_switch=served.kill_switch)
    workflows = WorkflowMethods(workflows=served.workflows, tokens=tokens)
    threads = ThreadMethods(threads=served.threads, tokens=tokens)
    webhooks = WebhookMethods(webhooks=served.webhooks, tokens=tokens)
    workers = WorkerStreams(
        registry=served.workers, open_streams=open_streams, limits=limits, version=served.info.version
    )
    server.add_generic_rpc_handlers(
        (
            run_service(runs, many, threads, streams, about),
            workflow_service(workflows),
            webhook_service(webhooks),
            tool_worker_service(workers),
        )
    )
    health = Health(server)
    if reflection:
        add_reflection(server)
    return RpcServer(server=server, health=health, streams=open_streams, workers=served.workers)


def _options(message_bytes: int, streams: int) -> list[tuple[str, int]]:
    """The transport's settings. Without the ping timeout a frozen client would be held for 70 s."""
    return [
        ("grpc.max_receive_message_length", message_bytes),
        ("grpc.max_send_message_length", message_bytes),
        ("grpc.max_concurrent_streams", streams),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.ping_timeout_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.server_handshake_timeout_ms", 5_000),
        ("grpc.so_reuseport", 0),
    ]
