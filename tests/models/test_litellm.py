"""The litellm adapter against a real endpoint over loopback HTTP; litellm itself is the real one."""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from jackline_server.core.facts import FailureClass, FinishReason, Usage
from jackline_server.core.messages import AssistantMessage, MessageToolCall, ToolMessage, UserMessage
from jackline_server.core.plan import Price
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.models.translate import wire_reply_format
from jackline_server.runtime.ports.models import ModelRequest, TextChunk
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import PROMPT, collect, failure_of, model_plan, reply_of, request
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import (
    DONE,
    Behaviour,
    Call,
    Cut,
    Hang,
    Json,
    Reply,
    Send,
    Wire,
    chunk,
    sse,
)

KEY = "sk-planted-0123456789abcdef"
HALF = sse(chunk({"content": "half"}))
HELLO = sse(chunk({"content": "hello"}))
STOP = sse(chunk(finish="stop"))


@contextlib.asynccontextmanager
async def against(
    behaviour: Behaviour,
) -> AsyncGenerator[tuple[ModelRouter, endpoint.Endpoint]]:
    """The adapter in its guards, and the endpoint that it talks to."""
    async with endpoint.serve(behaviour) as server:
        profile = ModelProfile(api_key=Secret(KEY), base_url=server.base_url)
        adapter = LiteLLMModels({"p": profile})
        await adapter.load()
        try:
            yield ModelRouter(adapters={"litellm": adapter}, profiles={"p": profile}), server
        finally:
            await adapter.close()


def ask(*, model: str = "openai/test-model", total_ms: int = 20_000, idle_ms: int = 10_000) -> ModelRequest:
    return request(plan=model_plan(model=model, adapter="litellm"), total_ms=total_ms, idle_ms=idle_ms)


def always(answer: Reply | Wire) -> Behaviour:
    return lambda _: answer


# hosted_vllm goes through litellm's own wrapper of streams, openai past it
both_paths = pytest.mark.parametrize("model", ["openai/test-model", "hosted_vllm/test-model"])
pytestmark = [  # litellm's own types and models, built late
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
]


@pytest.fixture(scope="module", autouse=True)
def warmed() -> None:
    """The first call of a process brings in much of litellm, longer than the short timers here allow."""

    async def call_once(model: str) -> None:
        async with against(always(Wire(pieces=[HELLO, STOP]))) as (models, _):
            await reply_of(models, ask(model=model))

    for model in ("openai/test-model", "hosted_vllm/test-model"):
        asyncio.run(call_once(model))


@both_paths
async def test_a_reply_with_text_calls_and_usage_arrives_whole(model: str) -> None:
    calls = [
        Call(name="lookup_order", arguments='{"order_id": "A-17 and a long tail"}', call_id="c1"),
        Call(name="lookup_order", arguments='{"order_id": "B-2"}', call_id="c2"),
    ]
    async with against(always(Reply(text="I look. Twice, to be quite sure.", calls=calls))) as (
        models,
        server,
    ):
        reply = await reply_of(models, ask(model=model))
        assert reply.text == "I look. Twice, to be quite sure."
        assert [(call.call_id, call.name, call.arguments) for call in reply.calls] == [
            (call.call_id, call.name, call.arguments) for call in calls
        ]
        assert (reply.finish, reply.usage) == (
            FinishReason.TOOL_CALLS,
            Usage(prompt_tokens=11, completion_tokens=7),
        )
        (hit,) = server.hits
        assert hit["body"]["stream_options"] == {"include_usage": True}
        assert hit["body"]["max_tokens"] == 100
        assert hit["body"]["tool_choice"] == "auto"
        assert [tool["function"]["name"] for tool in hit["tools"]] == ["lookup_order"]
        assert [message["role"] for message in hit["messages"]] == ["system", "user"]
        assert hit["headers"]["authorization"] == f"Bearer {KEY}"


async def test_a_history_with_calls_goes_out_paired() -> None:
    call = MessageToolCall(call_id="c1", name="lookup_order", arguments='{"order_id":"A"}')
    history = (
        UserMessage(text="u", provenance="input"),
        AssistantMessage(text="", calls=(call,)),
        ToolMessage(call_id="c1", name="lookup_order", text="paid", is_error=False),
    )
    async with against(always(Reply(text="done"))) as (models, server):
        asked = request(*history, plan=model_plan(adapter="litellm"), tools=[])
        assert (await reply_of(models, asked)).text == "done"
        _, assistant, tool = server.hits[0]["messages"]
        assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "c1"
        assert "tool_choice" not in server.hits[0]["body"]


@both_paths
async def test_the_schema_of_the_answer_reaches_the_endpoint_only_where_one_is_wanted(model: str) -> None:
    schema = (
        '{"type":"object","properties":{"result":{"type":"integer","minimum":1}},"required":["result"],'
        '"additionalProperties":false}'
    )
    async with against(always(Reply(text='{"result":1}'))) as (models, server):
        plan = model_plan(model=model, adapter="litellm")
        await reply_of(models, request(plan=plan, reply_schema=schema))
        await reply_of(models, request(plan=plan))
        wanted, not_wanted = (hit["body"] for hit in server.hits)
        assert wanted["response_format"] == wire_reply_format(schema)
        assert wanted["response_format"]["json_schema"]["strict"] is True
        assert wanted["tools"]
        assert "response_format" not in not_wanted


@both_paths
async def test_usage_that_was_not_reported_is_not_made_up(model: str) -> None:
    async with against(always(Reply(text="hi there", usage=None))) as (models, _):
        reply = await reply_of(models, ask(model=model))
        assert (reply.text, reply.usage) == ("hi there", None)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": 10**30, "completion_tokens": 5},
        {"prompt_tokens": "10", "completion_tokens": 5},
        {"prompt_tokens": None, "completion_tokens": None},
        "lots",
    ],
)
async def test_usage_that_can_not_be_believed_is_none(usage: object) -> None:
    wire = Wire(pieces=[HELLO, STOP, sse(chunk(usage=usage)), DONE])
    async with against(always(wire)) as (models, _):
        reply = await reply_of(models, ask())
        assert (reply.text, reply.usage) == ("hello", None)


# --- refusals ----------------------------------------------------------------------------------

FREE = Usage()


@pytest.mark.parametrize(
    ("status", "code", "failure", "usage"),
    [
        (429, None, FailureClass.RATE_LIMITED, FREE),
        (500, None, FailureClass.UNAVAILABLE, FREE),
        (502, None, FailureClass.UNAVAILABLE, FREE),
        (503, None, FailureClass.UNAVAILABLE, FREE),
        (529, None, FailureClass.UNAVAILABLE, FREE),
        (504, None, FailureClass.TIMEOUT, None),
        (400, None, FailureClass.BAD_REQUEST, FREE),
        (400, "context_length_exceeded", FailureClass.CONTEXT_OVERFLOW, FREE),
        (401, None, FailureClass.AUTHENTICATION, FREE),
        (403, None, FailureClass.AUTHENTICATION, FREE),
        (404, None, FailureClass.BAD_REQUEST, FREE),
        (413, None, FailureClass.CONTEXT_OVERFLOW, FREE),
        (422, None, FailureClass.BAD_REQUEST, FREE),
        (307, None, FailureClass.BAD_REQUEST, FREE),
    ],
)
async def test_a_status_has_a_class_and_is_asked_for_once(
    status: int, code: str | None, failure: FailureClass, usage: Usage | None
) -> None:
    answer = endpoint.error(status, "no", code=code, headers={"location": "/v1/elsewhere"})
    async with against(always(answer)) as (models, server):
        found = await failure_of(models, ask())
        assert (found.failure, found.usage) == (failure, usage)
        assert len(server.hits) == 1


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ("7", 7_000),
        ("1000000000", 60_000),
        ("-3", None),
        ("soon", None),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 60_000),
    ],
)
async def test_retry_after_reaches_the_failure(header: str, wait_ms: int | None) -> None:
    async with against(always(endpoint.error(429, "slow", headers={"retry-after": header}))) as (models, _):
        assert (await failure_of(models, ask())).retry_after_ms == wait_ms


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_no_key_no_prompt_and_no_address_is_in_a_message(status: int) -> None:
    def echo(asked: Json) -> Wire:
        said = asked["messages"][-1]["content"]
        return endpoint.error(status, f"key {KEY} at http://10.0.0.1:80/x, key sk-pla***cdef; {said}")

    def tell(_: Json) -> Wire:
        return endpoint.error(status, f"Incorrect API key provided: {KEY} sk-pla***cdef http://10.0.0.1:80/x")

    for behaviour in (echo, tell):
        async with against(behaviour) as (models, server):
            failure = await failure_of(models, ask())
            shown = f"{failure.message} {failure!r} {failure.__cause__} {failure.__suppress_context__}"
            assert failure.__suppress_context__
            for leaked in (
                KEY,
                KEY[3:12],
                "cdef",
                "10.0.0.1",
                "127.0.0.1",
                str(server.port),
                "Rosalind",
                PROMPT,
            ):
                assert leaked not in shown


async def test_nobody_there_is_a_connection_failure_that_costs_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free_port = taken.getsockname()[1]
    profiles = {
        "p": ModelProfile(base_url=f"http://127.0.0.1:{free_port}/v1"),
        "dns": ModelProfile(base_url="http://nowhere.invalid/v1"),
    }
    adapter = LiteLLMModels(profiles)
    for profile in profiles:
        failure = await failure_of(adapter, request(plan=model_plan(adapter="litellm", profile=profile)))
        assert (failure.failure, failure.usage) == (FailureClass.CONNECTION, FREE)
        assert "nowhere" not in failure.message
    await adapter.close()


async def test_tls_to_a_plain_endpoint_is_a_connection_failure() -> None:
    async with endpoint.serve(always(Reply(text="x"))) as server:
        profile = ModelProfile(base_url=server.base_url.replace("http:", "https:"))
        adapter = LiteLLMModels({"p": profile})
        failure = await failure_of(adapter, ask())
        assert failure.failure is FailureClass.CONNECTION
        await adapter.close()


async def test_a_model_of_no_provider_is_a_bad_request() -> None:
    adapter = LiteLLMModels({"p": ModelProfile()})
    failure = await failure_of(adapter, ask(model="nonsense/model"))
    assert (failure.failure, failure.usage) == (FailureClass.BAD_REQUEST, FREE)
    await adapter.close()


# --- replies that are none ---------------------------------------------------------------------

BROKEN: dict[str, Wire] = {
    "html": Wire(content_type="text/html", pieces=[Send(b"<html>gateway</html>")]),
    "empty": Wire(),
    "truncated json": Wire(content_type="application/json", pieces=[Send(b'{"id": "x", "choi')]),
    "no choices": Wire(pieces=[sse({**chunk(), "choices": []}), DONE]),
    "null choices": Wire(pieces=[sse({**chunk(), "choices": None}), DONE]),
    "cut": Wire(pieces=[HALF, Cut()]),
    "no finish reason": Wire(pieces=[HALF, DONE]),
    "no end": Wire(pieces=[HALF]),
    "bad json": Wire(pieces=[HALF, Send(b"data: {nope\n\n"), DONE]),
    "number": Wire(pieces=[Send(b"data: 5\n\n"), DONE]),
    "not utf-8": Wire(pieces=[HALF, Send(b'data: {"choices": "\xff\xfe"}\n\n'), DONE]),
    "error object": Wire(pieces=[HALF, sse({"error": {"message": f"bad {KEY}", "code": "who_knows"}}), DONE]),
    "error text": Wire(pieces=[HALF, sse({"error": "bad"}), DONE]),
    "endless line": Wire(pieces=[Send(b"data: "), *[Send(b"x" * 1_000_000)] * 12]),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_whole_reply_is_malformed(name: str) -> None:
    async with against(always(BROKEN[name])) as (models, server):
        failure = await failure_of(models, ask())
        assert (failure.failure, failure.usage) == (FailureClass.MALFORMED, None)
        assert KEY not in failure.message
        assert len(server.hits) == 1


# with [DONE] and no finish reason, litellm says `stop` where nobody can tell
@pytest.mark.parametrize("name", ["empty", "no end", "cut", "html"])
async def test_the_wrapper_of_litellm_makes_no_reply_of_a_broken_one(name: str) -> None:
    async with against(always(BROKEN[name])) as (models, _):
        failure = await failure_of(models, ask(model="hosted_vllm/test-model"))
        assert failure.failure.may_pass
        assert failure.usage is None


async def test_an_overloaded_provider_says_so_in_the_middle() -> None:
    wire = Wire(pieces=[HALF, sse({"error": {"message": "x", "code": "server_error"}})])
    async with against(always(wire)) as (models, _):
        failure = await failure_of(models, ask())
        assert (failure.failure, failure.usage) == (FailureClass.UNAVAILABLE, None)


async def test_a_null_message_is_an_empty_reply() -> None:
    document = {**chunk(), "choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}
    async with against(always(Wire(pieces=[sse(document), DONE]))) as (models, _):
        reply = await reply_of(models, ask())
        assert (reply.text, reply.calls, reply.finish) == ("", (), FinishReason.STOP)


async def test_hostile_calls_arrive_as_text() -> None:
    calls = [
        Call(name="made\nup\x00", arguments="not JSON", call_id=""),
        Call(name="lookup_order", arguments="[1]", call_id="same"),
        Call(name="lookup_order", arguments='{"a": NaN, "b": 1e400}', call_id="same"),
        Call(name="lookup_order", arguments='{"x":' * 500, call_id="c" * 1_000),
        Call(name="lookup_order", arguments='"\ud800"', call_id="e"),
    ]
    async with against(always(Reply(calls=calls))) as (models, _):
        found = (await reply_of(models, ask())).calls
        assert [call.name for call in found] == [call.name for call in calls]
        assert [call.arguments for call in found[:4]] == [call.arguments for call in calls[:4]]
        assert found[4].arguments == '"\ufffd"'
        assert [len(call.call_id) for call in found] == [0, 4, 4, 128, 1]


# --- time and leaving --------------------------------------------------------------------------


@both_paths
async def test_closing_a_stream_early_closes_its_connection(model: str) -> None:
    async with against(always(Wire(pieces=[HALF, Hang()]))) as (models, server):
        stream = models.stream(ask(model=model))
        assert await anext(stream) == TextChunk("half")
        await stream.aclose()
        async with asyncio.timeout(5):
            assert await server.ended(1) == "client_gone"


@pytest.mark.parametrize("pieces", [[Hang()], [HALF, Hang()]], ids=["before the first chunk", "after it"])
async def test_cancelling_the_consumer_closes_the_connection(pieces: list[endpoint.Piece]) -> None:
    async with against(always(Wire(pieces=pieces))) as (models, server):
        task = asyncio.create_task(collect(models, ask()))
        async with asyncio.timeout(10):
            await server.arrived(1)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            assert await server.ended(1) == "client_gone"


async def test_cancelling_at_any_moment_leaves_nothing_open() -> None:
    async with against(always(Wire(pieces=[HALF, Hang()]))) as (models, server):
        for moment in range(0, 60, 4):
            task = asyncio.create_task(collect(models, ask()))
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=5)
            assert task.cancelled()
        async with asyncio.timeout(5):
            for number in range(len(server.hits)):
                assert await server.ended(number + 1) == "client_gone"


async def test_many_attempts_share_one_adapter() -> None:
    async with against(always(Reply(text="hi"))) as (models, server):
        replies = await asyncio.gather(*(reply_of(models, ask()) for _ in range(20)))
        assert {reply.text for reply in replies} == {"hi"}
        assert len(server.hits) == 20


async def test_prices_come_from_the_library_and_an_unknown_model_has_none() -> None:
    adapter = LiteLLMModels({})
    assert await adapter.known_price("openai/gpt-4o-mini") == Price(
        input_per_million=150_000, output_per_million=600_000
    )
    assert await adapter.known_price("nonsense/model") is None
    await adapter.close()


# --- the endpoint as a process -----------------------------------------------------------------


async def test_the_endpoint_runs_as_a_process_and_logs_its_hits(tmp_path: Path) -> None:
    script, hits = tmp_path / "script.yaml", tmp_path / "hits.jsonl"
    script.write_text("turns: [{when: {last_user_contains: refund}, text: 'Done.'}]", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", endpoint.__name__, "--script", str(script), "--hits", str(hits), "--port", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            port = int(await process.stdout.readline())
        adapter = LiteLLMModels({"p": ModelProfile(base_url=f"http://127.0.0.1:{port}/v1")})
        assert (await reply_of(adapter, ask())).text == "Done."
        await adapter.close()
    finally:
        process.terminate()
        async with asyncio.timeout(10):
            await process.wait()
    (line,) = hits.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["messages"][-1]["content"] == PROMPT


async def test_what_the_library_keeps_for_itself_is_closed_too() -> None:
    adapter = LiteLLMModels({"p": ModelProfile(api_key=Secret(KEY))})
    await adapter.load()
    openai, litellm = sys.modules["openai"], sys.modules["litellm"]
    kept = openai.AsyncOpenAI(api_key=KEY)
    litellm.in_memory_llm_clients_cache.set_cache("kept", kept)
    await adapter.close()
    assert kept.is_closed()
