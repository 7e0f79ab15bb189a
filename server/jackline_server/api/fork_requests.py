"""ForkRun: what each field must be, and what the use case is then asked."""

from jackline.v1 import run_service_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.fingerprints import fork_fingerprint
from jackline_server.api.limits import LIMITS
from jackline_server.api.start_fields import deadline, tighter_bounds
from jackline_server.api.workflow_requests import check_reference
from jackline_server.runtime.use_cases import Caller, ForkRun


def read_fork(request: run_service_pb2.ForkRunRequest, *, caller: Caller, now_unix_ms: int) -> ForkRun:
    """A fork, with its fingerprint.

    Raises:
        DoorRefused: INVALID_REQUEST or FIELD_TOO_LARGE, with every violation at once.
    """
    checks = Checks()
    checks.well_formed(request)
    changes = request.changes
    checks.run_id("run_id", request.run_id)
    checks.sequence("sequence", request.sequence)
    if request.sequence == 0:
        checks.fail("sequence", "required: the last event to take over, from 1", "REQUIRED")
    checks.idempotency_key("request_id", request.request_id)
    if changes.workflow:
        check_reference(checks, "changes.workflow", changes.workflow)
    checks.labels("changes.labels", changes.labels)
    checks.text("changes.steer", changes.steer, LIMITS.steer_bytes, required=bool(changes.steer))
    bounds = tighter_bounds(checks, "changes.bounds", changes.bounds)
    end = None
    if changes.HasField("deadline"):
        end = deadline(checks, "changes.deadline", changes.deadline, now_unix_ms=now_unix_ms)
    checks.finish()
    return ForkRun(
        caller=caller,
        run_id=request.run_id,
        sequence=request.sequence,
        request_id=request.request_id,
        fingerprint=fork_fingerprint(request),
        workflow=changes.workflow,
        bounds=bounds,
        labels=dict(changes.labels),
        steer=changes.steer,
        deadline_unix_ms=end,
    )
