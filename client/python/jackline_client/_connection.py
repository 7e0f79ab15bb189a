"""The way to a server: two channels, the token, the retries.

Owns channel options, metadata and turning failures of unary calls into errors. Does not own what is called.

Streams have a channel of their own. A channel allows a fixed number of calls at once, and whoever holds that
many streams would otherwise wait silently with the next Control. Each channel has its own pool of
connections, or gRPC would put both onto one.
"""

import asyncio
import json
from dataclasses import dataclass
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from jackline.v1.run_service_pb2_grpc import RunServiceStub
from jackline.v1.tool_worker_pb2_grpc import ToolWorkerServiceStub
from jackline.v1.webhook_service_pb2_grpc import WebhookServiceStub
from jackline.v1.workflow_service_pb2_grpc import WorkflowServiceStub
from jackline_client._statuses import in_our_words

# Only calls that change nothing, or that carry an id which makes them idempotent: the library always sets it.
_RETRIED = (
    "GetRun",
    "ListRuns",
    "GetServerInfo",
    "ListConnections",
    "StartRun",
    "ForkRun",
    "Control",
    "BulkControl",
    "KillSwitch",
    "GetKillSwitch",
)
_RETRY_POLICY = {
    "maxAttempts": 4,
    "initialBackoff": "0.2s",
    "maxBackoff": "5s",
    "backoffMultiplier": 2,
    "retryableStatusCodes": ["UNAVAILABLE"],
}
SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": "jackline.v1.RunService", "method": method} for method in _RETRIED],
            "retryPolicy": _RETRY_POLICY,
        }
    ],
    "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
}

_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    ("grpc.service_config_disable_resolution", 1),
    # Above what a server sends, so that an answer is never refused on this side.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # gRPC's own pause between attempts to connect grows to two minutes, long after the server is back.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)

CALLS_AT_ONCE = 96
"""Unary calls that are under way at once; further ones wait. A server refuses more than 128 a connection."""

_Request = TypeVar("_Request", bound=Message)
_Response = TypeVar("_Response", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a server is and what opens it. Without channel credentials the connection is not encrypted."""

    address: str
    token: str | None = None
    channel_credentials: grpc.ChannelCredentials | None = None


class Connection:
    """Both channels to one server.

    Connects on the first call; whoever made it closes it. Needs a running event loop.
    """

    def __init__(self, *, endpoint: Endpoint) -> None:
        """Prepares the channels; nothing is sent yet."""
        self.address = endpoint.address
        self.metadata = grpc.aio.Metadata(
            *((("authorization", f"Bearer {endpoint.token}"),) if endpoint.token else ())
        )
        self._channels = (open_channel(endpoint), open_channel(endpoint))
        self._room = asyncio.Semaphore(CALLS_AT_ONCE)
        unary, streams = self._channels
        self.runs = RunServiceStub(unary)
        self.workflows = WorkflowServiceStub(unary)
        self.workers = ToolWorkerServiceStub(unary)
        self.webhooks = WebhookServiceStub(unary)
        self.streams = RunServiceStub(streams)

    async def call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        *,
        timeout_s: float,
        is_long: bool = False,
    ) -> _Response:
        """Makes one unary call of at most `timeout_s` seconds, once there is room for it on the channel.

        `is_long` is for calls that wait on purpose: they take no room from the others. Raises CallError;
        cancelling it cancels the call.
        """
        if is_long:
            return await self._call(method, request, timeout_s)
        async with self._room:
            return await self._call(method, request, timeout_s)

    async def _call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[_Request, _Response],
        request: _Request,
        timeout_s: float,
    ) -> _Response:
        with in_our_words():
            return await method(request, timeout=timeout_s, metadata=self.metadata)

    async def close(self) -> None:
        """Ends all calls and closes both channels. May be repeated."""
        for channel in self._channels:
            await channel.close()


def open_channel(endpoint: Endpoint) -> grpc.aio.Channel:
    """A channel, which whoever asked closes. Connects on the first call; needs a running event loop."""
    if endpoint.channel_credentials is None:
        return grpc.aio.insecure_channel(endpoint.address, options=_OPTIONS)
    return grpc.aio.secure_channel(endpoint.address, endpoint.channel_credentials, options=_OPTIONS)
