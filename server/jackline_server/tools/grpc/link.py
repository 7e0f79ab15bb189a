"""One connection: its channel, made on first use, and what is served there.

Owns how old that knowledge may be, and that a call is sent only over a connection that is there. Does not own
what an answer means (`tool`).
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import grpc
import grpc.aio

from jackline_server.plain_files import read_regular
from jackline_server.runtime.pinned_tools import Catalog
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionState, ConnectionView
from jackline_server.runtime.ports.grpc import GrpcConnection, GrpcTls
from jackline_server.tools.catalogs import ServerDown
from jackline_server.tools.grpc.interface import (
    MAX_BYTES,
    BadDescriptors,
    Interface,
    files_of_set,
    interface_of,
)
from jackline_server.tools.grpc.reflection import reflected
from jackline_server.tools.guards import Guard
from jackline_server.tools.results import HARD_BYTES

Metadata = Sequence[tuple[str, str | bytes]]

_CONNECT_S = 5.0
_NOBODY = "nobody answers there, or the two do not agree on TLS"
_MOST_CERTIFICATE = 1024 * 1024
_OPTIONS = (
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", HARD_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 2_000),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


class GrpcLink:
    """A connection of the config. Safe to use from any task of one event loop."""

    def __init__(self, connection: GrpcConnection) -> None:
        self.connection = connection
        self.guard = Guard(connection)
        self.known: Catalog | None = None
        self.problem = "it was not asked yet"
        self.refused = False
        """Whether nobody has answered there since the last connection, however short the time was."""
        self.metadata: Metadata = tuple((name, value.reveal()) for name, value in connection.metadata.items())
        self._channel: grpc.aio.Channel | None = None
        self._interface: Interface | None = None
        self._files: tuple[bytes, ...] = ()
        self._listing = asyncio.Lock()
        self._listed_at = 0.0
        self._closed = False

    async def catalog(self, *, max_age_s: float) -> Catalog:
        """What is served, as it is now or was at most so long ago.

        Raises:
            ServerDown: it can't be asked, or its descriptors can't be used.
        """
        return (await self.interface(max_age_s=max_age_s)).catalog

    async def interface(self, *, max_age_s: float) -> Interface:
        """The same, with what calls are made of. Raises ServerDown."""
        async with self._listing:
            now = asyncio.get_running_loop().time()
            if self._interface is not None and now - self._listed_at <= max_age_s:
                return self._interface
            try:
                files = tuple(await self._asked())
                if self._interface is None or files != self._files:
                    self._interface = await asyncio.to_thread(interface_of, files)
                    self._files = files
            except BadDescriptors as problem:
                raise self._down(str(problem)) from None
            except grpc.aio.AioRpcError as error:
                raise self._down(
                    f"it answered {error.code().name} when it was asked what it serves"
                ) from None
            self._listed_at, self.known = now, self._interface.catalog
            return self._interface

    async def ready(self, *, within_s: float) -> grpc.aio.Channel:
        """The channel, with a connection behind it. Raises ServerDown: then nothing was sent."""
        channel = await self._open()
        seen = False
        try:
            async with asyncio.timeout(min(within_s, _CONNECT_S)):
                while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
                    failing = state is grpc.ChannelConnectivity.TRANSIENT_FAILURE
                    self.refused = self.refused or failing
                    if seen and failing:
                        raise self._down(_NOBODY)
                    seen = seen or state is grpc.ChannelConnectivity.CONNECTING
                    await channel.wait_for_state_change(state)
        except TimeoutError:
            raise self._down(_NOBODY if self.refused else "it did not answer in time") from None
        self.refused = False
        return channel

    def view(self) -> ConnectionView:
        """How it does now. One that nobody has used for a while is connected to by the next call."""
        state, problem = ConnectionState.UNUSED, ""
        channel = None if self._channel is None else self._channel.get_state()
        if channel is grpc.ChannelConnectivity.CONNECTING:
            state = ConnectionState.STARTING
        elif channel is grpc.ChannelConnectivity.TRANSIENT_FAILURE or self.refused:
            state, problem = ConnectionState.FAILED, self.problem
        elif channel is grpc.ChannelConnectivity.READY or self._interface is not None:
            state = ConnectionState.READY
        return self.guard.view(ConnectionKind.GRPC, state=state, problem=problem)

    async def close(self) -> None:
        """End the channel, and make no other. Calls under way end."""
        self._closed = True
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def _asked(self) -> list[bytes]:
        file = self.connection.descriptors
        if file is not None:
            return files_of_set(await asyncio.to_thread(self._read, file))
        timeout_s = self.connection.start_timeout_ms / 1000
        channel = await self.ready(within_s=timeout_s)
        allow = self.connection.allow
        services = None if allow is None else {one.rpartition("/")[0] for one in allow}
        return await reflected(channel, self.metadata, services, timeout_s=timeout_s)

    def _read(self, file: Path) -> bytes:
        try:
            data = read_regular(file, most_bytes=MAX_BYTES)
        except OSError as error:
            raise BadDescriptors(
                f"its file of descriptors {file.name} can't be read ({error.strerror})"
            ) from None
        if len(data) > MAX_BYTES:
            raise BadDescriptors(f"its file of descriptors {file.name} is larger than {MAX_BYTES} bytes")
        return data

    async def _open(self) -> grpc.aio.Channel:
        if self._closed:
            raise self._down("this server is going down")
        if self._channel is None:
            made = await self._made()
            if self._channel is None:
                self._channel = made
            else:  # another call was quicker
                await made.close()
        return self._channel

    async def _made(self) -> grpc.aio.Channel:
        target, tls = self.connection.target, self.connection.tls
        if tls is None:
            return grpc.aio.insecure_channel(target, options=_OPTIONS)
        try:
            credentials = await asyncio.to_thread(_credentials, tls)
        except (OSError, ValueError) as error:
            raise self._down(f"its certificates can't be read ({type(error).__name__})") from None
        return grpc.aio.secure_channel(target, credentials, options=_OPTIONS)

    def _down(self, problem: str) -> ServerDown:
        self.problem = problem
        return ServerDown(problem)


def _credentials(tls: GrpcTls) -> grpc.ChannelCredentials:
    """Raises OSError for a file that can't be read."""
    return grpc.ssl_channel_credentials(
        root_certificates=_pem(tls.roots), private_key=_pem(tls.key), certificate_chain=_pem(tls.certificate)
    )


def _pem(path: Path | None) -> bytes | None:
    return None if path is None else read_regular(path, most_bytes=_MOST_CERTIFICATE)
