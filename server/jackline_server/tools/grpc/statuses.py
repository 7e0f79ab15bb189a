"""What a status says about whether the server acted, and whether the same call may succeed later.

The table is that of gRPC's own guide, read as HTTP's statuses are read for step kind `http`: a refusal is the
server's word that it did nothing; where it failed, or the connection did, nobody knows.
"""

from collections.abc import Iterable

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from jackline_server.runtime.ports.tools import ToolResult
from jackline_server.tools.results import clean_text, failed

_Code = grpc.StatusCode
_REFUSALS = frozenset(
    {
        _Code.INVALID_ARGUMENT,
        _Code.NOT_FOUND,
        _Code.ALREADY_EXISTS,
        _Code.PERMISSION_DENIED,
        _Code.UNAUTHENTICATED,
        _Code.FAILED_PRECONDITION,
        _Code.OUT_OF_RANGE,
        _Code.UNIMPLEMENTED,
        _Code.ABORTED,
        _Code.RESOURCE_EXHAUSTED,
    }
)
_PASSING = frozenset({_Code.UNAVAILABLE, _Code.ABORTED, _Code.RESOURCE_EXHAUSTED})
_DOWN = frozenset({_Code.UNAVAILABLE, _Code.INTERNAL, _Code.UNKNOWN, _Code.DATA_LOSS})
"""What is the service's own failure, as an HTTP status from 500 is."""

_DETAILS = "grpc-status-details-bin"
_TOO_LARGE = "larger than max"
_EXCERPT = 1_000
_MASK = "***"


def result_of(
    error: grpc.aio.AioRpcError, secrets: Iterable[str], *, repeatable: bool, fair: bool
) -> ToolResult:
    """The result of a call that ended with this status. `fair`: it had so much time as a service may need."""
    code, details = error.code(), error.details() or ""
    too_large = code is _Code.RESOURCE_EXHAUSTED and _TOO_LARGE in details
    if code is _Code.DEADLINE_EXCEEDED:
        return failed(
            "The service did not answer in time.",
            uncertain=not repeatable,
            timed_out=True,
            connection_failed=fair,
        )
    if too_large:
        return failed("The service's reply is larger than 8 MiB.", uncertain=not repeatable)
    for secret in secrets:
        details = details.replace(secret, _MASK)
    said = clean_text(details[:_EXCERPT]).strip()
    return failed(
        f"The service answered {code.name}: {said}" if said else f"The service answered {code.name}.",
        uncertain=code not in _REFUSALS and not repeatable,
        may_pass=code in _PASSING,
        connection_failed=code in _DOWN and f"The service answered {code.name}.",
        retry_after_ms=_retry_after_ms(error),
    )


def _retry_after_ms(error: grpc.aio.AioRpcError) -> int | None:
    """What the service asks to wait, if it says so in its details."""
    for name, value in error.trailing_metadata() or ():
        if name != _DETAILS or not isinstance(value, bytes):
            continue
        try:
            status = Status.FromString(value)
        except ValueError:
            return None
        for detail in status.details:
            info = RetryInfo()
            if detail.Unpack(info):
                return max(info.retry_delay.ToMilliseconds(), 0)
    return None
