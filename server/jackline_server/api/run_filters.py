"""Which runs a request is about: the filter of a list, and of a command to many.

All notes go to the `Checks` of the request.
"""

from jackline.v1 import bulk_control_pb2, run_pb2, run_service_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.limits import LIMITS
from jackline_server.codec.enums import PHASE
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import Tenant


def read_filter(
    checks: Checks,
    path: str,
    given: run_service_pb2.ListRunsRequest | bulk_control_pb2.BulkFilter,
    *,
    tenant: Tenant,
) -> RunQuery:
    """The runs that match, as a first page of the default size. `path` stands before the names of fields."""
    checks.name(f"{path}workflow", given.workflow, required=False)
    checks.name(f"{path}thread_id", given.thread_id, required=False)
    if given.parent_run_id:
        checks.run_id(f"{path}parent_run_id", given.parent_run_id)
    checks.labels(f"{path}labels", given.labels)
    phases = frozenset(PHASE.of[state] for state in given.states if state in PHASE.of)
    for index, state in enumerate(given.states):
        if state == run_pb2.RUN_STATE_UNSPECIFIED:
            checks.fail(f"{path}states[{index}]", "must be a state", "UNKNOWN_VALUE")
    start = end = None
    if given.HasField("created_after"):
        start = checks.time(f"{path}created_after", given.created_after)
    if given.HasField("created_before"):
        end = checks.time(f"{path}created_before", given.created_before)
    if start is not None and end is not None and end < start:
        checks.fail(f"{path}created_before", "must not be before created_after", "OUT_OF_RANGE")
    return RunQuery(
        tenant=tenant,
        phases=phases,
        workflow=given.workflow,
        labels=dict(given.labels),
        created_from_unix_ms=start,
        created_until_unix_ms=end,
        thread_id=given.thread_id,
        parent_run_id=given.parent_run_id,
        limit=LIMITS.page_default_count,
    )
