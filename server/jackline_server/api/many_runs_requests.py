"""Requests about many runs at once: what each field must be, and what the use case is then asked.

All raise DoorRefused (INVALID_REQUEST, FIELD_TOO_LARGE) with every violation at once.
"""

from jackline.v1 import bulk_control_pb2, kill_switch_pb2, run_service_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.limits import LIMITS
from jackline_server.api.run_filters import read_filter
from jackline_server.codec.commands import read_action
from jackline_server.core.commands import Action
from jackline_server.core.frozen import change
from jackline_server.runtime.service.bulk_control import BulkControl
from jackline_server.runtime.service.kill_switch import LIVING
from jackline_server.runtime.use_cases import Caller


def read_bulk(
    request: bulk_control_pb2.BulkControlRequest, *, caller: Caller, before: tuple[int, str] | None
) -> BulkControl:
    """A command for a page of runs."""
    checks = Checks()
    checks.well_formed(request)
    checks.idempotency_key("request_id", request.request_id)
    if not request.request_id and not request.preview:
        checks.fail("request_id", "required: without it a repeat would be another command", "REQUIRED")
    checks.text("reason", request.reason, LIMITS.reason_bytes)
    checks.understood("filter", request.filter)
    query = read_filter(checks, "filter.", request.filter, tenant=caller.tenant)
    for phase in query.phases - LIVING:
        checks.fail("filter.states", f"{phase.value} runs take no command", "TERMINAL")
    empty = not request.filter.ByteSize()
    if empty and not request.all_runs:
        checks.fail("all_runs", "required with an empty filter, which is every run that lives", "REQUIRED")
    if request.all_runs and not empty:
        checks.fail("all_runs", "only with an empty filter", "WITH_FILTER")
    limit = checks.page_size("page_size", request.page_size)
    _check_command(checks, request)
    checks.finish()
    return BulkControl(
        caller=caller,
        query=change(query, phases=query.phases or LIVING, before=before, limit=limit),
        request_id=request.request_id,
        reason=request.reason,
        action=_action(request),
        preview=request.preview,
    )


def _check_command(checks: Checks, request: bulk_control_pb2.BulkControlRequest) -> None:
    match request.WhichOneof("command"):
        case "steer":
            checks.text("steer.text", request.steer.text, LIMITS.steer_bytes, required=True)
        case None:
            checks.fail("command", "required: set one that this version knows", "REQUIRED")
        case "pause" | "resume" | "abort":
            pass


def _action(request: bulk_control_pb2.BulkControlRequest) -> Action:
    """The command of a checked request."""
    single = run_service_pb2.ControlRequest()
    match request.WhichOneof("command"):
        case "pause":
            single.pause.CopyFrom(request.pause)
        case "resume":
            single.resume.CopyFrom(request.resume)
        case "steer":
            single.steer.CopyFrom(request.steer)
        case "abort":
            single.abort.CopyFrom(request.abort)
        case None:
            pass
    action = read_action(single)
    if action is None:
        raise AssertionError("a checked request holds a command")
    return action


def read_kill_switch(request: kill_switch_pb2.KillSwitchRequest) -> bool:
    """True to engage the switch, false to release it."""
    checks = Checks()
    checks.well_formed(request)
    engages = request.action == kill_switch_pb2.KILL_SWITCH_ACTION_ENGAGE
    if request.action == kill_switch_pb2.KILL_SWITCH_ACTION_UNSPECIFIED:
        checks.fail("action", "required: ENGAGE or RELEASE", "REQUIRED")
    checks.text("reason", request.reason, LIMITS.reason_bytes, required=engages)
    checks.finish()
    return engages
