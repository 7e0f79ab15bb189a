"""From a refusal to `google.rpc.Status`: the one table of reasons.

Every status has exactly one ErrorInfo and, by the table, one standard detail. Whatever varies in the message
is in the metadata too. Nothing that grows with a request gets through: the message is at most 1 KiB of
printable ASCII, the details at most 6 KiB.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  # ships its own types
    code_pb2,
    error_details_pb2,
    status_pb2,
)

from jackline.v1 import error_reason_pb2
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import AliasMoved, StoreDamaged, StoreError, StoreFull
from jackline_server.runtime.refusals import Refused, Violation

DOMAIN = "jackline"
MOST_VIOLATIONS = 20
MOST_MESSAGE = 1024
MOST_DETAILS = 6 * 1024
_MOST_TEXT = 256
_PREFIX = "ERROR_REASON_"
_RUN = "jackline.v1.Run"
_REVISION = "jackline.v1.Revision"
_THREAD = "jackline.v1.Thread"


class Detail(Enum):
    """The standard detail that goes with a reason, beside ErrorInfo and RetryInfo."""

    NONE = "none"
    FIELDS = "fields"
    RESOURCE = "resource"
    QUOTA = "quota"
    PRECONDITION = "precondition"
    INCIDENT = "incident"


@frozen
class Rule:
    """One line of the table. `subject` is the metadata key that names what it is about.

    `retry_ms` is when to try again unless the refusal says so; None if waiting does not help by itself.
    """

    code: code_pb2.Code.ValueType
    detail: Detail = Detail.NONE
    subject: str = ""
    kind: str = ""
    retry_ms: int | None = None


def _fields() -> Rule:
    return Rule(code=code_pb2.INVALID_ARGUMENT, detail=Detail.FIELDS)


def _missing(subject: str, kind: str) -> Rule:
    return Rule(code=code_pb2.NOT_FOUND, detail=Detail.RESOURCE, subject=subject, kind=kind)


def _existing(subject: str, kind: str) -> Rule:
    return Rule(code=code_pb2.ALREADY_EXISTS, detail=Detail.RESOURCE, subject=subject, kind=kind)


def _state(subject: str) -> Rule:
    return Rule(code=code_pb2.FAILED_PRECONDITION, detail=Detail.PRECONDITION, subject=subject)


def _quota(retry_ms: int | None) -> Rule:
    return Rule(code=code_pb2.RESOURCE_EXHAUSTED, detail=Detail.QUOTA, retry_ms=retry_ms)


def _unavailable() -> Rule:
    return Rule(code=code_pb2.UNAVAILABLE, retry_ms=1000)


RULES: Mapping[str, Rule] = {
    "MALFORMED_REQUEST": _fields(),
    "INVALID_REQUEST": _fields(),
    "FIELD_TOO_LARGE": _fields(),
    "BOUND_TOO_HIGH": _fields(),
    "PRICE_UNKNOWN": _fields(),
    "BAD_PAGE_TOKEN": _fields(),
    "INVALID_WORKFLOW": _fields(),
    "INVALID_INPUT": _fields(),
    "INVALID_ANSWER": _fields(),
    "PREFIX_MISFIT": _fields(),
    "UNKNOWN_OPTION": _fields(),
    "UNAUTHENTICATED": Rule(code=code_pb2.UNAUTHENTICATED),
    "SCOPE_MISSING": Rule(code=code_pb2.PERMISSION_DENIED),
    "OWN_RUN": Rule(code=code_pb2.PERMISSION_DENIED),
    "WORKER_TOOL_NOT_ALLOWED": Rule(code=code_pb2.PERMISSION_DENIED),
    "RUN_NOT_FOUND": _missing("run_id", _RUN),
    "WORKFLOW_NOT_FOUND": _missing("workflow", _REVISION),
    "INTERRUPT_NOT_FOUND": _missing("interrupt_id", "jackline.v1.Interrupt"),
    "CALL_NOT_FOUND": _missing("call_id", "jackline.v1.ToolCall"),
    "THREAD_NOT_FOUND": _missing("thread_id", _THREAD),
    "WORKER_POOL_NOT_FOUND": _missing("pool", "jackline.v1.WorkerPool"),
    "WEBHOOK_NOT_FOUND": _missing("webhook", "jackline.v1.Webhook"),
    "DELIVERY_NOT_FOUND": _missing("delivery_id", "jackline.v1.WebhookDelivery"),
    "REQUEST_ID_REUSED": _existing("run_id", _RUN),
    "COMMAND_ID_REUSED": _existing("command_id", "jackline.v1.Receipt"),
    "APPEND_ID_REUSED": _existing("thread_id", _THREAD),
    "RUN_TERMINAL": _state("state"),
    "EXPECTATION_FAILED": _state("state"),
    "ALREADY_DECIDED": _state("interrupt_id"),
    "INTERRUPT_EXPIRED": _state("interrupt_id"),
    "ARGUMENTS_CHANGED": _state("interrupt_id"),
    "WRONG_INTERRUPT_KIND": _state("interrupt_id"),
    "CALL_NOT_OPEN": _state("call_id"),
    "BOUND_TOO_LOW": _state("field"),
    "NO_BOUNDED_VISIT": _state("field"),
    "WORKFLOW_OWNED_BY_FILES": _state("workflow"),
    "TOOL_CHANGED": _state("tool"),
    "FORK_POINT": _state("sequence"),
    "THREAD_BUSY": _state("thread_id"),
    "KILL_SWITCH_ENGAGED": _state("since"),
    "DATA_VERSION_NEWER": _state("run_id"),
    "ALIAS_MOVED": Rule(code=code_pb2.ABORTED),
    "WORKER_SESSION_TAKEN": Rule(code=code_pb2.ABORTED),
    "EVENTS_EXPIRED": Rule(code=code_pb2.OUT_OF_RANGE),
    "SEQUENCE_IN_FUTURE": Rule(code=code_pb2.OUT_OF_RANGE),
    "RUN_LIMIT": _quota(1000),
    "STREAM_LIMIT": _quota(1000),
    "COMMAND_LIMIT": _quota(1000),
    "STORE_FULL": _quota(5000),
    "SLOW_CONSUMER": _quota(1000),
    "WORKER_LIMIT": _quota(5000),
    "DRAINING": _unavailable(),
    "STORE_UNAVAILABLE": _unavailable(),
    "CALL_TIMED_OUT": Rule(code=code_pb2.DEADLINE_EXCEEDED),
    "WORKER_SILENT": Rule(code=code_pb2.DEADLINE_EXCEEDED),
    "NOT_SERVED": Rule(code=code_pb2.UNIMPLEMENTED),
    "DATA_LOSS": Rule(code=code_pb2.DATA_LOSS),
    "INTERNAL": Rule(code=code_pb2.INTERNAL, detail=Detail.INCIDENT, subject="incident_id"),
}
"""Every reason that a call can fail with; `TOO_LATE` is only ever a rejection."""

ONLY_REJECTIONS = frozenset({"TOO_LATE"})


def known_reasons() -> frozenset[str]:
    """The names of the contract's reasons, as they go on the wire."""
    names = error_reason_pb2.ErrorReason.keys()
    return frozenset(name.removeprefix(_PREFIX) for name in names if not name.endswith("_UNSPECIFIED"))


def refusal_of(error: StoreError | UnknownFact) -> DoorRefused:
    """What a store's error that no use case caught means to a caller."""
    match error:
        case UnknownFact():
            return DoorRefused(
                DoorReason.DATA_VERSION_NEWER,
                "A newer version of the server wrote this run. Ask a server of that version.",
            )
        case StoreFull():
            return DoorRefused(DoorReason.STORE_FULL, "The store has no room. Try again later.")
        case StoreDamaged():
            return DoorRefused(
                DoorReason.DATA_LOSS, "The store holds less than was committed. Tell the operator."
            )
        case AliasMoved():
            return DoorRefused(
                DoorReason.ALIAS_MOVED,
                "The alias has moved. Read the workflow and try again.",
                metadata={"digest": error.digest or "none"},
            )
        case _:
            return DoorRefused(
                DoorReason.STORE_UNAVAILABLE,
                "The store can't be reached just now. Try again with the same request id.",
            )


def status_of(error: Refused | DoorRefused) -> status_pb2.Status:
    """The status that a caller gets."""
    reason = error.reason.value
    rule = RULES[reason]
    metadata = {key[:64]: _ascii(value, _MOST_TEXT) for key, value in error.metadata.items()}
    violations = error.violations[:MOST_VIOLATIONS]
    truncated = len(error.violations) > MOST_VIOLATIONS
    while True:
        if truncated:
            metadata["truncated"] = "true"
        status = status_pb2.Status(code=rule.code, message=_ascii(error.message, MOST_MESSAGE))
        for detail in _details(error, rule, metadata, violations):
            status.details.add().Pack(detail)
        if status.ByteSize() - len(status.message) <= MOST_DETAILS or not violations:
            return status
        violations, truncated = violations[:-1], True


def _details(
    error: Refused | DoorRefused, rule: Rule, metadata: Mapping[str, str], violations: tuple[Violation, ...]
) -> Iterator[Message]:
    reason = error.reason.value
    yield error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)
    detail = _standard_detail(reason, rule, metadata, violations)
    if detail is not None:
        yield detail
    retry_ms = rule.retry_ms if error.retry_after_ms is None else error.retry_after_ms
    if retry_ms is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(retry_ms)
        yield retry


def _standard_detail(
    reason: str, rule: Rule, metadata: Mapping[str, str], violations: tuple[Violation, ...]
) -> Message | None:
    subject = metadata.get(rule.subject, "")
    match rule.detail:
        case Detail.NONE:
            return None
        case Detail.FIELDS:
            return error_details_pb2.BadRequest(field_violations=[_violation(one) for one in violations])
        case Detail.RESOURCE:
            return error_details_pb2.ResourceInfo(resource_type=rule.kind, resource_name=subject)
        case Detail.QUOTA:
            one = error_details_pb2.QuotaFailure.Violation(
                subject=reason.lower(), description=metadata.get("limit", "")
            )
            return error_details_pb2.QuotaFailure(violations=[one])
        case Detail.PRECONDITION:
            failed = error_details_pb2.PreconditionFailure.Violation(type=reason, subject=subject)
            return error_details_pb2.PreconditionFailure(violations=[failed])
        case Detail.INCIDENT:
            return error_details_pb2.RequestInfo(request_id=subject)


def _violation(one: Violation) -> error_details_pb2.BadRequest.FieldViolation:
    return error_details_pb2.BadRequest.FieldViolation(
        field=_ascii(one.field, _MOST_TEXT),
        description=_ascii(one.description, _MOST_TEXT),
        reason=one.reason,
    )


def _ascii(text: str, most: int) -> str:
    """The text in printable ASCII, cut."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(one if " " <= one <= "~" else "?" for one in text[: most + 1])
    return text if len(text) <= most else text[: most - 3] + "..."
