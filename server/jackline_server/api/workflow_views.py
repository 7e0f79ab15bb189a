"""Revisions, findings and plans as response messages."""

from collections.abc import Sequence

from jackline.v1 import run_service_pb2, workflow_service_pb2
from jackline_server.codec.plan import plan_message
from jackline_server.codec.values import set_time
from jackline_server.core.plan import ModelStep, Plan
from jackline_server.runtime.ports.definitions import Finding, Severity, WorstCase
from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.use_cases import Checked, Described, PutDone

_SEVERITIES = {
    Severity.ERROR: workflow_service_pb2.SEVERITY_ERROR,
    Severity.WARNING: workflow_service_pb2.SEVERITY_WARNING,
    Severity.INFO: workflow_service_pb2.SEVERITY_INFO,
}
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def validate_response(checked: Checked) -> workflow_service_pb2.ValidateWorkflowResponse:
    """The answer of a check."""
    return workflow_service_pb2.ValidateWorkflowResponse(
        valid=all(finding.severity is not Severity.ERROR for finding in checked.findings),
        findings=_findings(checked.findings),
    )


def put_response(done: PutDone) -> workflow_service_pb2.PutWorkflowResponse:
    """The answer of a put."""
    return workflow_service_pb2.PutWorkflowResponse(
        revision=revision_message(done.revision),
        created=done.created,
        findings=_findings(done.findings),
    )


def get_response(row: RevisionRow) -> workflow_service_pb2.GetWorkflowResponse:
    """A revision with its source."""
    return workflow_service_pb2.GetWorkflowResponse(
        revision=revision_message(row),
        workflow=run_service_pb2.InlineWorkflow(yaml=row.yaml, files=row.files),
    )


def describe_response(described: Described) -> workflow_service_pb2.DescribeWorkflowResponse:
    """A revision with what it compiles to."""
    return workflow_service_pb2.DescribeWorkflowResponse(
        revision=revision_message(described.revision),
        plan=plan_message(described.plan),
        tools=_tools(described.plan),
        worst_case=_worst_case(described.worst_case),
    )


def revision_message(row: RevisionRow) -> workflow_service_pb2.Revision:
    """A revision without its source."""
    message = workflow_service_pb2.Revision(
        name=row.name,
        digest=row.digest,
        aliases=sorted(row.aliases),
        owned_by_files=row.owned_by_files,
    )
    set_time(message.created_at, row.created_unix_ms)
    return message


def _findings(findings: Sequence[Finding]) -> list[workflow_service_pb2.Finding]:
    return [
        workflow_service_pb2.Finding(
            severity=_SEVERITIES[finding.severity],
            code=finding.code,
            message=finding.message,
            file=finding.file,
            line=finding.line,
            column=finding.column,
            path=finding.path,
        )
        for finding in sorted(findings, key=lambda finding: _ORDER[finding.severity])
    ]


def _tools(plan: Plan) -> list[workflow_service_pb2.ToolDescription]:
    return [
        workflow_service_pb2.ToolDescription(
            step_id=step.step_id,
            name=tool.ref,
            description=tool.description,
            parameters_json=tool.parameters_json.encode(),
        )
        for step in plan.steps.values()
        if isinstance(step, ModelStep)
        for tool in step.tools
    ]


def _worst_case(worst: WorstCase) -> workflow_service_pb2.WorstCase:
    return workflow_service_pb2.WorstCase(
        model_requests=worst.model_requests,
        tool_calls=worst.tool_calls,
        tokens=worst.tokens,
        cost_micros=worst.cost_micros,
        active_ms=worst.active_ms,
    )
