"""How the service says no.

Owns the reasons that a use case can refuse with. Their names are those of the contract's `ErrorReason`; the
doors hold the one table that maps a reason to a status.
"""

from collections.abc import Mapping
from enum import Enum

from jackline_server.core.frozen import frozen


class Reason(Enum):
    """Why a use case was refused; the value is the reason's name on the wire."""

    INVALID_REQUEST = "INVALID_REQUEST"
    FIELD_TOO_LARGE = "FIELD_TOO_LARGE"
    BOUND_TOO_HIGH = "BOUND_TOO_HIGH"
    BOUND_TOO_LOW = "BOUND_TOO_LOW"
    NO_BOUNDED_VISIT = "NO_BOUNDED_VISIT"
    PRICE_UNKNOWN = "PRICE_UNKNOWN"
    OWN_RUN = "OWN_RUN"
    INVALID_WORKFLOW = "INVALID_WORKFLOW"
    INVALID_INPUT = "INVALID_INPUT"
    INVALID_ANSWER = "INVALID_ANSWER"
    PREFIX_MISFIT = "PREFIX_MISFIT"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    WORKFLOW_NOT_FOUND = "WORKFLOW_NOT_FOUND"
    INTERRUPT_NOT_FOUND = "INTERRUPT_NOT_FOUND"
    CALL_NOT_FOUND = "CALL_NOT_FOUND"
    THREAD_NOT_FOUND = "THREAD_NOT_FOUND"
    REQUEST_ID_REUSED = "REQUEST_ID_REUSED"
    COMMAND_ID_REUSED = "COMMAND_ID_REUSED"
    APPEND_ID_REUSED = "APPEND_ID_REUSED"
    RUN_TERMINAL = "RUN_TERMINAL"
    EXPECTATION_FAILED = "EXPECTATION_FAILED"
    ALREADY_DECIDED = "ALREADY_DECIDED"
    INTERRUPT_EXPIRED = "INTERRUPT_EXPIRED"
    UNKNOWN_OPTION = "UNKNOWN_OPTION"
    CALL_NOT_OPEN = "CALL_NOT_OPEN"
    ARGUMENTS_CHANGED = "ARGUMENTS_CHANGED"
    WRONG_INTERRUPT_KIND = "WRONG_INTERRUPT_KIND"
    WORKFLOW_OWNED_BY_FILES = "WORKFLOW_OWNED_BY_FILES"
    DATA_VERSION_NEWER = "DATA_VERSION_NEWER"
    TOOL_CHANGED = "TOOL_CHANGED"
    FORK_POINT = "FORK_POINT"
    THREAD_BUSY = "THREAD_BUSY"
    KILL_SWITCH_ENGAGED = "KILL_SWITCH_ENGAGED"
    ALIAS_MOVED = "ALIAS_MOVED"
    EVENTS_EXPIRED = "EVENTS_EXPIRED"
    SEQUENCE_IN_FUTURE = "SEQUENCE_IN_FUTURE"
    RUN_LIMIT = "RUN_LIMIT"
    COMMAND_LIMIT = "COMMAND_LIMIT"
    STORE_FULL = "STORE_FULL"
    SLOW_CONSUMER = "SLOW_CONSUMER"
    DRAINING = "DRAINING"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    DATA_LOSS = "DATA_LOSS"
    WORKER_TOOL_NOT_ALLOWED = "WORKER_TOOL_NOT_ALLOWED"
    WORKER_POOL_NOT_FOUND = "WORKER_POOL_NOT_FOUND"
    WORKER_SESSION_TAKEN = "WORKER_SESSION_TAKEN"
    WORKER_LIMIT = "WORKER_LIMIT"
    WEBHOOK_NOT_FOUND = "WEBHOOK_NOT_FOUND"
    DELIVERY_NOT_FOUND = "DELIVERY_NOT_FOUND"


@frozen
class Violation:
    """One field that breaks a rule. `field` is its path in the request, as the contract spells it."""

    field: str
    description: str
    reason: str


class Refused(Exception):
    """A use case was refused; nothing was changed.

    `message` is one sentence on what is wrong and one on what to do, printable ASCII. What varies in it
    is in `metadata` too. `retry_after_ms` is set if waiting helps.
    """

    def __init__(
        self,
        reason: Reason,
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
