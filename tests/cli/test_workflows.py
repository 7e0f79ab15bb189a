"""`jackline workflow` and `validate` through the console script."""

import asyncio
import json

import grpc
import pytest

from jackline.v1 import workflow_service_pb2 as wire
from jackline.v1.plan_pb2 import ApprovalPlan, Plan, StepPlan
from jackline.v1.run_pb2 import ApprovalExpiry, Effect
from jackline.v1.run_service_pb2 import InlineWorkflow
from tests.cli.console import Console
from tests.support.scripted_service import Failure, ScriptedService

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e"
REVISION = wire.Revision(name="refunds", digest="ab" * 32, owned_by_files=True)


async def test_findings_are_printed_with_their_place(console: Console, service: ScriptedService) -> None:
    (console.home / "flow.yaml").write_text("name: x\n")
    error = wire.Finding(
        severity=wire.SEVERITY_ERROR, code="unknown_key", message="no such key", line=3, column=5
    )
    service.script("ValidateWorkflow", wire.ValidateWorkflowResponse(findings=[error]))
    done = await console.run("validate", "flow.yaml")
    assert (done.code, done.out) == (1, "flow.yaml:3:5: error: no such key [unknown_key]\n")


@pytest.mark.parametrize(
    ("severity", "given", "code"),
    [
        (wire.SEVERITY_WARNING, (), 0),
        (wire.SEVERITY_WARNING, ("--strict",), 1),
        (wire.SEVERITY_INFO, ("--strict",), 0),
    ],
)
async def test_a_warning_fails_a_strict_check_and_no_other(
    console: Console,
    service: ScriptedService,
    severity: wire.Severity.ValueType,
    given: tuple[str, ...],
    code: int,
) -> None:
    (console.home / "flow.yaml").write_text("name: x\n")
    found = wire.Finding(severity=severity, code="expression_text_unknown", message="no such tool")
    service.script("ValidateWorkflow", wire.ValidateWorkflowResponse(valid=True, findings=[found]))
    assert (await console.run("validate", "flow.yaml", *given)).code == code


async def test_findings_as_json_name_the_file_that_was_given(
    console: Console, service: ScriptedService
) -> None:
    (console.home / "flow.yaml").write_text("name: x\n")
    error = wire.Finding(severity=wire.SEVERITY_ERROR, code="unknown_key", file="workflow.yaml", line=3)
    service.script("ValidateWorkflow", wire.ValidateWorkflowResponse(findings=[error]))
    done = await console.run("validate", "flow.yaml", "--json")
    assert json.loads(done.out)["file"] == "flow.yaml"


@pytest.mark.parametrize("words", [("run", "--file", "flow.yaml"), ("workflow", "put", "flow.yaml")])
async def test_errors_of_a_file_that_was_sent_have_its_own_name_and_place(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    (console.home / "a/steering").mkdir(parents=True)
    (console.home / "a/steering/tone.md").write_text("kindly")
    (console.home / "flow.yaml").write_text("name: x\nsteering_files: [tone.md]\n")
    invalid = Failure(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="INVALID_WORKFLOW",
        violations=(
            ("steps.a", "workflow.yaml:27:15: no such key"),
            ("workflow", "a/steering/tone.md:1:1: this looks like an API key"),
        ),
    )
    service.script("StartRun" if words[0] == "run" else "PutWorkflow", invalid)
    done = await console.run(*words)
    assert done.code == 65
    assert "flow.yaml has 2 errors" in done.err
    assert "  flow.yaml:27:15: no such key\n" in done.err
    assert "  a/steering/tone.md:1:1: this looks like an API key\n" in done.err


async def test_workflows_are_listed_put_and_described(console: Console, service: ScriptedService) -> None:
    (console.home / "flow.yaml").write_text("name: refunds\n")
    warning = wire.Finding(severity=wire.SEVERITY_WARNING, code="no_tools", message="none", line=2, column=1)
    service.script("ListWorkflows", wire.ListWorkflowsResponse(revisions=[REVISION]))
    service.script(
        "PutWorkflow", wire.PutWorkflowResponse(revision=REVISION, created=True, findings=[warning])
    )
    plan = Plan(flow=["handle"], steps=[StepPlan(step_id="handle", kind="agent", routes={"done": "end"})])
    tool = wire.ToolDescription(step_id="handle", name="lookup", description="Reads " + HOSTILE)
    described = wire.DescribeWorkflowResponse(
        revision=REVISION, plan=plan, tools=[tool], worst_case=wire.WorstCase(model_requests=1, tokens=40_000)
    )
    service.script("DescribeWorkflow", described, described)
    listed = await console.run("workflow", "ls")
    assert "refunds" in listed.out.splitlines()[1]
    put = await console.run("workflow", "put", "flow.yaml", "--alias", "trial", "--expect-digest", "none")
    assert (put.code, put.out) == (0, "refunds@abababababab stored\n")
    assert put.err == "flow.yaml:2:1: warning: none [no_tools]\n"
    (request,) = service.requests(wire.PutWorkflowRequest)
    assert (request.alias, request.expect_digest) == ("trial", "none")
    shown = await console.run("workflow", "describe", "refunds")
    assert "at most 1 model call, 40,000 tokens, an unknown price" in shown.out
    assert "tool lookup: Reads" in shown.out
    assert not shown.hidden_bytes
    as_json = await console.run("workflow", "describe", "refunds", "--json")
    assert json.loads(as_json.out)["plan"]["flow"] == ["handle"]


async def test_files_that_are_checked_together_are_sent_beside_each_other(
    console: Console, service: ScriptedService
) -> None:
    (console.home / "a.yaml").write_text("name: a\n")
    (console.home / "b.yaml").write_text("name: b\n")
    error = wire.Finding(severity=wire.SEVERITY_ERROR, code="bad", message="m", file="workflow.yaml", line=3)
    service.script(
        "ValidateWorkflow",
        wire.ValidateWorkflowResponse(valid=False, findings=[error]),
        wire.ValidateWorkflowResponse(valid=True),
    )
    done = await console.run("validate", "a.yaml", "b.yaml")
    assert (done.code, done.out) == (1, "a.yaml:3:0: error: m [bad]\nb.yaml: no findings\n")
    sent = service.requests(wire.ValidateWorkflowRequest)
    texts = [(one.workflow.yaml, [other.yaml for other in one.beside]) for one in sent]
    assert texts == [("name: a\n", ["name: b\n"]), ("name: b\n", ["name: a\n"])]
    (console.home / "large.yaml").write_text("x" * 240 * 1024)
    for wrong in (("-", "-"), ("a.yaml", "large.yaml"), ("a.yaml",) * 65):
        assert (await console.run("validate", *wrong)).code == 2


async def test_a_step_that_runs_a_workflow_is_described_with_what_it_is_given(
    console: Console, service: ScriptedService
) -> None:
    runs = StepPlan(step_id="check", kind="workflow")
    runs.tool_step.child.workflow = "proofread@live"
    runs.tool_step.child.share.token_budget = 4_000
    scout = StepPlan(step_id="scout", kind="agent")
    scout.model_step.as_tool.share.SetInParent()
    plan = Plan(flow=["check"], steps=[runs, scout])
    bounded, unbounded = wire.WorstCase(tokens=60_000, active_ms=9_000), wire.WorstCase(active_ms=9_000)
    answers = [
        wire.DescribeWorkflowResponse(revision=REVISION, plan=plan, worst_case=worst)
        for worst in (bounded, unbounded)
    ]
    service.script("DescribeWorkflow", *answers)
    shown = (await console.run("workflow", "describe", "refunds")).out
    assert "runs the workflow proofread@live, given 4,000 tokens\n" in shown
    assert "as a tool a run of its own, given an equal part of what is left\n" in shown
    assert "at most 60,000 tokens, 9 s of active time, with all the runs that it starts" in shown
    assert "nothing but time" in (await console.run("workflow", "describe", "refunds")).out


async def test_a_tool_is_described_with_what_it_does_and_who_has_to_let_it(
    console: Console, service: ScriptedService
) -> None:
    send = StepPlan(step_id="send", kind="function")
    send.tool_step.effect = Effect.EFFECT_DESTRUCTIVE
    send.tool_step.approval.CopyFrom(
        ApprovalPlan(expiry_ms=7_200_000, on_expiry=ApprovalExpiry.APPROVAL_EXPIRY_NEEDS_REVIEW)
    )
    agent = StepPlan(step_id="handle", kind="agent")
    rejected = ApprovalExpiry.APPROVAL_EXPIRY_REJECT
    word = ApprovalPlan(when="arguments.n > 1 " + HOSTILE, expiry_ms=60_000, on_expiry=rejected)
    agent.model_step.tools.add(ref="send", approval=word)
    tool = wire.ToolDescription(step_id="handle", name="send", description="Sends.")
    answer = wire.DescribeWorkflowResponse(
        revision=REVISION, plan=Plan(flow=["handle"], steps=[agent, send]), tools=[tool]
    )
    service.script("DescribeWorkflow", answer)
    shown = await console.run("workflow", "describe", "refunds")
    assert (
        "  tool send (destructive): Sends.\n    a call waits to be approved where arguments.n > 1"
        in shown.out
    )
    assert ": 60 s at most, then it is rejected\n" in shown.out
    assert "step send (function, destructive)\n" in shown.out
    assert "\n  each call waits to be approved: 7,200 s at most, then the step ends for review\n" in shown.out
    assert not shown.hidden_bytes


async def test_a_workflow_is_printed_or_written_with_its_files_and_never_over_others(
    console: Console, service: ScriptedService
) -> None:
    files = {"handle/steering/tone.md": b"kindly \xff"}
    found = wire.GetWorkflowResponse(
        revision=REVISION, workflow=InlineWorkflow(yaml="name: refunds\n", files=files)
    )
    service.script("GetWorkflow", found, found, found)
    assert (await console.run("workflow", "get", "refunds")).out == "name: refunds\n"
    for code in (0, 2):
        done = await console.run("workflow", "get", "refunds", "--out", "copy")
        assert done.code == code
    assert (console.home / "copy/refunds.yaml").read_text() == "name: refunds\n"
    assert (console.home / "copy/handle/steering/tone.md").read_bytes() == b"kindly \xff"


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a//b", "a\\b", "./a"])
async def test_a_file_name_that_leads_out_of_the_folder_is_not_written(
    console: Console, service: ScriptedService, name: str
) -> None:
    found = wire.GetWorkflowResponse(revision=REVISION, workflow=InlineWorkflow(yaml="", files={name: b"x"}))
    service.script("GetWorkflow", found)
    assert (await console.run("workflow", "get", "refunds", "--out", "copy")).code == 2
    assert not await asyncio.to_thread((console.home / "copy").exists)
