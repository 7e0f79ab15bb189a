"""The one outermost interceptor: nothing reaches a handler, and nothing leaves it, but through here.

Order: credential, permission of the method, bytes, permission of the request, handler. It wraps the
deserializer together with the handler, and stands in for methods that do not exist. How a call ends is in
`answers`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from jackline.v1 import control_pb2, run_service_pb2
from jackline_server.api.limits import Limits
from jackline_server.api.methods import METHODS, MethodRule, check_method, check_request, check_size
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.identity.principals import Principal
from jackline_server.rpc.answers import answer
from jackline_server.rpc.calls import Call, Context, Transport
from jackline_server.rpc.stream_limit import StreamLimit

Authenticate = Callable[[str], Principal | None]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in the stubs only

_BEARER = "bearer "
_OWN = "/jackline.v1."
_ANYBODY = ""


class Guard(grpc.aio.ServerInterceptor):
    """Wraps every handler of the server, and stands in for those that do not exist."""

    def __init__(self, *, authenticate: Authenticate, streams: StreamLimit, limits: Limits) -> None:
        self._authenticate = authenticate
        self._streams = streams
        self._limits = limits

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Awaitable[Handler | None]"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Wrap the handler with its deserializer."""
        method = str(handler_call_details.method)
        rule = METHODS.get(method)
        handler = await continuation(handler_call_details)
        if handler is None or rule is None:
            return self._unknown(method)
        kept = _Kept(
            method=method,
            rule=rule,
            handler=handler,
            authenticate=self._authenticate,
            streams=self._streams,
            limits=self._limits,
        )
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(kept.unary)
        if handler.unary_stream is not None:
            return grpc.unary_stream_rpc_method_handler(kept.unary_stream)
        if handler.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(kept.stream_stream)
        return self._unknown(method)

    def _unknown(self, method: str) -> Handler:
        async def refuse(_requests: AsyncIterator[bytes], context: Context) -> None:
            async def work() -> None:
                let_in(self._authenticate, context)
                raise DoorRefused(
                    DoorReason.NOT_SERVED,
                    "This server has no such method. See GetServerInfo for what it serves.",
                    metadata={"field": method},
                )

            await answer(method, context, work)

        # A handler of streams fits a call of any kind: it refuses before it reads.
        return grpc.stream_stream_rpc_method_handler(refuse)


def let_in(authenticate: Authenticate, context: Context) -> Principal:
    """Who calls. Raises DoorRefused (UNAUTHENTICATED), with one text for every cause."""
    given = [
        value
        for key, value in context.invocation_metadata() or ()
        if key == "authorization" and isinstance(value, str)
    ]
    principal = None
    if len(given) == 1 and given[0][: len(_BEARER)].lower() == _BEARER:
        principal = authenticate(given[0][len(_BEARER) :].strip())
    if principal is None:
        raise DoorRefused(
            DoorReason.UNAUTHENTICATED,
            "The credential is missing, wrong or expired. Send `authorization: Bearer <token>`.",
        )
    return principal


class _Kept:
    """One handler behind the guard. Ours are given the call, those of libraries its context."""

    __slots__ = ("_authenticate", "_handler", "_limits", "_method", "_rule", "_streams")

    def __init__(  # all of the guard, and one handler
        self,
        *,
        method: str,
        rule: MethodRule,
        handler: Handler,
        authenticate: Authenticate,
        streams: StreamLimit,
        limits: Limits,
    ) -> None:
        self._method = method
        self._rule = rule
        self._handler = handler
        self._authenticate = authenticate
        self._streams = streams
        self._limits = limits

    async def unary(self, data: bytes, context: Context) -> bytes:
        """One request, one response."""

        async def work() -> bytes:
            principal = self._admit(context)
            request = self._parse(data, principal)
            behavior: Any = self._handler.unary_unary
            timer = asyncio.timeout(self._cap(request))
            try:
                async with timer:
                    response: Message = await behavior(request, self._second(principal, context))
            except TimeoutError:
                if timer.expired():
                    raise self._timed_out() from None
                raise
            return self._packed(response)

        return await answer(self._method, context, work)

    async def unary_stream(self, data: bytes, context: Context) -> None:
        """One request, many responses, which the handler writes itself."""

        async def work() -> None:
            principal = self._admit(context)
            request = self._parse(data, principal)
            behavior: Any = self._handler.unary_stream
            write = context if principal is not None else _Packing(context)
            with self._streams.take(_key(principal)):
                await behavior(request, self._second(principal, write))

        await answer(self._method, context, work)

    async def stream_stream(self, requests: AsyncIterator[bytes], context: Context) -> None:
        """Many of both. Ours writes its responses itself; the handler of a library is a generator."""

        async def parsed() -> AsyncIterator[Message]:
            async for data in requests:
                yield self._parse(data, None)

        async def work() -> None:
            principal = self._admit(context)
            behavior: Any = self._handler.stream_stream
            with self._streams.take(_key(principal)):
                if principal is not None and self._method.startswith(_OWN):
                    await behavior(parsed(), self._second(principal, context))
                    return
                async for response in behavior(parsed(), context):
                    await context.write(response.SerializeToString())

        await answer(self._method, context, work)

    def _admit(self, context: Context) -> Principal | None:
        """Who calls, if that matters. Raises DoorRefused (UNAUTHENTICATED, SCOPE_MISSING)."""
        if self._rule.public:
            return None
        principal = let_in(self._authenticate, context)
        check_method(principal, self._rule)
        return principal

    def _parse(self, data: bytes, principal: Principal | None) -> Message:
        """The request. Raises DoorRefused (FIELD_TOO_LARGE, MALFORMED_REQUEST, SCOPE_MISSING)."""
        check_size(self._rule, len(data))
        deserialize: Any = self._handler.request_deserializer
        try:
            request: Message = deserialize(data)
        except DecodeError:
            raise DoorRefused(
                DoorReason.MALFORMED_REQUEST,
                "The bytes are not a message of the method's type. Send what the contract says.",
            ) from None
        if principal is not None:
            check_request(principal, request)
        return request

    def _second(self, principal: Principal | None, context: Transport) -> Transport:
        if principal is not None and self._method.startswith(_OWN):
            return Call(method=self._method, principal=principal, context=context)
        return context

    def _cap(self, request: Message) -> int | None:
        if not self._rule.capped:
            return None
        if isinstance(request, run_service_pb2.ControlRequest) and request.wait in _WAITING_STAGES:
            return None
        return self._limits.call_seconds

    def _timed_out(self) -> DoorRefused:
        return DoorRefused(
            DoorReason.CALL_TIMED_OUT,
            f"The call took longer than {self._limits.call_seconds} s. Try again with the same request id.",
        )

    def _packed(self, response: Message) -> bytes:
        data = response.SerializeToString()
        if len(data) > self._limits.message_bytes:
            raise DoorRefused(
                DoorReason.FIELD_TOO_LARGE,
                "The answer is larger than a message may be. Ask for the view METADATA or a smaller page.",
                metadata={
                    "field": "view",
                    "size": str(len(data)),
                    "limit": str(self._limits.message_bytes),
                },
            )
        return data


_WAITING_STAGES = frozenset({control_pb2.RECEIPT_STAGE_EFFECTIVE, control_pb2.RECEIPT_STAGE_SETTLED})


class _Packing:
    """The context for a library's stream, which writes messages where our serializer is the identity."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def write(self, message: Message) -> None:
        """Write one message."""
        await self._context.write(message.SerializeToString())


def _key(principal: Principal | None) -> str:
    return _ANYBODY if principal is None else f"{principal.tenant.id}\0{principal.name}"
