"""How a door says no before, or without, asking a use case.

    DoorRefused           one of the reasons below
    runtime's Refused     the reasons of the use cases

Both have the same shape; `statuses` turns either into a status.
"""

from collections.abc import Mapping
from enum import Enum

from jackline_server.runtime.refusals import Violation


class DoorReason(Enum):
    """Why a door refused; the value is the reason's name on the wire."""

    MALFORMED_REQUEST = "MALFORMED_REQUEST"
    INVALID_REQUEST = "INVALID_REQUEST"
    FIELD_TOO_LARGE = "FIELD_TOO_LARGE"
    BAD_PAGE_TOKEN = "BAD_PAGE_TOKEN"  # noqa: S105  # a name, not a secret
    UNAUTHENTICATED = "UNAUTHENTICATED"
    SCOPE_MISSING = "SCOPE_MISSING"
    WORKER_SILENT = "WORKER_SILENT"
    STREAM_LIMIT = "STREAM_LIMIT"
    SLOW_CONSUMER = "SLOW_CONSUMER"
    DRAINING = "DRAINING"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    STORE_FULL = "STORE_FULL"
    ALIAS_MOVED = "ALIAS_MOVED"
    DATA_VERSION_NEWER = "DATA_VERSION_NEWER"
    DATA_LOSS = "DATA_LOSS"
    CALL_TIMED_OUT = "CALL_TIMED_OUT"
    NOT_SERVED = "NOT_SERVED"
    INTERNAL = "INTERNAL"


class DoorRefused(Exception):
    """A call was refused at the door. `message` is one sentence on what is wrong and one on what to do."""

    def __init__(
        self,
        reason: DoorReason,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: tuple[Violation, ...] = (),
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = violations
        self.retry_after_ms = retry_after_ms
