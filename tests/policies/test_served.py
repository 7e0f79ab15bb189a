"""Hooks, guardrails, masks and a policy on a real server: from its config to what stands in its store."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from jackline.v1 import policy_pb2
from jackline.v1.run_pb2 import RunState, StopReason, View
from jackline_client import JacklineClient
from tests.policies.policy_double import ALLOW, DENY, PolicyDouble, served
from tests.support.server_process import Servers, servers_in
from tests.support.tool_service import ToolService, tools_served
from tests.support.warm_server import shared

SECRETS = {
    "input": "ann.input@example.org",
    "reply": "4111111111111111",
    "argument": "NL91ABNA0417164300",
    "result": "bob.result@example.org",
}
"""A value for each way in. It must be in no byte of the store."""

WORKFLOW = """\
name: desk
model: demo
hooks: [audit]
policy: {use: guard, view: full, timeout: 5s}
guardrails: {input: [{pii: [email]}]}
flow: [pay]
steps:
  pay:
    kind: agent
    input: {question: /input/question}
    steering: Pay.
    tools: [{ref: look}, {ref: transfer}]
    answer: text
    guardrails:
      output: [{max_chars: 200}, {pii: [card]}]
      tools: [{pii: [iban, email]}]
  look: {kind: http, effect: read, description: Looks., connection: shop, path: /look,
         parameters: {type: object, properties: {account: {type: string}}}, query: {account: "{{ account }}"}}
  transfer: {kind: http, effect: write, description: Pays., connection: shop, method: POST, path: /transfer,
             parameters: {type: object, properties: {amount: {type: number}}, required: [amount]},
             body: {amount: "{{ amount }}"}}
"""


def script(amount: int) -> str:
    return f"""\
turns:
  - {{when: {{turn: 1}}, text: "My card is {SECRETS["reply"]}.",
     tool_calls: [{{name: look, arguments: {{account: {SECRETS["argument"]}}}}}]}}
  - {{when: {{turn: 2}}, tool_calls: [{{name: transfer, arguments: {{amount: {amount}}}}}]}}
  - {{when: {{turn: 3}}, text: "Done with {SECRETS["reply"]}."}}
"""


def config(policy: str, shop: str) -> str:
    return f"""\
[models.demo]
adapter = "scripted"
script = "./script.yaml"

[connections.shop]
kind = "http"
base_url = "{shop}"

[hooks.audit]
class = "tests.policies.hook_classes:Audit"
options = {{most = 100}}

[policies.guard]
target = "{policy}"
"""


def unless_large(request: policy_pb2.CheckRequest) -> policy_pb2.CheckResponse:
    large = request.tool == "transfer" and json.loads(request.arguments_json)["amount"] > 10
    return DENY if large else ALLOW


@pytest.fixture
async def policy() -> AsyncGenerator[PolicyDouble]:
    async with served(unless_large) as double:
        yield double


@pytest.fixture
async def shop() -> AsyncGenerator[ToolService]:
    async with tools_served() as service:
        long = ["a line of words\n" * 60] * 400  # more than the log keeps: the rest is kept beside it
        service.answers["look"] = {"owner": SECRETS["result"], "lines": long, "end": SECRETS["result"]}
        yield service


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    async with servers_in(tmp_path, shared()) as made:
        yield made


async def ran(servers: Servers, policy: PolicyDouble, shop: ToolService, amount: int) -> tuple[str, Path]:
    """What the run came to, as JSON, and the data folder of its server, which is down again."""
    server = servers.make(config(policy.address, shop.base_url))
    (server.folder / "script.yaml").write_text(script(amount), encoding="utf-8")
    await server.start()
    async with server.client() as client, asyncio.timeout(60):
        shown = await _run(client)
    await server.stop()
    return shown, server.data


async def _run(client: JacklineClient) -> str:
    started = await client.start_run(
        inline_yaml=WORKFLOW,
        input={"question": f"I am {SECRETS['input']}"},
        subject={"name": "Ann"},
    )
    await client.wait_run(started.run.run_id)
    run = await client.get_run(started.run.run_id, view=View.VIEW_FULL)
    calls = await client.list_tool_calls(started.run.run_id, view=View.VIEW_FULL)
    return json.dumps(
        {
            "state": RunState.Name(run.state),
            "reason": StopReason.Name(run.stop_reason),
            "metadata": dict(run.metadata),
            "input": run.input_json.decode(),
            "result": run.outcome.result_json.decode(),
            "calls": [(call.tool, call.arguments_json.decode(), call.result[:60]) for call in calls],
        }
    )


async def test_what_is_masked_is_nowhere_in_the_store_and_nobody_was_sent_it(
    servers: Servers, policy: PolicyDouble, shop: ToolService
) -> None:
    shown, data = await ran(servers, policy, shop, amount=5)
    found = json.loads(shown)
    assert found["state"] == "RUN_STATE_SUCCEEDED", found
    assert found["metadata"] == {"who": "Ann"}
    assert found["input"] == '{"question":"I am [email]"}'
    assert found["result"] == '"Done with [card]."'
    assert found["calls"][0][1] == '{"account":"[iban]"}'
    assert found["calls"][0][2].startswith('{"owner":"[email]"')
    assert len(shop.of("look")) == len(shop.of("transfer")) == 1
    assert [request.tool for request in policy.asked] == ["look", "transfer"]
    stored = b"".join(path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file())
    assert b"[email]" in stored
    assert {name: value.encode() in stored for name, value in SECRETS.items()} == dict.fromkeys(
        SECRETS, False
    )


async def test_a_policy_in_another_process_keeps_a_transfer_out_and_the_run_goes_on(
    servers: Servers, policy: PolicyDouble, shop: ToolService
) -> None:
    shown, _ = await ran(servers, policy, shop, amount=50)
    found = json.loads(shown)
    assert found["state"] == "RUN_STATE_SUCCEEDED", found
    assert "not on a Monday" in found["calls"][1][2]
    assert not shop.of("transfer")


async def test_a_hook_of_the_operator_ends_a_run_that_wants_too_much(
    servers: Servers, policy: PolicyDouble, shop: ToolService
) -> None:
    shown, _ = await ran(servers, policy, shop, amount=500)
    found = json.loads(shown)
    assert (found["state"], found["reason"]) == ("RUN_STATE_FAILED", "STOP_REASON_HOOK_VETO"), found
    assert not shop.of("transfer")
