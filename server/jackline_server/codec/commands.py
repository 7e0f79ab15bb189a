"""A command as it waits in the command table, and back.

Stored is: one byte for the format, the length of the principal as two bytes (big-endian), the principal in
UTF-8, then a `jackline.v1.ControlRequest` without run and wait. So a command is what the caller sent, and
who it was from. `read_action` also serves the doors. An abort that no operator sent is of format 2: a byte
for the reason, a `jackline.v1.StopReason`, stands before the request. The end of a child run, which no
caller can send, is of format 3: a `jackline.v1.StepEvent` stands in place of the request. One whose words
were masked is of format 4: the SHA-256 of the bytes that it would else be, then the bytes that it is.
"""

from typing import assert_never

from google.protobuf.message import DecodeError

from jackline.v1 import control_pb2, run_service_pb2
from jackline_server.codec.children import decode_ended, encode_ended
from jackline_server.codec.enums import ABORT_MODE, PHASE, STOP_REASON
from jackline_server.codec.values import (
    optional_json,
    read_new_bounds,
    read_visit_bounds,
    set_new_bounds,
    set_visit_bounds,
)
from jackline_server.core.commands import (
    Abort,
    Action,
    AdjustBounds,
    Answer,
    Approve,
    Command,
    Decision,
    EditAndApprove,
    EndChild,
    Pause,
    Reject,
    Resume,
    Steer,
    SubmitToolResult,
    ended_id,
)
from jackline_server.core.facts import AbortMode, StopReason
from jackline_server.core.frozen import change
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import StoreDamaged

_FORMAT = 1
_WITH_CAUSE = 2
_CHILD = 3
_MASKED = 4
_HEADER = 3
_FINGERPRINT = 32


def encode_command(command: Command) -> bytes:
    """The command's bytes; its ordinal is not part of them."""
    if command.fingerprint:
        plain = encode_command(change(command, fingerprint=""))
        return bytes((_MASKED,)) + bytes.fromhex(command.fingerprint) + plain
    if isinstance(command.action, EndChild):
        return _told(command.principal, encode_ended(command.action.finished))
    message = run_service_pb2.ControlRequest(command_id=command.command_id, reason=command.reason)
    if command.expect_phase is not None:
        message.expect.state = PHASE.wire[command.expect_phase]
    if command.expect_sequence is not None:
        message.expect.sequence = command.expect_sequence
    _set_action(message, command.action)
    principal, sent = command.principal.encode(), message.SerializeToString(deterministic=True)
    length = len(principal).to_bytes(2, "big")
    if isinstance(command.action, Abort) and command.action.cause is not StopReason.OPERATOR:
        cause = bytes((STOP_REASON.wire[command.action.cause],))
        return bytes((_WITH_CAUSE,)) + length + principal + cause + sent
    return bytes((_FORMAT,)) + length + principal + sent


def _told(principal: str, ended: bytes) -> bytes:
    sender = principal.encode()
    return bytes((_CHILD,)) + len(sender).to_bytes(2, "big") + sender + ended


def _read_told(principal: str, ended: bytes, ordinal: int) -> Command:
    finished = decode_ended(ended)
    return Command(
        command_id=ended_id(finished.child_run_id),
        ordinal=ordinal,
        principal=principal,
        reason="",
        expect_phase=None,
        expect_sequence=None,
        action=EndChild(finished=finished),
    )


def decode_command(data: bytes, *, ordinal: int) -> Command:
    """The command back.

    Raises:
        UnknownFact: a newer version wrote it.
        StoreDamaged: the bytes are no command.
    """
    if len(data) < _HEADER:
        raise StoreDamaged("a command can't be read")
    if data[0] == _MASKED:
        told = decode_command(data[1 + _FINGERPRINT :], ordinal=ordinal)
        return change(told, fingerprint=data[1 : 1 + _FINGERPRINT].hex())
    if data[0] not in (_FORMAT, _WITH_CAUSE, _CHILD):
        raise UnknownFact(f"a command is stored in format {data[0]}")
    end = _HEADER + int.from_bytes(data[1:_HEADER], "big")
    sent = end + (data[0] == _WITH_CAUSE)
    try:
        principal = data[_HEADER:end].decode()
        if data[0] == _CHILD:
            return _read_told(principal, data[end:], ordinal)
        message = run_service_pb2.ControlRequest.FromString(data[sent:])
    except (DecodeError, UnicodeDecodeError):
        raise StoreDamaged("a command can't be read") from None
    action = read_action(message)
    if action is None:
        raise UnknownFact(f"command {message.command_id} is of a newer version")
    if isinstance(action, Abort) and sent > end:
        action = change(action, cause=STOP_REASON.read(data[end]))
    expect = message.expect
    return Command(
        command_id=message.command_id,
        ordinal=ordinal,
        principal=principal,
        reason=message.reason,
        expect_phase=PHASE.read_optional(expect.state),
        expect_sequence=expect.sequence if expect.HasField("sequence") else None,
        action=action,
    )


def _set_action(  # noqa: C901 - one case a command
    message: run_service_pb2.ControlRequest, action: Action
) -> None:
    match action:
        case Pause():
            message.pause.SetInParent()
        case Resume():
            message.resume.SetInParent()
        case Steer():
            message.steer.text = action.text
        case Abort():
            message.abort.mode = ABORT_MODE.wire[action.mode]
            message.abort.skip_routes = action.skip_routes
        case Answer():
            message.answer.interrupt_id = action.interrupt_id
            message.answer.option = action.option
            message.answer.text = action.text
        case Approve() | EditAndApprove() | Reject():
            _set_decision(message, action)
        case SubmitToolResult():
            _set_tool_result(message.submit_tool_result, action)
        case AdjustBounds():
            message.adjust_bounds.SetInParent()
            set_new_bounds(message.adjust_bounds.run, action.run)
            set_visit_bounds(message.adjust_bounds.visit, action.visit)
        case EndChild():
            raise TypeError("the end of a child run is no request")
        case _:
            assert_never(action)


def _set_decision(message: run_service_pb2.ControlRequest, decision: Decision) -> None:
    match decision:
        case Approve():
            message.approve.interrupt_id = decision.interrupt_id
            message.approve.arguments_digest = decision.digest
        case EditAndApprove():
            message.edit_and_approve.interrupt_id = decision.interrupt_id
            message.edit_and_approve.arguments_digest = decision.digest
            message.edit_and_approve.arguments_json = decision.arguments_json.encode()
        case Reject():
            message.reject.interrupt_id = decision.interrupt_id
            message.reject.text = decision.text


def _set_tool_result(into: control_pb2.SubmitToolResultCommand, action: SubmitToolResult) -> None:
    into.call_id = action.call_id
    if action.output_json is not None:
        into.output_json = action.output_json.encode()
    else:
        into.error = action.error


def read_action(  # noqa: C901, PLR0911, PLR0912 - one case a command
    message: run_service_pb2.ControlRequest,
) -> Action | None:
    """What the request asks for; None if it holds no command that this version knows."""
    match message.WhichOneof("command"):
        case "pause":
            return Pause()
        case "resume":
            return Resume()
        case "steer":
            return Steer(text=message.steer.text)
        case "abort":
            mode = ABORT_MODE.read_optional(message.abort.mode) or AbortMode.NOW
            return Abort(mode=mode, skip_routes=message.abort.skip_routes)
        case "answer":
            found = message.answer
            return Answer(interrupt_id=found.interrupt_id, option=found.option, text=found.text)
        case "approve":
            let = message.approve
            return Approve(interrupt_id=let.interrupt_id, digest=let.arguments_digest)
        case "edit_and_approve":
            return _read_edit(message.edit_and_approve)
        case "reject":
            return Reject(interrupt_id=message.reject.interrupt_id, text=message.reject.text)
        case "submit_tool_result":
            result = message.submit_tool_result
            return SubmitToolResult(
                call_id=result.call_id,
                output_json=optional_json(result.output_json),
                error=result.error,
            )
        case "adjust_bounds":
            asked = message.adjust_bounds
            return AdjustBounds(run=read_new_bounds(asked.run), visit=read_visit_bounds(asked.visit))
        case None:
            return None


def _read_edit(found: control_pb2.EditAndApproveCommand) -> EditAndApprove:
    return EditAndApprove(
        interrupt_id=found.interrupt_id,
        digest=found.arguments_digest,
        arguments_json=found.arguments_json.decode(),
    )
