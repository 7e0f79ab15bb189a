"""Requests of RunService: what each field must be, and what the use case is then asked.

All raise DoorRefused (INVALID_REQUEST, FIELD_TOO_LARGE) with every violation at once.
"""

import re

from jackline.v1 import control_pb2, run_service_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.fingerprints import fingerprint
from jackline_server.api.json_values import EMPTY_OBJECT, MOST_LEVELS, text_of_bytes, text_of_struct
from jackline_server.api.kinds import check_kinds
from jackline_server.api.limits import LIMITS
from jackline_server.api.run_filters import read_filter
from jackline_server.api.start_fields import check_new_bounds, deadline, start_delay, tighter_bounds
from jackline_server.api.thread_requests import read_thread
from jackline_server.api.workflow_requests import check_reference, check_source, source_of
from jackline_server.codec.commands import read_action
from jackline_server.codec.enums import ON_QUESTION, PHASE
from jackline_server.codec.values import milliseconds
from jackline_server.core.commands import Action
from jackline_server.core.frozen import change
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.use_cases import Caller, ControlRun, Stage, StartRun

OWNER_GRACE_MS = 10_000
"""How long owners may be away where nothing is said."""

_STAGES = {
    control_pb2.RECEIPT_STAGE_UNSPECIFIED: Stage.ACCEPTED,
    control_pb2.RECEIPT_STAGE_ACCEPTED: Stage.ACCEPTED,
    control_pb2.RECEIPT_STAGE_EFFECTIVE: Stage.EFFECTIVE,
    control_pb2.RECEIPT_STAGE_SETTLED: Stage.SETTLED,
}


def read_start(request: run_service_pb2.StartRunRequest, *, caller: Caller, now_unix_ms: int) -> StartRun:
    """A start, with its fingerprint."""
    checks = Checks()
    checks.well_formed(request)
    inline = _check_source(checks, request)
    checks.idempotency_key("request_id", request.request_id)
    checks.labels("labels", request.labels)
    input_json = _input(checks, request)
    subject_json = _subject(checks, request)
    bounds = tighter_bounds(checks, "bounds", request.bounds)
    end = _deadline(checks, request, now_unix_ms)
    thread = read_thread(checks, request)
    delay_ms = start_delay(checks, request, end_unix_ms=end, now_unix_ms=now_unix_ms)
    checks.finish()
    return StartRun(
        caller=caller,
        workflow=request.workflow,
        inline=source_of(request.inline_workflow) if inline else None,
        input_json=input_json,
        request_id=request.request_id,
        fingerprint=fingerprint(request, input_json=input_json, subject_json=subject_json),
        subject_json=subject_json,
        labels=dict(request.labels),
        bounds=bounds,
        deadline_unix_ms=end,
        on_question=ON_QUESTION.read_optional(request.on_question),
        thread=thread,
        start_delay_ms=delay_ms,
    )


def _check_source(checks: Checks, request: run_service_pb2.StartRunRequest) -> bool:
    match request.WhichOneof("source"):
        case "workflow":
            check_reference(checks, "workflow", request.workflow)
        case "inline_workflow":
            check_source(checks, "inline_workflow", request.inline_workflow)
            return True
        case None:
            checks.fail("source", "required: set workflow or inline_workflow", "REQUIRED")
    return False


def _input(checks: Checks, request: run_service_pb2.StartRunRequest) -> str:
    match request.WhichOneof("input_value"):
        case "input_json":
            return text_of_bytes(checks, "input_json", request.input_json, LIMITS.input_bytes)
        case "input":
            return text_of_struct(
                checks, "input", request.input, limit=LIMITS.input_bytes, levels=MOST_LEVELS
            )
        case None:
            return EMPTY_OBJECT


def _subject(checks: Checks, request: run_service_pb2.StartRunRequest) -> str:
    if not request.HasField("subject"):
        return EMPTY_OBJECT
    return text_of_struct(
        checks, "subject", request.subject, limit=LIMITS.subject_bytes, levels=LIMITS.subject_levels
    )


def _deadline(checks: Checks, request: run_service_pb2.StartRunRequest, now_unix_ms: int) -> int | None:
    if not request.HasField("deadline"):
        return None
    return deadline(checks, "deadline", request.deadline, now_unix_ms=now_unix_ms)


def read_control(
    request: run_service_pb2.ControlRequest, *, caller: Caller, remaining_ms: int | None
) -> ControlRun:
    """A command, and how long to wait for it: until shortly before the call's own end."""
    checks = Checks()
    checks.well_formed(request)
    checks.run_id("run_id", request.run_id)
    checks.idempotency_key("command_id", request.command_id)
    checks.text("reason", request.reason, LIMITS.reason_bytes)
    checks.understood("expect", request.expect)
    checks.sequence("expect.sequence", request.expect.sequence)
    _check_action(checks, request)
    checks.finish()
    return ControlRun(
        caller=caller,
        run_id=request.run_id,
        command_id=request.command_id,
        reason=request.reason,
        expect_phase=_phase_name(request.expect.state),
        expect_sequence=request.expect.sequence if request.expect.HasField("sequence") else None,
        action=_action(request),
        wait=_STAGES[request.wait],
        wait_ms=wait_time(remaining_ms, LIMITS.wait_seconds * 1000),
    )


def _phase_name(state: int) -> str | None:
    phase = PHASE.read_optional(state)
    return None if phase is None else phase.value


def _action(request: run_service_pb2.ControlRequest) -> Action:
    action = read_action(request)
    if action is None:
        raise AssertionError("a checked request holds a command")
    return action


def _check_action(  # noqa: C901 - one case a command
    checks: Checks, request: run_service_pb2.ControlRequest
) -> None:
    match request.WhichOneof("command"):
        case "steer":
            checks.text("steer.text", request.steer.text, LIMITS.steer_bytes, required=True)
        case "answer":
            answer = request.answer
            checks.name("answer.interrupt_id", answer.interrupt_id)
            checks.name("answer.option", answer.option)
            checks.text("answer.text", answer.text, LIMITS.answer_bytes)
        case "approve":
            checks.name("approve.interrupt_id", request.approve.interrupt_id)
            _check_digest(checks, "approve.arguments_digest", request.approve.arguments_digest)
        case "edit_and_approve":
            _check_edit(checks, request.edit_and_approve)
        case "reject":
            checks.name("reject.interrupt_id", request.reject.interrupt_id)
            checks.text("reject.text", request.reject.text, LIMITS.answer_bytes)
        case "submit_tool_result":
            _check_tool_result(checks, request.submit_tool_result)
        case "adjust_bounds":
            check_new_bounds(checks, "adjust_bounds", request.adjust_bounds)
        case None:
            checks.fail("command", "required: set one that this version knows", "REQUIRED")
        case "pause" | "resume" | "abort":
            pass


def _check_edit(checks: Checks, edit: control_pb2.EditAndApproveCommand) -> None:
    checks.name("edit_and_approve.interrupt_id", edit.interrupt_id)
    _check_digest(checks, "edit_and_approve.arguments_digest", edit.arguments_digest)
    if not edit.arguments_json:
        checks.fail("edit_and_approve.arguments_json", "required: a JSON object", "REQUIRED")
        return
    text_of_bytes(checks, "edit_and_approve.arguments_json", edit.arguments_json, LIMITS.tool_output_bytes)


def _check_digest(checks: Checks, field: str, digest: str) -> None:
    if not digest:
        checks.fail(field, "required: `arguments_digest` of the interrupt, as it was shown", "REQUIRED")
    elif not _DIGEST.fullmatch(digest):
        checks.fail(field, "must be a SHA-256 in hexadecimal, in small letters", "PATTERN")


_DIGEST = re.compile(r"[0-9a-f]{64}")


def _check_tool_result(checks: Checks, result: control_pb2.SubmitToolResultCommand) -> None:
    checks.name("submit_tool_result.call_id", result.call_id)
    match result.WhichOneof("result"):
        case "output_json":
            text_of_bytes(
                checks, "submit_tool_result.output_json", result.output_json, LIMITS.tool_output_bytes
            )
        case "error":
            checks.text("submit_tool_result.error", result.error, LIMITS.tool_error_bytes, required=True)
        case None:
            checks.fail("submit_tool_result.result", "required: set output_json or error", "REQUIRED")


_MARGIN_MS = 250
"""What is left of a call's time for its answer to travel."""


def wait_time(remaining_ms: int | None, most_ms: int) -> int:
    """How long a call may wait, given what is left of its own time; None is no end of its own."""
    if remaining_ms is None:
        return most_ms
    return max(0, min(most_ms, remaining_ms - max(_MARGIN_MS, remaining_ms // 20)))


def check_run(
    request: run_service_pb2.GetRunRequest
    | run_service_pb2.ListToolCallsRequest
    | run_service_pb2.StreamProgressRequest,
) -> None:
    """A request for one run, in a view."""
    checks = Checks()
    checks.well_formed(request)
    checks.run_id("run_id", request.run_id)
    if isinstance(request, run_service_pb2.StreamProgressRequest):
        checks.sequence("after_sequence", request.after_sequence)
        check_kinds(checks, "kinds", request.kinds)
        _check_positions(checks, request)
        if request.owner.HasField("grace"):
            checks.duration("owner.grace", request.owner.grace)
    checks.finish()


def owner_grace(owner: run_service_pb2.StreamOwner) -> int:
    """How long the owners of a run may be away, in milliseconds; of a checked request."""
    return milliseconds(owner.grace) if owner.HasField("grace") else OWNER_GRACE_MS


def _check_positions(checks: Checks, request: run_service_pb2.StreamProgressRequest) -> None:
    if request.positions and not request.include_children:
        checks.fail("positions", "only with include_children", "WITHOUT_CHILDREN")
    for run_id, sequence in request.positions.items():
        checks.run_id("positions", run_id)
        checks.sequence("positions", sequence)


def read_wait(request: run_service_pb2.WaitRunRequest, *, remaining_ms: int | None) -> int:
    """How long to wait, in milliseconds."""
    checks = Checks()
    checks.well_formed(request)
    checks.run_id("run_id", request.run_id)
    most_ms = LIMITS.wait_seconds * 1000
    if request.HasField("timeout"):
        most_ms = min(most_ms, checks.duration("timeout", request.timeout))
    checks.finish()
    return wait_time(remaining_ms, most_ms)


def check_result(request: run_service_pb2.GetToolCallResultRequest) -> None:
    """A request for a piece of a tool call's result."""
    checks = Checks()
    checks.well_formed(request)
    checks.run_id("run_id", request.run_id)
    checks.name("call_id", request.call_id)
    checks.sequence("offset", request.offset)
    checks.finish()


def check_messages(request: run_service_pb2.ListRunMessagesRequest) -> None:
    """A request for the conversation of one visit."""
    checks = Checks()
    checks.well_formed(request)
    checks.run_id("run_id", request.run_id)
    checks.name("step_id", request.step_id, required=False)
    checks.finish()


def read_runs_query(
    request: run_service_pb2.ListRunsRequest, *, tenant: Tenant, before: tuple[int, str] | None
) -> RunQuery:
    """A page of runs."""
    checks = Checks()
    checks.well_formed(request)
    query = read_filter(checks, "", request, tenant=tenant)
    limit = checks.page_size("page_size", request.page_size)
    checks.finish()
    return change(query, before=before, limit=limit)


def read_interrupts_page(request: run_service_pb2.ListInterruptsRequest) -> int:
    """How many interrupts to answer with."""
    checks = Checks()
    checks.well_formed(request)
    if request.run_id:
        checks.run_id("run_id", request.run_id)
    elif request.include_children:
        checks.fail("run_id", "required with include_children", "REQUIRED")
    limit = checks.page_size("page_size", request.page_size)
    checks.finish()
    return limit
