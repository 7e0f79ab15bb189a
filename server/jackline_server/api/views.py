"""What the use cases answered, as response messages in the view that was asked for."""

from collections.abc import Sequence

from jackline.v1 import control_pb2, error_reason_pb2, run_pb2, run_service_pb2
from jackline_server.api.wait_views import waiting_messages
from jackline_server.codec import messages as message_codec
from jackline_server.codec.run_view import run_message
from jackline_server.core.messages import Message
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.use_cases import Disposition, Receipt, Snapshot, Stage, Started

_DISPOSITIONS = {
    Disposition.STARTED: run_service_pb2.START_DISPOSITION_STARTED,
    Disposition.QUEUED: run_service_pb2.START_DISPOSITION_QUEUED,
    Disposition.DEDUPLICATED: run_service_pb2.START_DISPOSITION_DEDUPLICATED,
    Disposition.STEERED: run_service_pb2.START_DISPOSITION_STEERED,
    Disposition.REPLACED: run_service_pb2.START_DISPOSITION_REPLACED,
}
_STAGES = {
    Stage.ACCEPTED: control_pb2.RECEIPT_STAGE_ACCEPTED,
    Stage.EFFECTIVE: control_pb2.RECEIPT_STAGE_EFFECTIVE,
    Stage.SETTLED: control_pb2.RECEIPT_STAGE_SETTLED,
}


def is_full(view: run_pb2.View.ValueType) -> bool:
    """True if content is wanted; METADATA is the default."""
    return view == run_pb2.VIEW_FULL


def run_of_row(row: RunRow) -> run_pb2.Run:
    """The run as lists show it."""
    run = run_pb2.Run.FromString(row.summary)
    run.head_sequence = row.head_sequence
    run.labels.update(row.labels)
    return run


def run_of_snapshot(snapshot: Snapshot, *, full: bool) -> run_pb2.Run:
    """The run with its steps and interrupts."""
    row = snapshot.row
    run = run_message(
        snapshot.state,
        created_unix_ms=row.created_unix_ms,
        finished_unix_ms=row.finished_unix_ms,
        full=full,
    )
    run.labels.update(row.labels)
    run.waiting_calls.extend(waiting_messages(snapshot.waits))
    return run


def start_response(started: Started) -> run_service_pb2.StartRunResponse:
    """The answer to a start."""
    return run_service_pb2.StartRunResponse(
        run=run_of_row(started.row), disposition=_DISPOSITIONS[started.disposition]
    )


def fork_response(started: Started) -> run_service_pb2.ForkRunResponse:
    """The answer to a fork."""
    return run_service_pb2.ForkRunResponse(
        run=run_of_row(started.row), disposition=_DISPOSITIONS[started.disposition]
    )


def control_response(receipt: Receipt) -> run_service_pb2.ControlResponse:
    """The answer to a command."""
    return run_service_pb2.ControlResponse(receipt=receipt_message(receipt), reached=receipt.reached)


def receipt_message(receipt: Receipt) -> control_pb2.Receipt:
    """What became of a command."""
    message = control_pb2.Receipt(
        command_id=receipt.command_id,
        stage=_STAGES[receipt.stage],
        disposition=_disposition(receipt),
        sequence=receipt.sequence,
        already_terminal=receipt.already_terminal,
        repeated=receipt.repeated,
    )
    if receipt.rejection:
        message.rejection = error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{receipt.rejection}")
    return message


def _disposition(receipt: Receipt) -> control_pb2.CommandDisposition.ValueType:
    if receipt.rejection:
        return control_pb2.COMMAND_DISPOSITION_REJECTED
    if receipt.already_terminal:
        return control_pb2.COMMAND_DISPOSITION_NOT_NEEDED
    if receipt.applied:
        return control_pb2.COMMAND_DISPOSITION_APPLIED
    return control_pb2.COMMAND_DISPOSITION_PENDING


def messages_response(messages: Sequence[Message]) -> run_service_pb2.ListRunMessagesResponse:
    """A conversation."""
    return run_service_pb2.ListRunMessagesResponse(
        messages=[message_codec.run_message(message) for message in messages]
    )
