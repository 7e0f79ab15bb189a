"""Asking a server what it serves: gRPC server reflection, in its first version and the alpha before it.

Owns the questions and their caps. Both versions have the same messages under another name.
"""

from collections.abc import Collection, Sequence
from typing import Any

import grpc
import grpc.aio
from grpc_reflection.v1alpha import reflection_pb2

from jackline_server.tools.grpc.interface import MAX_BYTES, MAX_FILES, BadDescriptors, read_file

_VERSIONS = ("v1", "v1alpha")
_MAX_SERVICES = 200
_messages: Any = reflection_pb2  # the package has no types
Metadata = Sequence[tuple[str, str | bytes]]


async def reflected(
    channel: grpc.aio.Channel, metadata: Metadata, services: Collection[str] | None, *, timeout_s: float
) -> list[bytes]:
    """The files of descriptors of these services, of all without a word.

    Raises:
        BadDescriptors: the server has no reflection, or what it says can't be used.
        AioRpcError: it can't be asked.
    """
    for version in _VERSIONS:
        try:
            return await _asked(channel, version, metadata, services, timeout_s)
        except grpc.aio.AioRpcError as error:
            # A question that is sent while the server says UNIMPLEMENTED fails on our side, as INTERNAL.
            is_last = version == _VERSIONS[-1]
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED and (
                is_last or error.code() is not grpc.StatusCode.INTERNAL
            ):
                raise
    raise BadDescriptors("it has no server reflection; set `descriptors` to a file descriptor set")


async def _asked(
    channel: grpc.aio.Channel,
    version: str,
    metadata: Metadata,
    services: Collection[str] | None,
    timeout_s: float,
) -> list[bytes]:
    stream: Any = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=_messages.ServerReflectionRequest.SerializeToString,
        response_deserializer=_messages.ServerReflectionResponse.FromString,
    )
    call = stream(metadata=metadata, timeout=timeout_s)
    try:
        return await _Questions(call).files(services)
    finally:
        call.cancel()


class _Questions:
    """One stream of questions and answers."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401 - a call of the untyped messages
        self._call = call
        self._files: dict[str, bytes] = {}
        self._missing: list[str] = []
        self._bytes = 0

    async def files(self, services: Collection[str] | None) -> list[bytes]:
        for service in await self._services() if services is None else sorted(services):
            await self._take(_messages.ServerReflectionRequest(file_containing_symbol=service))
        while self._missing:
            name = self._missing.pop()
            if name not in self._files:
                await self._take(_messages.ServerReflectionRequest(file_by_filename=name), optional=name)
        return list(self._files.values())

    async def _services(self) -> list[str]:
        answer = await self._answer(_messages.ServerReflectionRequest(list_services="*"))
        found = [str(one.name) for one in answer.list_services_response.service]
        if len(found) > _MAX_SERVICES:
            raise BadDescriptors(f"it has more than {_MAX_SERVICES} services; name some methods in `allow`")
        return [one for one in found if not one.startswith("grpc.")]

    async def _take(self, request: Any, *, optional: str = "") -> None:  # noqa: ANN401 - see above
        answer = await self._answer(request)
        if answer.HasField("error_response"):
            if optional.startswith("google/protobuf/"):
                return  # every client has these by itself
            raise BadDescriptors("it does not describe what it serves, or what its methods import")
        for data in answer.file_descriptor_response.file_descriptor_proto:
            proto = read_file(bytes(data))
            if proto.name in self._files:
                continue
            self._files[proto.name] = bytes(data)
            self._bytes += len(data)
            self._missing += [one for one in proto.dependency if one not in self._files]
        if len(self._files) > MAX_FILES or self._bytes > MAX_BYTES:
            raise BadDescriptors("it describes more than can be read; name some methods in `allow`")

    async def _answer(self, request: Any) -> Any:  # noqa: ANN401 - see above
        await self._call.write(request)
        answer = await self._call.read()
        if answer is grpc.aio.EOF:
            raise BadDescriptors("it ended the stream of its reflection")
        return answer
