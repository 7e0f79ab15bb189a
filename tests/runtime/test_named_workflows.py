"""Workflows that run others: looked up when they are put, checked and started, each time as they are then."""

import json
import logging
from pathlib import Path

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.plan import ModelStep, Plan
from jackline_server.folder import WorkflowFolder
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.pinned_tools import NoCatalogs
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.reading.histories import Histories
from jackline_server.runtime.reading.loading import Loading
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.workflows.workflows import Workflows
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.harness import CALLER
from tests.definitions.workflows import compiler


def above(workflow: str = "below", name: str = "above") -> Source:
    return Source(
        yaml=(
            f"name: {name}\nmodel: fast\nflow: [x]\nsteps:\n"
            "  x: {kind: agent, steering: s, tools: [{ref: other}]}\n"
            f"  other: {{kind: workflow, description: d, effect: read, workflow: {workflow}}}\n"
        ),
        files={},
    )


def below(*names: str) -> Source:
    properties = ", ".join(f"{name}: {{type: string}}" for name in names)
    return Source(
        yaml=(
            f"name: below\nmodel: fast\ninput: {{schema: {{type: object, properties: {{{properties}}}}}}}\n"
            "flow: [x]\nsteps:\n  x: {kind: completion, prompt: p}\n"
        ),
        files={},
    )


@pytest.fixture
def workflows() -> Workflows:
    store: Store = memory_store()
    codec = ProtoCodec()
    histories = Histories(blobs=store.blobs, codec=codec)
    return Workflows(
        revisions=store.revisions,
        compiler=compiler(),
        catalogs=NoCatalogs(),
        loading=Loading(journal=store.journal, codec=codec, histories=histories),
        clock=SystemClock(),
    )


async def put(workflows: Workflows, source: Source) -> list[str]:
    done = await workflows.put(CALLER, source, alias="", expect_digest="")
    return [finding.code for finding in done.findings]


def asked(plan: Plan) -> list[str]:
    step = plan.steps["x"]
    assert isinstance(step, ModelStep)
    return list(json.loads(step.tools[0].parameters_json)["properties"])


async def test_two_workflows_may_be_put_in_any_order_and_start_once_both_are_there(workflows: Workflows):
    assert "child_unknown" in await put(workflows, above())
    with pytest.raises(Refused) as refused:
        await workflows.plan_for(DEFAULT_TENANT, "above", None)
    assert refused.value.reason is Reason.INVALID_WORKFLOW
    assert [one.field for one in refused.value.violations] == ["steps.other.workflow"]
    await put(workflows, below("text"))
    assert asked(await workflows.plan_for(DEFAULT_TENANT, "above", None)) == ["text"]
    assert "child_unknown" not in await put(workflows, above())


async def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(workflows: Workflows):
    await put(workflows, below("text"))
    checked = await workflows.check(DEFAULT_TENANT, above("belw"))
    (unknown,) = [one for one in checked.findings if one.code == "child_unknown"]
    assert "below" in unknown.message
    checked = await workflows.check(DEFAULT_TENANT, above("below@live"))
    (unknown,) = [one for one in checked.findings if one.code == "child_unknown"]
    assert "latest" in unknown.message


async def test_a_workflow_that_is_not_there_is_never_said_to_be_the_one_that_runs_it(workflows: Workflows):
    await put(workflows, above("abovf"))
    with pytest.raises(Refused) as refused:
        await workflows.plan_for(DEFAULT_TENANT, "above", None)
    assert "Did you mean" not in refused.value.message
    await put(workflows, above("below", name="abovg"))
    checked = await workflows.check(DEFAULT_TENANT, above("abovf"))
    (unknown,) = [one for one in checked.findings if one.code == "child_unknown"]
    assert "Did you mean abovg?" in unknown.message


async def test_a_workflow_that_is_not_there_is_said_to_be_missing_once(workflows: Workflows):
    await put(workflows, above("abovf"))
    with pytest.raises(Refused) as refused:
        await workflows.plan_for(DEFAULT_TENANT, "above", None)
    assert refused.value.message == (
        "`other` runs the workflow `abovf`. There is no such workflow. List the workflows, or put it first. "
        "No run of this one starts until it is there."
    )


async def test_an_alias_means_what_it_leads_to_when_a_run_starts_and_a_digest_what_it_was(
    workflows: Workflows,
):
    first = await workflows.put(CALLER, below("text"), alias="", expect_digest="")
    await put(workflows, above())
    await put(workflows, above(f"below@{first.revision.digest[:12]}", name="pinned"))
    await put(workflows, below("words"))
    assert asked(await workflows.plan_for(DEFAULT_TENANT, "above", None)) == ["words"]
    assert asked(await workflows.plan_for(DEFAULT_TENANT, "pinned", None)) == ["text"]
    described = await workflows.describe(DEFAULT_TENANT, "above")
    assert asked(described.plan) == ["words"]


async def test_workflows_beside_the_one_that_is_checked_are_found_and_not_stored(workflows: Workflows):
    checked = await workflows.check(DEFAULT_TENANT, above(), beside=[below("text")])
    assert checked.plan is not None
    assert asked(checked.plan) == ["text"]
    with pytest.raises(Refused):
        await workflows.get_revision(DEFAULT_TENANT, "below")


async def test_a_workflow_of_another_tenant_is_not_there(workflows: Workflows):
    await put(workflows, below("text"))
    checked = await workflows.check(Tenant("another"), above())
    assert "child_unknown" in {one.code for one in checked.findings}
    again = await workflows.check(DEFAULT_TENANT, above())
    assert "child_unknown" not in {one.code for one in again.findings}


async def test_a_circle_of_workflows_is_refused_by_whoever_closes_it(workflows: Workflows):
    await put(workflows, above("between"))
    await put(workflows, above("below", name="between"))
    with pytest.raises(Refused) as refused:
        await workflows.put(CALLER, above("above", name="below"), alias="", expect_digest="")
    (circle,) = refused.value.violations
    assert circle.reason == "child_recursion"
    assert "above -> between -> below" in circle.description, "in ASCII, as a status is"


async def test_a_crowd_of_workflows_is_looked_at_as_far_as_is_bearable(workflows: Workflows):
    for number in range(80):
        await put(workflows, above(f"w{number + 1}", name=f"w{number}"))
    await put(workflows, above("w0", name="w80"))
    assert (await workflows.plan_for(DEFAULT_TENANT, "w40", None)).name == "w40"


async def test_a_folder_says_nothing_of_what_its_own_later_files_mend(
    workflows: Workflows, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    folder = WorkflowFolder(tmp_path, workflows=workflows)
    (tmp_path / "a.yaml").write_text(above().yaml)
    (tmp_path / "b.yaml").write_text(below("text").yaml)
    (tmp_path / "c.yaml").write_text(above("belov", name="other").yaml)
    with caplog.at_level(logging.WARNING):
        await folder.import_all()
        await folder.import_all()
    told = [record.getMessage() for record in caplog.records if "child_unknown" in record.getMessage()]
    assert [one.split(":")[0] for one in told] == ["c.yaml"]
    assert asked(await workflows.plan_for(DEFAULT_TENANT, "above", None)) == ["text"]
