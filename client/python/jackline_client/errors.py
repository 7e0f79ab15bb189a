"""The error tree: a class for each status code, below it one for each reason of `jackline.v1.ErrorReason`.

Owns what a caller catches. Does not own reading the errors off the wire (`_statuses`), nor gRPC.

    JacklineError
    ├── CredentialError            a token that can't be used
    ├── AddressError               what names a server and can't
    ├── StreamCut                  a stream that ended before the run did and could not be resumed
    │   └── SequenceBroken         a stream with a hole, a repeated event or an event after the last one
    └── CallError                  the server, or the way to it, refused a call
        ├── InvalidArgument        MalformedRequest, InvalidRequest, FieldTooLarge, BoundTooHigh, …
        ├── NotFound               RunNotFound, WorkflowNotFound, …
        └── …                      one class a status code, then one a reason
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


class JacklineError(Exception):
    """Whatever this library raises."""


class CredentialError(JacklineError):
    """A token was named and can't be used: not readable, readable by others, empty, not printable ASCII."""


class AddressError(JacklineError):
    """What is to name a server can't be used, such as an address that is not of the form `host:port`."""


class StreamCut(JacklineError):
    """A stream ended before the run did, and resuming it did not help. Says nothing about the run itself.

    `sent_through` is the last event handed out: pass it as `after_sequence` to go on later.
    """

    def __init__(self, message: str, *, run_id: str, sent_through: int) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.sent_through = sent_through


class SequenceBroken(StreamCut):
    """The server sent a hole, an event twice, or an event after the last one.

    Nothing of that frame was handed out.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldViolation:
    """One field that breaks its rule."""

    field: str
    description: str
    reason: str = ""


def _no_metadata() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDetails:
    """What came with an error besides its code and message.

    All empty if the transport made it, not our server.
    """

    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=_no_metadata)
    field_violations: tuple[FieldViolation, ...] = ()
    retry_after_s: float | None = None
    request_id: str = ""


class CallError(JacklineError):
    """A call that was not answered with OK.

    `code` is the name of the status code, `reason` that of the ErrorReason without its prefix and empty if
    the error was not made by a Jackline server; `metadata` holds what varies, under the keys that the reason
    documents.
    """

    status: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, *, code: str = "", details: ErrorDetails | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.status
        self.details = details or ErrorDetails()

    @property
    def reason(self) -> str:
        """The reason's name, such as `RUN_NOT_FOUND`; empty if the transport made the error."""
        return self.details.reason

    @property
    def metadata(self) -> Mapping[str, str]:
        """What varies in the message, by the keys that the reason documents."""
        return self.details.metadata

    @property
    def field_violations(self) -> tuple[FieldViolation, ...]:
        """The fields that break their rules, for InvalidArgument."""
        return self.details.field_violations

    @property
    def retry_after_s(self) -> float | None:
        """Seconds to wait before trying again; None if waiting does not help or nobody said."""
        return self.details.retry_after_s


# One class a status code.


class Cancelled(CallError):
    """The call was cancelled from the other side."""

    status = "CANCELLED"


class Unknown(CallError):
    """Never made by a Jackline server: something between here and there spoke."""

    status = "UNKNOWN"


class InvalidArgument(CallError):
    """The request breaks a rule whatever the state of the server."""

    status = "INVALID_ARGUMENT"


class DeadlineExceeded(CallError):
    """The call's time is over. What it asked for may have happened."""

    status = "DEADLINE_EXCEEDED"


class NotFound(CallError):
    """What was named is not there for this caller."""

    status = "NOT_FOUND"


class AlreadyExists(CallError):
    """An id was used before for something else."""

    status = "ALREADY_EXISTS"


class PermissionDenied(CallError):
    """The credential does not allow it."""

    status = "PERMISSION_DENIED"


class ResourceExhausted(CallError):
    """A quota or a room is full."""

    status = "RESOURCE_EXHAUSTED"


class FailedPrecondition(CallError):
    """The state of the run forbids it."""

    status = "FAILED_PRECONDITION"


class Aborted(CallError):
    """Lost a race: read again, then try again."""

    status = "ABORTED"


class OutOfRange(CallError):
    """A position outside of the log."""

    status = "OUT_OF_RANGE"


class Unimplemented(CallError):
    """The server does not serve it."""

    status = "UNIMPLEMENTED"


class Internal(CallError):
    """A bug of the server. Keys: `incident_id`."""

    status = "INTERNAL"


class Unavailable(CallError):
    """The server can't be reached, or is going down."""

    status = "UNAVAILABLE"


class DataLoss(CallError):
    """The store holds less than was committed, or is damaged. Keys: `run_id`."""

    status = "DATA_LOSS"


class Unauthenticated(CallError):
    """No credential, or one that is wrong or expired."""

    status = "UNAUTHENTICATED"


# One class a reason.


class MalformedRequest(InvalidArgument):
    """The bytes are not a message of the expected type."""


class InvalidRequest(InvalidArgument):
    """Fields break their rules: see `field_violations`."""


class FieldTooLarge(InvalidArgument):
    """A field is over its size. Keys: `field`, `limit`, `size`."""


class BoundTooHigh(InvalidArgument):
    """A bound is looser than the workflow or the operator allows. Keys: `field`, `limit`."""


class PriceUnknown(InvalidArgument):
    """A budget of money, and a model whose price is unknown. Keys: `field`."""


class BadPageToken(InvalidArgument):
    """The page token is not one of this server for this query."""


class InvalidWorkflow(InvalidArgument):
    """The workflow has errors: see `field_violations`. Keys: `errors`."""


class InvalidInput(InvalidArgument):
    """The input does not fit the workflow's schema. Keys: `path`."""


class InvalidAnswer(InvalidArgument):
    """An answer, or edited arguments, are not what is asked for; it stays open. Keys: `interrupt_id`."""


class PrefixMisfit(InvalidArgument):
    """The events that a fork takes over do not fit the workflow. Keys: `sequence`, `fact`, `workflow`."""


class ScopeMissing(PermissionDenied):
    """The credential lacks a scope. Keys: `scope`."""


class OwnRun(PermissionDenied):
    """The operator lets nobody do this to a run of their own. Keys: `run_id`."""


class WorkerToolNotAllowed(PermissionDenied):
    """The operator lets no worker of that pool serve this tool. Keys: `tool`, `pool`."""


class RunNotFound(NotFound):
    """No such run for this caller. Keys: `run_id`."""


class WorkflowNotFound(NotFound):
    """No such workflow or revision for this caller. Keys: `workflow`."""


class InterruptNotFound(NotFound):
    """The run has no such interrupt. Keys: `interrupt_id`."""


class CallNotFound(NotFound):
    """The run has no such tool call. Keys: `call_id`."""


class ThreadNotFound(NotFound):
    """There is no such thread for this caller. Keys: `thread_id`."""


class WorkerPoolNotFound(NotFound):
    """No such pool of workers for this caller. Keys: `pool`."""


class WebhookNotFound(NotFound):
    """The server's config has no such webhook. Keys: `webhook`."""


class DeliveryNotFound(NotFound):
    """No such delivery of a webhook in the caller's tenant. Keys: `delivery_id`."""


class RequestIdReused(AlreadyExists):
    """The request id was used with another content. Keys: `run_id`."""


class CommandIdReused(AlreadyExists):
    """The command id was used with another content. Keys: `command_id`."""


class AppendIdReused(AlreadyExists):
    """The request id was used with other messages for this thread. Keys: `thread_id`."""


class RunTerminal(FailedPrecondition):
    """The run has ended. Keys: `state`."""


class ExpectationFailed(FailedPrecondition):
    """The run is not as `expect` says. Keys: `state`, `sequence`."""


class AlreadyDecided(FailedPrecondition):
    """The interrupt has been answered. Keys: `interrupt_id`."""


class InterruptExpired(FailedPrecondition):
    """The interrupt has expired. Keys: `interrupt_id`."""


class ArgumentsChanged(FailedPrecondition):
    """What was approved is not what the interrupt asks about. Keys: `interrupt_id`."""


class WrongInterruptKind(FailedPrecondition):
    """The interrupt waits for another command than the one that was sent. Keys: `interrupt_id`."""


class UnknownOption(InvalidArgument):
    """The interrupt has no such option. Keys: `option`."""


class TooLate(FailedPrecondition):
    """The conversation takes no further guidance."""


class CallNotOpen(FailedPrecondition):
    """The outcome of that tool call is not open. Keys: `call_id`."""


class BoundTooLow(FailedPrecondition):
    """More than that is spent or held already. Keys: `field`, `spent`."""


class NoBoundedVisit(FailedPrecondition):
    """The run is in no step that asks a model. Keys: `field`."""


class ForkPoint(FailedPrecondition):
    """No fork can be made at that event. Keys: `sequence`, and where there are any `before`, `after`."""


class ThreadBusy(FailedPrecondition):
    """The thread has an active run. Keys: `thread_id`, `run_id`."""


class KillSwitchEngaged(FailedPrecondition):
    """The kill switch is engaged, and no run begins. Keys: `since`."""


class ToolChanged(FailedPrecondition):
    """A tool's server describes it differently than when the workflow was put: look, and put it again."""


class WorkflowOwnedByFiles(FailedPrecondition):
    """A workflow of that name is read from the server's folder. Keys: `workflow`."""


class DataVersionNewer(FailedPrecondition):
    """A newer version wrote this run. Keys: `run_id`."""


class AliasMoved(Aborted):
    """The alias has moved. Keys: `alias`, `digest`."""


class WorkerSessionTaken(Aborted):
    """Another stream has resumed this worker's session."""


class EventsExpired(OutOfRange):
    """Events that far back are gone. Keys: `oldest_sequence`."""


class SequenceInFuture(OutOfRange):
    """The run has no event that far ahead. Keys: `head_sequence`."""


class RunLimit(ResourceExhausted):
    """Too many active runs. Keys: `limit`."""


class StreamLimit(ResourceExhausted):
    """Too many streams of this caller. Keys: `limit`."""


class CommandLimit(ResourceExhausted):
    """Too many commands wait for this run. Keys: `limit`."""


class StoreFull(ResourceExhausted):
    """The store has no room."""


class WorkerLimit(ResourceExhausted):
    """The pool has as many workers as it may have. Keys: `limit`."""


class SlowConsumer(ResourceExhausted):
    """The watcher, or the worker, took nothing for too long. Keys: `sent_through`, for a watcher."""


class Draining(Unavailable):
    """The server is going down. Keys: `sent_through` for a stream."""


class StoreUnavailable(Unavailable):
    """The store can't be reached."""


class WorkerSilent(DeadlineExceeded):
    """Nothing was heard of the worker for three heartbeats."""


class CallTimedOut(DeadlineExceeded):
    """The server's own time for one call is over."""


class NotServed(Unimplemented):
    """This field or method is not served yet. Keys: `field`."""


_STATUSES: tuple[type[CallError], ...] = (
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
)


def _reason_of(error: type[CallError]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).upper()


BY_STATUS: Mapping[str, type[CallError]] = {error.status: error for error in _STATUSES}
"""The class of each status code."""

# The table over ErrorReason: a reason's class carries the reason's name. Three reasons share the name and the
# class of their status code.
BY_REASON: Mapping[str, type[CallError]] = {
    _reason_of(reason): reason for status in _STATUSES for reason in status.__subclasses__()
} | {_reason_of(shared): shared for shared in (Unauthenticated, DataLoss, Internal)}
"""The class of each reason, by its name on the wire."""


def make_call_error(message: str, *, code: str, details: ErrorDetails) -> CallError:
    """Makes the error by its reason, else by its code: a newer server has newer reasons."""
    error = BY_REASON.get(details.reason) or BY_STATUS.get(code, Unknown)
    return error(message, code=code, details=details)
