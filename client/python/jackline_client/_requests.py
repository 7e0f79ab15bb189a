"""From Python values to request messages.

Owns the shapes a caller may give. Does not check what the server checks: sizes, names, bounds.
"""

import difflib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1.control_pb2 import Expectation, ReceiptStage
from jackline.v1.run_pb2 import MessageRole, OnQuestion, RunBounds, RunState
from jackline.v1.run_service_pb2 import (
    AppendMessagesRequest,
    ControlRequest,
    ForkChanges,
    ForkRunRequest,
    InlineWorkflow,
    StartRunRequest,
)
from jackline.v1.thread_pb2 import NewThreadMessage, OnBusy

InputValue = Mapping[str, object] | bytes | str
"""The input of a run: an object, or JSON text taken exactly."""


def _no_labels() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to list; everything left out matches all."""

    states: tuple[RunState.ValueType, ...] = ()
    workflow: str = ""
    labels: Mapping[str, str] = field(default_factory=_no_labels)
    created_after: datetime | None = None
    created_before: datetime | None = None
    thread_id: str = ""
    parent_run_id: str = ""


class StartOptions(TypedDict, total=False):
    """What else may be said when a run is started; see StartRunRequest."""

    inline_yaml: str
    """A workflow file in place of a workflow's name."""
    files: Mapping[str, bytes]
    """The files that `inline_yaml` names, by their path from its folder."""
    labels: Mapping[str, str]
    """To find it again: `RunFilter` has them too."""
    bounds: RunBounds
    """Tightens the workflow's bounds."""
    deadline: datetime
    """Absolute end of the run, with its time zone."""
    start_delay: timedelta
    """Begin so much later; until then the run is queued. Not with a thread."""
    on_question: OnQuestion.ValueType
    """`ON_QUESTION_WAIT` for an answer, or `ON_QUESTION_REVIEW`: nobody is there, end as needs_review."""
    subject: Mapping[str, object]
    """On whose behalf; for tools, never shown to the model."""
    thread_id: str
    """The conversation that the run continues; it is made if there is none."""
    on_busy: OnBusy.ValueType
    """With a thread: `ON_BUSY_REJECT` (when left out), `…_ENQUEUE`, `…_STEER` or `…_REPLACE`."""


class ForkOptions(TypedDict, total=False):
    """What a fork does differently; see ForkChanges. What is left out stays as it was."""

    workflow: str
    """Another revision of the same workflow: `name`, `name@alias` or `name@digest`."""
    bounds: RunBounds
    """In place of the run's own; at most the workflow's."""
    labels: Mapping[str, str]
    """Set over those of the run."""
    steer: str
    """Guidance that the model is given first."""
    deadline: datetime
    """Absolute end of the fork, with its time zone."""


class ControlOptions(TypedDict, total=False):
    """What else may be said with a command; see ControlRequest."""

    reason: str
    """Why, for the record."""
    command_id: str
    """Makes the command idempotent; made by the library when left out."""
    expect: Expectation
    """What has to hold, or the command is refused."""
    wait: ReceiptStage.ValueType
    """How far to wait: `RECEIPT_STAGE_ACCEPTED` (when left out), `…_EFFECTIVE` or `…_SETTLED`."""
    timeout_s: float
    """Seconds for the call, waiting included."""


def check_options(
    method: str,
    given: Mapping[str, object],
    known: type,
) -> None:
    """Refuses an option that does not exist, as a function with named parameters would. Raises TypeError."""
    names = known.__annotations__
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(names)}"
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}{hint}")


def json_bytes(value: InputValue) -> bytes:
    """Encodes an object as JSON; text and bytes stay as they are. Raises ValueError for NaN and infinity."""
    match value:
        case bytes():
            return value
        case str():
            return value.encode()
        case _:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def start_request(
    workflow: str | None, value: InputValue | None, request_id: str | None, options: StartOptions
) -> StartRunRequest:
    """Builds a StartRunRequest; makes a request id if there is none, so that the call may be retried.

    Raises TypeError for an unknown option, ValueError for options that don't go together.
    """
    check_options("start_run", options, StartOptions)
    request = StartRunRequest(
        request_id=request_id or uuid.uuid4().hex,
        labels=options.get("labels") or {},
        bounds=options.get("bounds"),
        on_question=options.get("on_question", OnQuestion.ON_QUESTION_UNSPECIFIED),
        thread_id=options.get("thread_id", ""),
        on_busy=options.get("on_busy", OnBusy.ON_BUSY_UNSPECIFIED),
    )
    inline = options.get("inline_yaml")
    if (workflow is None) == (inline is None):
        raise ValueError("give either a workflow's name or inline_yaml")
    if inline is None and options.get("files"):
        raise ValueError("files go with inline_yaml; a stored workflow has its own")
    if inline is not None:
        request.inline_workflow.CopyFrom(inline_workflow(inline, options.get("files")))
    elif workflow is not None:
        request.workflow = workflow
    if value is not None:
        request.input_json = json_bytes(value)
    _set_times(request, options)
    if (subject := options.get("subject")) is not None:
        request.subject.CopyFrom(ParseDict(dict(subject), Struct()))
    return request


def _set_times(request: StartRunRequest, options: StartOptions) -> None:
    if (deadline := options.get("deadline")) is not None:
        request.deadline.CopyFrom(timestamp(deadline))
    if (delay := options.get("start_delay")) is not None:
        request.start_delay.FromTimedelta(delay)


def fork_request(run_id: str, sequence: int, request_id: str | None, options: ForkOptions) -> ForkRunRequest:
    """Builds a ForkRunRequest; makes a request id if there is none, so that the call may be retried.

    Raises TypeError for an unknown option.
    """
    check_options("fork_run", options, ForkOptions)
    changes = ForkChanges(
        workflow=options.get("workflow", ""),
        bounds=options.get("bounds"),
        labels=options.get("labels") or {},
        steer=options.get("steer", ""),
    )
    if (deadline := options.get("deadline")) is not None:
        changes.deadline.CopyFrom(timestamp(deadline))
    return ForkRunRequest(
        run_id=run_id, sequence=sequence, request_id=request_id or uuid.uuid4().hex, changes=changes
    )


def append_request(
    thread_id: str, messages: Sequence[str | NewThreadMessage], request_id: str | None
) -> AppendMessagesRequest:
    """Builds an AppendMessagesRequest; a plain text is the user's. Makes a request id if there is none."""
    return AppendMessagesRequest(
        thread_id=thread_id,
        messages=[
            NewThreadMessage(role=MessageRole.MESSAGE_ROLE_USER, text=one) if isinstance(one, str) else one
            for one in messages
        ],
        request_id=request_id or uuid.uuid4().hex,
    )


def inline_workflow(yaml: str, files: Mapping[str, bytes] | None) -> InlineWorkflow:
    """Puts a workflow file and the files it names together."""
    return InlineWorkflow(yaml=yaml, files=files or {})


def control_request(run_id: str, options: ControlOptions, *, method: str) -> ControlRequest:
    """Builds a ControlRequest without its command; makes a command id if there is none.

    Raises TypeError for an unknown option, in the name of the method that was called.
    """
    check_options(method, options, ControlOptions)
    return ControlRequest(
        run_id=run_id,
        command_id=options.get("command_id") or uuid.uuid4().hex,
        reason=options.get("reason", ""),
        expect=options.get("expect"),
        wait=options.get("wait", ReceiptStage.RECEIPT_STAGE_UNSPECIFIED),
    )


def timestamp(moment: datetime) -> Timestamp:
    """Turns a moment with a time zone into a Timestamp. Raises ValueError for one without."""
    if moment.tzinfo is None:
        raise ValueError("a time needs its time zone")
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp
