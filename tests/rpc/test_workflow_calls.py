"""WorkflowService: what reaches the use cases, and what comes back."""

from jackline.v1.run_service_pb2 import (
    InlineWorkflow,
)
from jackline.v1.workflow_service_pb2 import (
    DescribeWorkflowRequest,
    DescribeWorkflowResponse,
    GetWorkflowRequest,
    GetWorkflowResponse,
    ListWorkflowsRequest,
    ListWorkflowsResponse,
    PutWorkflowRequest,
    PutWorkflowResponse,
    ValidateWorkflowRequest,
    ValidateWorkflowResponse,
)
from jackline_server.runtime.ports.definitions import Finding, Severity, WorstCase
from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import (
    Checked,
    Described,
    PutDone,
)
from tests.rpc.doubles import (
    NOW_MS,
    PLAN,
)
from tests.rpc.harness import Harness

REVISION = RevisionRow(
    tenant=DEFAULT_TENANT,
    name="refunds",
    digest="d" * 64,
    yaml="name: refunds",
    files={"a.md": b"A"},
    created_unix_ms=NOW_MS,
    aliases=("latest",),
)
FINDINGS = (
    Finding(severity=Severity.INFO, code="worst", message="m", file="f", line=1, column=2, path="p"),
    Finding(severity=Severity.ERROR, code="bad", message="m", file="f", line=0, column=0, path=""),
)
SOURCE = InlineWorkflow(yaml="name: refunds", files={"a.md": b"A"})


async def test_a_check_lists_errors_first(door: Harness) -> None:
    door.script.always("check", Checked(findings=FINDINGS, plan=None))
    request = ValidateWorkflowRequest(workflow=SOURCE, beside=[InlineWorkflow(yaml="name: other")])
    answer = await door.ask("ValidateWorkflow", request, ValidateWorkflowResponse)
    assert (answer.valid, [one.code for one in answer.findings]) == (False, ["bad", "worst"])
    tenant, source, beside = door.script.asked[0][1]
    assert (tenant, source.yaml, [one.yaml for one in beside]) == (
        DEFAULT_TENANT, "name: refunds", ["name: other"],
    )  # fmt: skip


async def test_a_put_answers_with_the_revision(door: Harness) -> None:
    door.script.always("put", PutDone(revision=REVISION, created=True, findings=FINDINGS[:1]))
    request = PutWorkflowRequest(workflow=SOURCE, alias="stable", expect_digest="none")
    answer = await door.ask("PutWorkflow", request, PutWorkflowResponse)
    assert (answer.created, answer.revision.digest, list(answer.revision.aliases)) == (
        True, "d" * 64, ["latest"],
    )  # fmt: skip
    assert door.script.asked[0][1][2:] == ("stable", "none")


async def test_a_revision_is_read_with_its_source(door: Harness) -> None:
    door.script.always("get_revision", REVISION)
    answer = await door.ask("GetWorkflow", GetWorkflowRequest(workflow="refunds@stable"), GetWorkflowResponse)
    assert (answer.workflow.yaml, dict(answer.workflow.files)) == ("name: refunds", {"a.md": b"A"})


async def test_workflows_come_page_by_page(door: Harness) -> None:
    def revisions(_: object, after: str, limit: int) -> list[RevisionRow]:
        return [] if after else [REVISION] * limit

    door.script.on("revisions", revisions)
    request = ListWorkflowsRequest(page_size=2)
    first = await door.ask("ListWorkflows", request, ListWorkflowsResponse)
    assert [one.name for one in first.revisions] == ["refunds"] * 2
    request.page_token = first.next_page_token
    second = await door.ask("ListWorkflows", request, ListWorkflowsResponse)
    assert (len(second.revisions), second.next_page_token) == (0, "")
    assert door.script.asked[1][1][1:] == ("refunds", 2)


async def test_a_description_shows_the_plan_and_its_tools(door: Harness) -> None:
    worst = WorstCase(model_requests=16, tool_calls=None, tokens=0, cost_micros=None, active_ms=5)
    door.script.always("describe", Described(revision=REVISION, plan=PLAN, worst_case=worst))
    answer = await door.ask(
        "DescribeWorkflow", DescribeWorkflowRequest(workflow="refunds"), DescribeWorkflowResponse
    )
    assert [step.step_id for step in answer.plan.steps] == ["answer", "refund"]
    assert [(tool.step_id, tool.name) for tool in answer.tools] == [("answer", "refund")]
    assert answer.worst_case.tokens == 0
    assert answer.worst_case.HasField("tokens")
    assert not answer.worst_case.HasField("tool_calls")
