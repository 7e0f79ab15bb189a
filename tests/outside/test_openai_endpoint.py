"""A model behind the OpenAI wire: the endpoint chooses, from what it is sent, what the workflow does.

Judged by the endpoint's hit log and by the ledgers of the services that the tools are.
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState, View
from jackline_server.models.script import load_script
from tests.outside import worlds
from tests.outside.recording import recording
from tests.support.openai_endpoint import Call, Endpoint, Json, Reply, scripted, serve
from tests.support.server_process import Servers
from tests.support.tool_service import ToolService

REFUNDS = Path(__file__).parent.parent.parent / "examples" / "refunds"

DESK = """\
name: desk
model: fast
input:
  schema: {type: object, properties: {mark: {type: string}, question: {type: string}}, required: [question]}
flow: [answer]
steps:
  answer:
    kind: agent
    description: Answers from the warehouse.
    input: {question: /input/question}
    steering: You answer questions about our warehouse. Count before you speak.
    tools: [{ref: stock}, {ref: reserve}]
    bounds: {max_iterations: 4}
    outcome: {enum: [answered, reserved], output_key: said}
  stock:
    kind: http
    effect: read
    description: Counts an article.
    connection: shop
    path: /stock
    query: {article: "{{ article }}"}
  reserve:
    kind: http
    effect: idempotent
    description: Reserves an article.
    connection: shop
    method: POST
    path: /reserve
    body: {article: "{{ article }}"}
"""


def clerk(request: Json) -> Reply:
    """Counts what is asked about, reserves it if that is asked and there is some, and says so."""
    assert request["messages"][0]["role"] == "system"
    assert "Count before you speak." in request["messages"][0]["content"]
    question = next(message["content"] for message in request["messages"] if message["role"] == "user")
    results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    article = "lamp" if "lamp" in question else "chair"
    if not results:
        assert {tool["function"]["name"] for tool in request["tools"]} == {"stock", "reserve"}
        return called("stock", article)
    if (
        "reserve" in question
        and "reserved" not in results[-1]
        and '"count":0' not in results[-1].replace(" ", "")
    ):
        return called("reserve", article)
    outcome = "reserved" if "reserved" in results[-1] else "answered"
    return Reply(text=json.dumps({"outcome": outcome, "result": results[-1]}))


def called(tool: str, article: str) -> Reply:
    return Reply(calls=[Call(name=tool, arguments=json.dumps({"article": article}), call_id=f"c-{tool}")])


def unreported(request: Json) -> Reply:
    reply = clerk(request)
    return Reply(text=reply.text, calls=reply.calls, usage=None)


async def asked(
    servers: Servers, model: Endpoint, shop: ToolService, question: str, *, adapter: str = "auto"
) -> tuple[str, bool, bytes]:
    """One run of the desk: its signal, whether its usage is an estimate, and its result."""
    server = servers.make(worlds.endpoint(model.base_url, shop=shop.base_url, adapter=adapter))
    await server.start()
    async with recording(server) as recorder:
        await recorder.client.put_workflow(DESK)
        answer = await recorder.client.start_run("desk", input={"mark": "m", "question": question})
        recorder.watch(answer.run.run_id)
        shown: list[str] = []
        async for frame in recorder.client.watch(answer.run.run_id, view=View.VIEW_FULL, deltas=True):
            shown += [delta.text for delta in frame.deltas]
        await recorder.done()
        run = await recorder.client.get_run(answer.run.run_id, view=View.VIEW_FULL)
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        assert run.ledger.model_requests == len(model.hits)
        assert run.ledger.tool_calls == len(shop.entries)
        assert len(shown) > 1, "the reply came in pieces"
        await recorder.judged([run.run_id], entries=shop.entries, hits=[run.run_id] * len(model.hits))
        if not run.usage.estimated:
            assert run.usage.prompt_tokens == 11 * len(model.hits)
            assert run.usage.completion_tokens == 7 * len(model.hits)
        assert run.ledger.tokens == run.usage.prompt_tokens + run.usage.completion_tokens > 0
        return run.signal, run.usage.estimated, run.outcome.result_json


@pytest.mark.parametrize(
    ("question", "count", "signal", "tools"),
    [
        ("How many lamps are there?", 3, "answered", ["stock"]),
        ("Please reserve a lamp.", 3, "reserved", ["stock", "reserve"]),
        ("Please reserve a chair.", 0, "answered", ["stock"]),
    ],
)
async def test_the_endpoint_chooses_the_tools_by_what_it_is_sent(
    question: str, count: int, signal: str, tools: list[str], llm_servers: Servers, shop: ToolService
):
    shop.answers = {"stock": {"count": count}, "reserve": {"reserved": True}}
    async with serve(clerk) as model:
        got, estimated, _ = await asked(llm_servers, model, shop, question)

        assert (got, estimated) == (signal, False)
        assert [entry.tool for entry in shop.entries] == tools
        assert len({entry.key for entry in shop.entries}) == len(tools)
        assert all(hit["body"]["stream"] and hit["ending"] == "sent" for hit in model.hits)


async def test_the_same_run_goes_through_litellm_if_the_profile_says_so(
    llm_servers: Servers, shop: ToolService
):
    shop.answers = {"stock": {"count": 3}, "reserve": {"reserved": True}}
    async with serve(clerk) as model:
        got, estimated, _ = await asked(llm_servers, model, shop, "Please reserve a lamp.", adapter="litellm")
        assert (got, estimated) == ("reserved", False)
        assert [entry.tool for entry in shop.entries] == ["stock", "reserve"]


async def test_usage_that_is_not_reported_is_estimated_and_marked(llm_servers: Servers, shop: ToolService):
    shop.answers = {"stock": {"count": 3}}
    async with serve(unreported) as model:
        signal, estimated, result = await asked(llm_servers, model, shop, "How many lamps are there?")

    assert (signal, estimated) == ("answered", True)
    assert b"count" in result


# --- the example -------------------------------------------------------------------------------


@asynccontextmanager
async def order_service(ledger: Path) -> AsyncGenerator[str]:
    """The example's own service, as a process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(REFUNDS / "order_service.py"),
        "--ledger",
        str(ledger),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            line = (await process.stdout.readline()).decode()
        yield "http://" + line.split()[-1]
    finally:
        process.terminate()
        async with asyncio.timeout(20):
            await process.wait()


@pytest.mark.parametrize(
    ("message", "order", "paths"),
    [
        (
            "My lamp arrived broken. I want my money back.",
            "A-1001",
            ["/eu/orders/A-1001", "/eu/policies/refunds", "/eu/orders/A-1001/refunds"],
        ),
        ("When will it arrive?", "A-1001", ["/eu/orders/A-1001", "/eu/policies/shipping"]),
        ("I will call my lawyer.", "A-1001", ["/helpdesk/tickets"]),
    ],
)
async def test_the_refund_example_runs_on_a_real_endpoint(
    message: str, order: str, paths: list[str], llm_servers: Servers, tmp_path: Path
):
    ledger = tmp_path / "orders.jsonl"
    async with (
        order_service(ledger) as orders,
        serve(scripted(load_script(REFUNDS / "script.yaml"))) as model,
    ):
        server = llm_servers.make((REFUNDS / "jackline.live.toml").read_text(encoding="utf-8"))
        await server.start(
            "--workflows",
            str(REFUNDS / "workflows"),
            JACKLINE_QUICKSTART_MODEL="openai/test-model",
            JACKLINE_QUICKSTART_KEY="sk-test",
            JACKLINE_MODELS__FAST__BASE_URL=model.base_url,
            JACKLINE_MODELS__FAST__PRICE__INPUT_PER_MILLION="1",
            JACKLINE_MODELS__FAST__PRICE__OUTPUT_PER_MILLION="2",
            ORDERS_URL=orders,
            HELPDESK_URL=f"{orders}/helpdesk",
        )
        async with server.client() as client:
            answer = await client.start_run(
                "refunds", input={"message": message, "order_id": order, "shop": "eu"}
            )
            done = await client.wait_run(answer.run.run_id, timeout_s=30, view=View.VIEW_FULL)

        assert done.run.state == RunState.RUN_STATE_SUCCEEDED
        assert done.run.ledger.model_requests == len(model.hits)
        lines = [json.loads(line) for line in ledger.read_text(encoding="utf-8").splitlines()]
        assert sorted(line["path"] for line in lines) == sorted(paths)
        assert all(line["status"] in (200, 201) for line in lines)
        assert all(line["idempotency_key"].startswith(answer.run.run_id) for line in lines)
        assert all(hit["headers"]["authorization"] == "Bearer sk-test" for hit in model.hits)
