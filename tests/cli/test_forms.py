"""`-o`: the same things as a table, JSON, YAML and names."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import yaml
from google.protobuf.message import Message

from jackline.v1 import connection_pb2
from jackline.v1 import run_service_pb2 as wire
from jackline.v1 import tool_worker_pb2 as workers
from jackline.v1 import workflow_service_pb2 as flows
from jackline.v1.plan_pb2 import Plan
from jackline.v1.run_pb2 import Interrupt, Ledger, MessageRole, Run, RunMessage, RunState, ToolCall
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, ScriptedService

HOSTILE = "\x1b[2J\u202e\U0001f600: - #"


@dataclass(frozen=True, slots=True)
class Reading:
    """A command that reads, what it is answered, its names, and heads that only the wide table has."""

    words: tuple[str, ...]
    method: str
    answer: Message
    names: tuple[str, ...]
    wide: str


RUN = Run(
    run_id=RUN_ID,
    workflow="refunds" + HOSTILE,
    state=RunState.RUN_STATE_RUNNING,
    ledger=Ledger(tokens=1_234, cost_micros=5),
    labels={"team": HOSTILE, "no": "on"},
)
OTHER = Run(run_id="run_2", workflow="true", signal="1e3")
CALL = ToolCall(call_id="call_1", tool="look", arguments_json=b'{"a":"\\u0000"}', result=HOSTILE)
ASKED = Interrupt(run_id=RUN_ID, interrupt_id="int_1", question="Was it?\nReally?", options=["yes", "no"])
REVISION = flows.Revision(name="refunds", digest="ab" * 32)
FOUND = flows.GetWorkflowResponse(
    revision=REVISION, workflow=wire.InlineWorkflow(yaml="name: x\nflow: [a]\n", files={"a/b": b"\xff"})
)
DESCRIBED = flows.DescribeWorkflowResponse(revision=REVISION, plan=Plan(flow=["handle"]))
POOLS = (
    workers.WorkerPool(name="depot", workers=[workers.ToolWorker(worker=HOSTILE, tools=["look", HOSTILE])]),
    workers.WorkerPool(name="hub", waiting_count=2),
)
WHOLE = f"refunds@{'ab' * 32}"
READINGS: Mapping[str, Reading] = {
    "ls": Reading(("ls",), "ListRuns", wire.ListRunsResponse(runs=[RUN, OTHER]), (RUN_ID, "run_2"), "LABELS"),
    "get": Reading(("get", RUN_ID), "GetRun", wire.GetRunResponse(run=RUN), (RUN_ID,), "LABELS"),
    "inbox": Reading(
        ("inbox",),
        "ListInterrupts",
        wire.ListInterruptsResponse(interrupts=[ASKED]),
        (f"{RUN_ID} int_1",),
        "OPTIONS",
    ),
    "calls": Reading(
        ("calls", RUN_ID),
        "ListToolCalls",
        wire.ListToolCallsResponse(tool_calls=[CALL]),
        ("call_1",),
        "RESULT",
    ),
    "workflow ls": Reading(
        ("workflow", "ls"),
        "ListWorkflows",
        flows.ListWorkflowsResponse(revisions=[REVISION]),
        ("refunds",),
        "WHOLE DIGEST",
    ),
    "workflow get": Reading(("workflow", "get", "refunds"), "GetWorkflow", FOUND, (WHOLE,), "FILES"),
    "workflow describe": Reading(
        ("workflow", "describe", "refunds"), "DescribeWorkflow", DESCRIBED, (WHOLE,), "TOOLS"
    ),
    "info": Reading(
        ("info",),
        "GetServerInfo",
        wire.GetServerInfoResponse(version="1.2.3", models=["fast"]),
        ("1.2.3",),
        "STEP KINDS",
    ),
    "workers": Reading(
        ("workers",),
        "ListToolWorkers",
        workers.ListToolWorkersResponse(pools=POOLS),
        ("depot", "hub"),
        "PRINCIPAL",
    ),
    "connections": Reading(
        ("connections",),
        "ListConnections",
        connection_pb2.ListConnectionsResponse(
            connections=[
                connection_pb2.Connection(name="orders", problem=HOSTILE, concurrency=4),
                connection_pb2.Connection(name="depot", failure_count=2, concurrency=4),
            ]
        ),
        ("orders", "depot"),
        "FAILURES",
    ),
}
MESSAGES = wire.ListRunMessagesResponse(
    messages=[RunMessage(role=MessageRole.MESSAGE_ROLE_USER, text="two\nlines " + HOSTILE)]
)


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
async def test_every_form_says_the_same(console: Console, service: ScriptedService, reading: Reading) -> None:
    service.script(reading.method, *[reading.answer] * 6)
    alias = await console.run(*reading.words, "--json")
    as_json = await console.run(*reading.words, "-o", "json")
    assert (as_json.code, as_json.out) == (0, alias.out)
    documents = [json.loads(line) for line in as_json.out.splitlines()]
    assert len(documents) == len(reading.names)
    as_yaml = await console.run(*reading.words, "--output", "yaml")
    assert list(yaml.safe_load_all(as_yaml.out)) == documents
    assert as_yaml.out.isascii()
    assert (await console.run(*reading.words, "-o", "name")).out.splitlines() == list(reading.names)
    table = await console.run(*reading.words, "-o", "table")
    wide = await console.run(*reading.words, "-o", "wide")
    head, *rows = table.out.splitlines()
    assert head.isupper()
    assert len(rows) == len(wide.out.splitlines()) - 1 == len(reading.names)
    assert reading.wide not in head
    assert reading.wide in wide.out.splitlines()[0]
    assert set(head.split()) <= set(wide.out.splitlines()[0].split())
    for done in (as_json, as_yaml, table, wide):
        assert not done.hidden_bytes


async def test_messages_have_every_form_but_names(console: Console, service: ScriptedService) -> None:
    service.script("ListRunMessages", *[MESSAGES] * 2)
    (document,) = yaml.safe_load_all((await console.run("messages", RUN_ID, "-o", "yaml")).out)
    assert document["text"] == "two\nlines " + HOSTILE
    assert "two\\nlines" in (await console.run("messages", RUN_ID, "-o", "table")).out.splitlines()[1]
    refused = await console.run("messages", RUN_ID, "-o", "name")
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize(
    "words",
    [
        ("ls", "-o", "xml"),
        ("ls", "--json", "-o", "yaml"),
        ("workflow", "get", "x", "--out", "f", "-o", "json"),
    ],
    ids=" ".join,
)
async def test_forms_that_are_none_or_two_are_exit_2(console: Console, words: tuple[str, ...]) -> None:
    assert (await console.run(*words)).code == 2


@pytest.mark.parametrize("form", ["json", "yaml", "name"])
async def test_nothing_is_no_line_for_a_program(
    console: Console, service: ScriptedService, form: str
) -> None:
    service.script("ListRuns", wire.ListRunsResponse())
    done = await console.run("ls", "-o", form)
    assert (done.code, done.out, done.err) == (0, "", "")
