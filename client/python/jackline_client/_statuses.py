"""From a gRPC error to the error tree.

Owns reading `google.rpc.Status` out of trailing metadata. Does not own the classes (`errors`).
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]  # ships its own types

from jackline_client.errors import CallError, Cancelled, ErrorDetails, FieldViolation, make_call_error

_DOMAIN = "jackline"
_DETAILS_KEY = "grpc-status-details-bin"


def error_from_rpc(error: grpc.aio.AioRpcError) -> CallError:
    """Turns a failed call into an error of the tree.

    Details that can't be read are left out, never raised.
    """
    code = error.code().name
    message = error.details() or f"the call ended with {code}"
    return make_call_error(message, code=code, details=_details(error))


@contextmanager
def in_our_words() -> Generator[None]:
    """Turns whatever a call, or a stream of one, ends with into an error of the tree.

    A call that the other side cancelled looks to grpc.aio as if this task was cancelled: that becomes an
    error too, while a task that is really being cancelled stays so.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise error_from_rpc(error) from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        raise Cancelled("the server cancelled the call") from None


def _details(error: grpc.aio.AioRpcError) -> ErrorDetails:
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                return _read(status_pb2.Status.FromString(value))
            except DecodeError:
                break
    return ErrorDetails()


def _read(status: status_pb2.Status) -> ErrorDetails:
    info = error_details_pb2.ErrorInfo()
    bad = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    request = error_details_pb2.RequestInfo()
    found = {
        message.DESCRIPTOR.full_name
        for packed in status.details
        for message in (info, bad, retry, request)
        if packed.Unpack(message)
    }
    if info.domain != _DOMAIN:
        info.Clear()
    return ErrorDetails(
        reason=info.reason,
        metadata=dict(info.metadata),
        field_violations=tuple(
            FieldViolation(field=one.field, description=one.description, reason=one.reason)
            for one in bad.field_violations
        ),
        retry_after_s=_seconds(retry) if retry.DESCRIPTOR.full_name in found else None,
        request_id=request.request_id,
    )


def _seconds(retry: error_details_pb2.RetryInfo) -> float:
    return retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
