"""Step kind `grpc`: one call of a method that is still what it was when the workflow was put.

Owns what goes with a call (key, subject, trace, deadline) and what its reply is as a result. Does not own the
channel (`link`).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import grpc.aio
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message

from jackline_server.core import json_text
from jackline_server.core.plan import GrpcAction, JsonObject, JsonValue
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.catalogs import ServerDown
from jackline_server.tools.grpc.interface import Interface, Method
from jackline_server.tools.grpc.link import GrpcLink, Metadata
from jackline_server.tools.grpc.statuses import result_of
from jackline_server.tools.grpc.targets import GrpcTargets
from jackline_server.tools.guards import from_here, is_fair
from jackline_server.tools.http_message import MessageProblem
from jackline_server.tools.pinned_calls import ToolChanged, arguments_of, changed_words, pinned
from jackline_server.tools.results import clean_json, completed, failed, shortened
from jackline_server.tools.trace_context import traceparent

_CATALOG_AGE_S = 60.0
_AT_ONCE_BYTES = 64 * 1024
_MOST_SUBJECT = 4_096
_SHORTEST_SECRET = 6


class GrpcCalls:
    """Calls methods of the operator's gRPC connections."""

    def __init__(self, *, targets: GrpcTargets) -> None:
        self._targets = targets

    async def call(self, action: GrpcAction, invocation: Invocation) -> ToolResult:
        """Make one call. Waits for a slot, and for a connection, first; that counts.

        Raises nothing but CancelledError, upon which the call is cancelled at the server.
        """
        link = self._targets.link(action.connection)
        if link is None:
            return failed(f"There is no gRPC connection {action.connection!r} on this server.")
        if not link.connection.allows(action.method):
            return failed(f"The operator does not allow the method {action.method!r}.")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(invocation.timeout_ms, link.connection.timeout_ms) / 1000
        return await link.guard.run(
            deadline,
            lambda: self._called(link, action, from_here(invocation, deadline), deadline),
            on_wait=invocation.on_wait,
        )

    async def _called(
        self, link: GrpcLink, action: GrpcAction, invocation: Invocation, deadline: float
    ) -> ToolResult:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                interface = await link.interface(max_age_s=_CATALOG_AGE_S)
                tool = pinned(action.method, action.method_digest, interface.catalog)
                method = interface.methods[action.method]
                arguments = arguments_of(action.arguments_json, tool, invocation)
                request = await asyncio.to_thread(_encoded, arguments, method, interface)
                metadata = (*link.metadata, *_metadata(invocation))
                channel = await link.ready(within_s=deadline - loop.time())
        except TimeoutError:
            return failed(
                "The service can't be reached in time; nothing was called.",
                may_pass=True,
                connection_failed=link.refused or is_fair(invocation.timeout_ms, link.connection.timeout_ms),
            )
        except ServerDown as down:
            return failed(
                f"The service can't be reached: {down.brief}.", may_pass=True, connection_failed=True
            )
        except ToolChanged as changed:
            return failed(changed_words(changed))
        except MessageProblem as problem:
            return failed(f"The call can't be made: {problem}.")
        repeatable = invocation.step.effect.repeatable
        unary = cast(Any, channel).unary_unary(
            method.path
        )  # bytes in, bytes out; its types know no such call
        try:
            reply: bytes = await unary(request, metadata=metadata, timeout=max(deadline - loop.time(), 0.001))
        except grpc.aio.AioRpcError as error:
            fair = is_fair(invocation.timeout_ms, link.connection.timeout_ms)
            return result_of(error, _secrets(link), repeatable=repeatable, fair=fair)
        if len(reply) <= _AT_ONCE_BYTES:
            return _result(reply, method, interface, repeatable=repeatable)
        return await asyncio.to_thread(_result, reply, method, interface, repeatable=repeatable)


def _encoded(arguments: JsonObject, method: Method, interface: Interface) -> bytes:
    """The request. Raises MessageProblem for arguments that are none."""
    message: Message = method.request()
    try:
        json_format.ParseDict(arguments, message, descriptor_pool=interface.pool)
        return message.SerializeToString()
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise MessageProblem(f"the arguments do not fit the request: {shortened(str(error))}") from None


def _result(reply: bytes, method: Method, interface: Interface, *, repeatable: bool) -> ToolResult:
    try:
        value: JsonValue = json_format.MessageToDict(
            method.reply.FromString(reply),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=interface.pool,
        )
        return completed(clean_json(json_text.parse(json_text.write(value))))
    except (DecodeError, ValueError, TypeError, RecursionError):
        message = (
            "The service answered with what is not its reply, or holds a message that nobody here knows."
        )
    if repeatable:
        return failed(message)
    return completed(message)  # it did act: whoever asks is told so


def _metadata(invocation: Invocation) -> Metadata:
    """What a service may know of a call. Raises MessageProblem for a subject that is too large."""
    subject: Mapping[str, JsonValue] = invocation.subject
    metadata: list[tuple[str, str | bytes]] = [
        ("idempotency-key", invocation.call_key),
        ("jackline-run-id", invocation.run_id),
        ("jackline-attempt", str(invocation.attempt)),
        ("traceparent", traceparent(invocation)),
    ]
    if subject:
        written = json_text.write(dict(subject)).encode()
        if len(written) > _MOST_SUBJECT:
            raise MessageProblem(
                f"the run's subject has more than {_MOST_SUBJECT} bytes, too many for a call"
            )
        metadata.append(("jackline-subject-bin", written))
    return metadata


def _secrets(link: GrpcLink) -> list[str]:
    parts = {part for value in link.connection.metadata.values() for part in value.reveal().split()}
    return sorted((part for part in parts if len(part) >= _SHORTEST_SECRET), key=len, reverse=True)
