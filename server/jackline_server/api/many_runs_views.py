"""What became of commands to many runs, and where the kill switch stands, as response messages."""

from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import bulk_control_pb2, error_reason_pb2, kill_switch_pb2
from jackline_server.api.views import receipt_message
from jackline_server.codec.enums import PHASE
from jackline_server.runtime.ports.switches import Engagement
from jackline_server.runtime.service.bulk_control import BulkDone, BulkResult
from jackline_server.runtime.service.kill_switch import Switched, SwitchView


def bulk_response(done: BulkDone) -> bulk_control_pb2.BulkControlResponse:
    """The answer to a bulk command, without the token of the next page."""
    return bulk_control_pb2.BulkControlResponse(
        results=[_result(one) for one in done.results], total_size=done.total
    )


def _result(result: BulkResult) -> bulk_control_pb2.BulkResult:
    row = result.row
    message = bulk_control_pb2.BulkResult(
        run_id=row.run_id, workflow=row.workflow, state=PHASE.wire[row.phase]
    )
    if result.receipt is not None:
        message.receipt.CopyFrom(receipt_message(result.receipt))
    if result.refusal is not None:
        message.refusal = error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{result.refusal.value}")
    return message


def switched_response(switched: Switched) -> kill_switch_pb2.KillSwitchResponse:
    """The answer to an action on the switch."""
    return kill_switch_pb2.KillSwitchResponse(
        state=_state(switched.engagement), changed=switched.changed, told_runs=switched.told
    )


def switch_response(view: SwitchView) -> kill_switch_pb2.GetKillSwitchResponse:
    """Where the switch stands."""
    return kill_switch_pb2.GetKillSwitchResponse(state=_state(view.engagement), living_runs=view.living)


def _state(engagement: Engagement | None) -> kill_switch_pb2.KillSwitchState:
    if engagement is None:
        return kill_switch_pb2.KillSwitchState()
    return kill_switch_pb2.KillSwitchState(
        engaged=engagement.engaged,
        engaged_at=_stamp(engagement.engaged_unix_ms),
        engaged_by=engagement.engaged_by,
        reason=engagement.reason,
        released_at=_stamp(engagement.released_unix_ms),
        released_by=engagement.released_by,
        release_reason=engagement.release_reason,
    )


def _stamp(unix_ms: int | None) -> Timestamp | None:
    if unix_ms is None:
        return None
    stamp = Timestamp()
    stamp.FromMilliseconds(unix_ms)
    return stamp
