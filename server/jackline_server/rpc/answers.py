"""How a call ends: whatever its work raises becomes a status with details, and every answer is named.

Everything but a refusal is INTERNAL with an incident id; its text stays in the log. A cancelled call is the
transport's doing and goes on as such; a CancelledError out of work that nobody cancelled would leave the
caller hanging, so it is a bug like any other.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.api.statuses import refusal_of, status_of
from jackline_server.rpc.calls import Context, remaining_ms
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.runtime.refusals import Refused

T = TypeVar("T")

_REQUEST_ID_KEY = "x-request-id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}

_log = logging.getLogger(__name__)


async def answer(method: str, context: Context, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work of one call; end the call with a status if it can't be done."""
    request_id = _request_id(context)
    context.set_trailing_metadata(((_REQUEST_ID_KEY, request_id),))
    try:
        _refuse_late(context)
        return await work()
    except (Refused, DoorRefused) as error:
        refused = error
    except (StoreError, UnknownFact) as error:
        _log.warning(
            "store_refused",
            extra={"method": method, "request_id": request_id, "error": type(error).__name__},
        )
        refused = refusal_of(error)
    except grpc.aio.AbortError:
        raise  # the handler has answered by itself
    except grpc.aio.InternalError:
        # A write to a caller that is gone can fail before the cancellation comes; it means the same.
        raise asyncio.CancelledError from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        refused = _bug(method, request_id)
    except Exception:  # noqa: BLE001  # where a call ends: no text of it may reach the caller
        refused = _bug(method, request_id)
    status = status_of(refused)
    details = ("grpc-status-details-bin", status.SerializeToString())
    return await context.abort(_CODES[status.code], status.message, (details, (_REQUEST_ID_KEY, request_id)))


def _refuse_late(context: Context) -> None:
    left = remaining_ms(context)
    if left is not None and left <= 0:
        raise DoorRefused(DoorReason.CALL_TIMED_OUT, "The call's time was over before it began.")


def _request_id(context: Context) -> str:
    """The caller's own name for the call, if it is one that can be logged, or a new one."""
    for key, value in context.invocation_metadata() or ():
        if key == _REQUEST_ID_KEY and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return secrets.token_hex(16)


def _bug(method: str, request_id: str) -> DoorRefused:
    """Log the exception in hand under a fresh incident id, and say no more than that."""
    incident = secrets.token_hex(8)
    _log.exception("call_failed", extra={"method": method, "request_id": request_id, "incident_id": incident})
    return DoorRefused(
        DoorReason.INTERNAL,
        f"The server has met a bug, incident {incident}. Tell the operator; its log says more.",
        metadata={"incident_id": incident},
    )
