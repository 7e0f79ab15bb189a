"""The adapter for the OpenAI wire against a real endpoint over loopback HTTP."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jackline_server.core.facts import FailureClass, FinishReason, Usage
from jackline_server.core.frozen import change
from jackline_server.core.messages import AssistantMessage, MessageToolCall, ToolMessage, UserMessage
from jackline_server.egress.client import GuardedClients
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.models.translate import wire_reply_format
from jackline_server.runtime.ports.models import ModelRequest, Models, TextChunk
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
    Piece,
    Reply,
    Send,
    Wire,
    chunk,
    sse,
    whole,
)

pytestmark = pytest.mark.timeout(60)

KEY = "sk-planted-0123456789abcdef"
HALF = sse(chunk({"content": "half"}))
HELLO = sse(chunk({"content": "hello"}))
STOP = sse(chunk(finish="stop"))
FREE = Usage()
LOOKUP = Call(name="lookup_order", arguments='{"order_id": "A-17"}', call_id="c1")


@contextlib.asynccontextmanager
async def adapter_for(
    profiles: Mapping[str, ModelProfile], *, environ: Mapping[str, str] | None = None
) -> AsyncGenerator[OpenAIModels]:
    """The adapter with these profiles, closed at the end."""
    adapter = OpenAIModels(
        profiles=profiles, pools=GuardedClients(), environ=environ or {}, wall_clock=lambda: 1_700_000_000
    )
    try:
        yield adapter
    finally:
        await adapter.close()


@contextlib.asynccontextmanager
async def against(
    behaviour: Behaviour, *, profile: ModelProfile | None = None
) -> AsyncGenerator[tuple[Models, endpoint.Endpoint]]:
    """The adapter in its guards, and the endpoint that its profile `p` names."""
    async with endpoint.serve(behaviour) as server:
        made = replace(profile or ModelProfile(api_key=Secret(KEY)), base_url=server.base_url)
        async with adapter_for({"p": made}) as adapter:
            yield ModelRouter(adapters={"openai": adapter}, profiles={"p": made}), server


def ask(*, model: str = "openai/test-model", total_ms: int = 20_000, idle_ms: int = 10_000) -> ModelRequest:
    return request(plan=model_plan(model=model, adapter="openai"), total_ms=total_ms, idle_ms=idle_ms)


def always(answer: Reply | Wire) -> Behaviour:
    return lambda _: answer


def in_turn(*answers: Reply | Wire) -> Behaviour:
    """One answer after the other; one more request than answers is an error of the test."""
    left = list(answers)
    return lambda _: left.pop(0)


# --- what goes out -----------------------------------------------------------------------------


async def test_a_reply_with_text_calls_and_usage_arrives_whole() -> None:
    calls = [LOOKUP, Call(name="lookup_order", arguments='{"order_id": "B-2"}', call_id="c2")]
    async with against(always(Reply(text="I look. Twice, to be quite sure.", calls=calls))) as (
        models,
        server,
    ):
        reply = await reply_of(models, ask())
        assert reply.text == "I look. Twice, to be quite sure."
        assert [(call.call_id, call.name, call.arguments) for call in reply.calls] == [
            (call.call_id, call.name, call.arguments) for call in calls
        ]
        assert (reply.finish, reply.usage) == (
            FinishReason.TOOL_CALLS,
            Usage(prompt_tokens=11, completion_tokens=7),
        )
        (hit,) = server.hits
    assert hit["target"] == "/v1/chat/completions"
    assert {
        key: hit["body"][key] for key in ("model", "stream", "stream_options", "max_tokens", "tool_choice")
    } == {
        "model": "test-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 100,
        "tool_choice": "auto",
    }
    assert [tool["function"]["name"] for tool in hit["tools"]] == ["lookup_order"]
    assert hit["tools"][0]["function"]["parameters"]["properties"] == {"order_id": {"type": "string"}}
    assert [message["role"] for message in hit["messages"]] == ["system", "user"]
    assert hit["headers"]["authorization"] == f"Bearer {KEY}"
    assert hit["headers"]["accept-encoding"] == "identity"
    assert "cookie" not in hit["headers"]


async def test_the_schema_of_the_answer_reaches_the_endpoint_only_where_one_is_wanted() -> None:
    schema = '{"type":"object","properties":{"result":{"type":"integer"}},"required":["result"]}'
    async with against(always(Reply(text='{"result":1}'))) as (models, server):
        await reply_of(models, change(ask(), reply_schema=schema))
        await reply_of(models, ask())
        wanted, not_wanted = (hit["body"] for hit in server.hits)
    assert wanted["response_format"] == wire_reply_format(schema)
    assert wanted["tools"]
    assert "response_format" not in not_wanted


async def test_a_history_with_calls_goes_out_paired_and_without_tools_nothing_is_said_of_them() -> None:
    call = MessageToolCall(call_id="c1", name="lookup_order", arguments='{"order_id":"\u00c4\ud800"}')
    history = (
        UserMessage(text="Grüße \ud800", provenance="input"),
        AssistantMessage(text="", calls=(call,)),
        ToolMessage(call_id="c1", name="lookup_order", text="bezahlt ✓", is_error=False),
    )
    async with against(always(Reply(text="done"))) as (models, server):
        asked = request(*history, plan=model_plan(adapter="openai"), tools=[])
        assert (await reply_of(models, asked)).text == "done"
        user, assistant, tool = server.hits[0]["messages"]
        assert (user["content"], tool["content"]) == ("Grüße \ufffd", "bezahlt ✓")
        assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == "c1"
        assert {"tool_choice", "tools"}.isdisjoint(server.hits[0]["body"])


async def test_headers_and_parameters_of_a_profile_go_with_every_request() -> None:
    profile = ModelProfile(
        api_key=Secret(KEY),
        headers={"X-Team": Secret("berths"), "authorization": Secret("Basic other")},
        parameters={"temperature": 0, "provider": {"order": ["a"]}},
    )
    async with against(always(Reply(text="x")), profile=profile) as (models, server):
        await reply_of(models, ask())
        (hit,) = server.hits
    assert (hit["headers"]["x-team"], hit["headers"]["authorization"]) == ("berths", "Basic other")
    assert (hit["body"]["temperature"], hit["body"]["provider"]) == (0, {"order": ["a"]})


@pytest.mark.parametrize(
    ("model", "key", "field"),
    [
        ("openai/gpt-4o", None, "max_tokens"),
        ("openai/gpt-5-mini", None, "max_completion_tokens"),
        ("openai/gpt-5.2", None, "max_completion_tokens"),
        ("openai/o3-mini", None, "max_completion_tokens"),
        ("openai/o1", None, "max_completion_tokens"),
        ("openai/gpt-oss-20b", None, "max_tokens"),
        ("openai/olmo-2", None, "max_tokens"),
        ("openai/o3-mini", "max_tokens", "max_tokens"),
        ("openai/anything", "max_completion_tokens", "max_completion_tokens"),
    ],
)
async def test_the_bound_of_a_reply_has_the_name_that_its_model_takes(
    model: str, key: str | None, field: str
) -> None:
    async with against(always(Reply(text="x")), profile=ModelProfile(max_tokens_key=key)) as (models, server):
        await reply_of(models, ask(model=model))
        names = {"max_tokens", "max_completion_tokens"} & server.hits[0]["body"].keys()
    assert names == {field}


async def test_azure_is_asked_with_its_own_header_path_and_version() -> None:
    async with endpoint.serve(always(Reply(text="x"))) as server:
        root = server.base_url.removesuffix("/v1")
        key = Secret(KEY)
        profiles = {
            "root": ModelProfile(api_key=key, base_url=root),
            "slash": ModelProfile(api_key=key, base_url=f"{root}/openai/", api_version="2025-01-01"),
            "whole": ModelProfile(api_key=key, base_url=f"{root}/openai/deployments/other"),
            "newer": ModelProfile(api_key=key, base_url=f"{root}/openai/v1"),
        }
        async with adapter_for(profiles) as adapter:
            for name in profiles:
                plan = model_plan(model="azure/my deployment", adapter="openai", profile=name)
                assert (await reply_of(adapter, request(plan=plan))).text == "x"
    assert [hit["target"] for hit in server.hits] == [
        "/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21",
        "/openai/deployments/my%20deployment/chat/completions?api-version=2025-01-01",
        "/openai/deployments/other/chat/completions?api-version=2024-10-21",
        "/openai/v1/chat/completions",
    ]
    assert {hit["headers"]["api-key"] for hit in server.hits} == {KEY}
    assert not any("authorization" in hit["headers"] for hit in server.hits)


async def test_a_key_of_the_environment_goes_nowhere_but_to_its_provider() -> None:
    async with endpoint.serve(always(Reply(text="x"))) as server:
        environ = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url, "OPENAI_ORG_ID": "org-1"}
        async with adapter_for({"own": ModelProfile(base_url=server.base_url)}, environ=environ) as adapter:
            for profile in ("openai/m", "own"):
                plan = model_plan(model="openai/m", adapter="openai", profile=profile)
                await reply_of(adapter, request(plan=plan))
    theirs, own = (hit["headers"] for hit in server.hits)
    assert (theirs["authorization"], theirs["openai-organization"]) == (f"Bearer {KEY}", "org-1")
    assert {"authorization", "openai-organization"}.isdisjoint(own)


@pytest.mark.parametrize(
    ("model", "profile", "failure"),
    [
        ("openai/m", ModelProfile(), FailureClass.AUTHENTICATION),
        ("azure/m", ModelProfile(api_key=Secret(KEY)), FailureClass.BAD_REQUEST),
        ("hosted_vllm/m", ModelProfile(), FailureClass.BAD_REQUEST),
        ("nonsense/m", ModelProfile(), FailureClass.BAD_REQUEST),
        ("openai/m", ModelProfile(base_url="ftp://x/v1"), FailureClass.BAD_REQUEST),
        ("openai/m", ModelProfile(base_url="http://x:99999/v1"), FailureClass.BAD_REQUEST),
        ("openai/m", ModelProfile(base_url="http://169.254.169.254/v1"), FailureClass.BAD_REQUEST),
    ],
)
async def test_what_can_not_be_asked_for_is_refused_and_costs_nothing(
    model: str, profile: ModelProfile, failure: FailureClass
) -> None:
    async with adapter_for({"p": profile}) as adapter:
        found = await failure_of(adapter, ask(model=model))
    assert (found.failure, found.usage) == (failure, FREE)
    assert KEY not in found.message


async def test_a_key_that_would_break_the_headers_is_refused_and_not_shown() -> None:
    key = Secret("planted\r\nX-Admin: yes")
    async with against(always(Reply(text="x")), profile=ModelProfile(api_key=key)) as (models, server):
        failure = await failure_of(models, ask())
        assert (failure.failure, failure.usage) == (FailureClass.BAD_REQUEST, FREE)
        assert "planted" not in failure.message
        assert server.hits == []


# --- streams as servers really send them -------------------------------------------------------


def bytewise(*pieces: Send) -> list[Send]:
    return [Send(bytes([byte])) for piece in pieces for byte in piece.data]


def with_ends(ends: bytes, *pieces: Send) -> list[Send]:
    return [Send(piece.data.replace(b"\n", ends)) for piece in pieces]


PRETTY = json.dumps(chunk({"content": "hello"}), indent=1).encode()
ODD_STREAMS: dict[str, Sequence[Piece]] = {
    "plain": [HELLO, STOP, DONE],
    "one part": [Send(HELLO.data + STOP.data + DONE.data)],
    "byte by byte": bytewise(HELLO, STOP, DONE),
    "CRLF": with_ends(b"\r\n", HELLO, STOP, DONE),
    "CRLF byte by byte": bytewise(*with_ends(b"\r\n", HELLO, STOP, DONE)),
    "CR": with_ends(b"\r", HELLO, STOP, DONE),
    "byte order mark": [Send(b"\xef\xbb\xbf"), HELLO, STOP, DONE],
    "no [DONE]": [HELLO, STOP],
    "no empty line at the end": [HELLO, Send(STOP.data.rstrip())],
    "[DONE] without its empty line": [HELLO, STOP, Send(b"data: [DONE]")],
    "no space after data:": [Send(piece.data.replace(b"data: ", b"data:")) for piece in (HELLO, STOP, DONE)],
    "comments": [Send(b": keep-alive\n\n"), HELLO, Send(b":\n\n: PROCESSING\n"), STOP, DONE],
    "data over several lines": [Send(b"data: " + PRETTY.replace(b"\n", b"\ndata: ") + b"\n\n"), STOP, DONE],
    "other fields": [Send(b"event: message\nid: 7\nretry: 10\n" + HELLO.data), STOP, DONE],
    "empty data": [Send(b"data:\n\ndata: \n\n"), HELLO, STOP, DONE],
    "ping event": [Send(b"event: ping\n\n"), HELLO, STOP, DONE],
    "empty choices": [sse({**chunk(), "choices": []}), HELLO, STOP, DONE],
    "usage null in each chunk": [sse({**chunk({"content": "hello"}), "usage": None}), STOP, DONE],
    "after [DONE]": [HELLO, STOP, DONE, Send(b"data: {nonsense\n\n")],
    "content parts": [sse(chunk({"content": [{"type": "text", "text": "hello"}]})), STOP, DONE],
    "role and nulls": [
        sse(chunk({"role": "assistant", "content": None, "tool_calls": None})),
        HELLO,
        STOP,
        DONE,
    ],
    "error null": [sse({**chunk({"content": "hello"}), "error": None}), STOP, DONE],
    "whole at the end": [sse(chunk({"content": "hello"}, finish="stop")), DONE],
}


@pytest.mark.parametrize("name", ODD_STREAMS)
async def test_an_odd_stream_is_read_as_what_it_says(name: str) -> None:
    async with against(always(Wire(pieces=ODD_STREAMS[name]))) as (models, _):
        reply = await reply_of(models, ask())
    assert (reply.text, reply.finish, reply.usage, reply.calls) == ("hello", FinishReason.STOP, None, ())


def fragment(*, name: str = "", arguments: object = "", **more: Any) -> Send:
    return sse(chunk({"tool_calls": [{**more, "function": {"name": name, "arguments": arguments}}]}))


CALLED = sse(chunk(finish="tool_calls"))
CALL_FORMS: dict[str, Sequence[Send]] = {
    "by index": [
        fragment(index=0, id="a", name="f", arguments='{"x"'),
        fragment(index=1, id="b", name="g"),
        fragment(index=0, arguments=":1}"),
        fragment(index=1, arguments="{}"),
    ],
    "without index": [
        fragment(id="a", name="f", arguments='{"x"'),
        fragment(arguments=":1}"),
        fragment(id="b", name="g", arguments="{}"),
    ],
    "every index 0": [
        fragment(index=0, id="a", name="f", arguments='{"x":1}'),
        fragment(index=0, id="b", name="g", arguments="{}"),
    ],
    "whole, in one list": [
        sse(
            chunk(
                {
                    "tool_calls": [
                        {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}},
                        {"id": "b", "function": {"name": "g", "arguments": "{}"}},
                    ]
                }
            )
        )
    ],
    "arguments as objects": [
        fragment(index=0, id="a", name="f", arguments={"x": 1}),
        fragment(index=1, id="b", name="g", arguments={}),
    ],
}


@pytest.mark.parametrize("form", CALL_FORMS)
async def test_calls_arrive_in_whatever_form(form: str) -> None:
    async with against(always(Wire(pieces=[*CALL_FORMS[form], CALLED, DONE]))) as (models, _):
        reply = await reply_of(models, ask())
    assert [(call.call_id, call.name, call.arguments) for call in reply.calls] == [
        ("a", "f", '{"x":1}'),
        ("b", "g", "{}"),
    ]
    assert reply.finish is FinishReason.TOOL_CALLS


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "refusal"])
async def test_reasoning_and_refusals_are_apart_from_the_text(field: str) -> None:
    wire = Wire(pieces=[sse(chunk({field: "I think"})), HELLO, STOP, DONE])
    async with against(always(wire)) as (models, _):
        reply = await reply_of(models, ask())
    assert (reply.reasoning, reply.text) == ("I think", "hello")


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.CONTENT_FILTER),
        ("max_tokens", FinishReason.LENGTH),
        ("eos", FinishReason.STOP),
        ("whatever", FinishReason.OTHER),
    ],
)
async def test_a_finish_reason_is_told(word: str, finish: FinishReason) -> None:
    async with against(always(Wire(pieces=[HELLO, sse(chunk(finish=word)), DONE]))) as (models, _):
        assert (await reply_of(models, ask())).finish is finish


async def test_usage_comes_with_its_details() -> None:
    usage = {
        "prompt_tokens": 40,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    async with against(always(Wire(pieces=[HELLO, STOP, sse(chunk(usage=usage)), DONE]))) as (models, _):
        reply = await reply_of(models, ask())
    assert reply.usage == Usage(prompt_tokens=40, completion_tokens=9, cached_tokens=30, reasoning_tokens=5)


def in_one_piece(document: Json, *, content_type: str = "application/json; charset=utf-8") -> Wire:
    return Wire(content_type=content_type, pieces=[Send(json.dumps(document).encode())])


async def test_a_server_that_does_not_stream_is_read_too() -> None:
    reply = Reply(text="hello", calls=[LOOKUP, replace(LOOKUP, call_id="")])
    async with against(always(in_one_piece(whole(reply)))) as (models, _):
        found = await reply_of(models, ask())
    assert (found.text, found.finish) == ("hello", FinishReason.TOOL_CALLS)
    assert [(call.call_id, call.arguments) for call in found.calls] == [
        ("c1", LOOKUP.arguments),
        ("", LOOKUP.arguments),
    ]
    assert found.usage == Usage(prompt_tokens=11, completion_tokens=7)


async def test_a_profile_that_does_not_stream_asks_for_the_reply_in_one_piece() -> None:
    async with against(always(Reply(text="hello")), profile=ModelProfile(streams=False)) as (models, server):
        assert (await reply_of(models, ask())).text == "hello"
        assert {"stream", "stream_options"}.isdisjoint(server.hits[0]["body"])


# --- options that a server refuses -------------------------------------------------------------


def findings(field: str) -> Wire:
    document = {
        "detail": [
            {"type": "extra_forbidden", "loc": ["body", field], "msg": "Extra inputs are not permitted"}
        ]
    }
    return replace(in_one_piece(document), status=422)


def unsupported(field: str, instead: str) -> Wire:
    said = f"Unsupported parameter: '{field}' is not supported with this model. Use '{instead}' instead."
    document = {
        "error": {
            "message": said,
            "type": "invalid_request_error",
            "param": field,
            "code": "unsupported_parameter",
        }
    }
    return replace(in_one_piece(document), status=400)


REFUSALS_OF_USAGE = {
    "findings": findings("stream_options"),
    "words": endpoint.error(400, "Unrecognized request argument supplied: stream_options"),
    "plain text": Wire(status=400, content_type="text/plain", pieces=[Send(b"unknown field stream_options")]),
}


@pytest.mark.parametrize("form", REFUSALS_OF_USAGE)
async def test_a_server_that_will_not_report_usage_is_asked_without_and_remembered(form: str) -> None:
    hi = Reply(text="hi", usage=None)
    async with against(in_turn(REFUSALS_OF_USAGE[form], hi, hi)) as (models, server):
        replies = [await reply_of(models, ask()) for _ in range(2)]
        asked = ["stream_options" in hit["body"] for hit in server.hits]
    assert [(reply.text, reply.usage) for reply in replies] == [("hi", None), ("hi", None)]
    assert asked == [True, False, False]


@pytest.mark.parametrize(
    ("model", "refused", "taken"),
    [
        ("openai/new-model", "max_tokens", "max_completion_tokens"),
        ("openai/o1", "max_completion_tokens", "max_tokens"),
    ],
)
async def test_a_model_that_wants_the_other_name_for_its_bound_gets_it(
    model: str, refused: str, taken: str
) -> None:
    hi = Reply(text="hi")
    async with against(in_turn(unsupported(refused, taken), hi, hi)) as (models, server):
        for _ in range(2):
            assert (await reply_of(models, ask(model=model))).text == "hi"
        names = [{"max_tokens", "max_completion_tokens"} & hit["body"].keys() for hit in server.hits]
    assert names == [{refused}, {taken}, {taken}]


async def test_both_options_may_be_refused_one_after_the_other() -> None:
    answers = (
        findings("stream_options"),
        unsupported("max_tokens", "max_completion_tokens"),
        Reply(text="hi"),
    )
    async with against(in_turn(*answers)) as (models, server):
        assert (await reply_of(models, ask())).text == "hi"
        last = server.hits[-1]["body"]
    assert "stream_options" not in last
    assert last["max_completion_tokens"] == 100


async def test_a_server_that_refuses_whatever_is_asked_is_asked_no_further() -> None:
    async with against(always(endpoint.error(400, "unknown field: stream_options, max_tokens"))) as (
        models,
        server,
    ):
        failure = await failure_of(models, ask())
        assert (failure.failure, failure.usage) == (FailureClass.BAD_REQUEST, FREE)
        assert len(server.hits) == 3
        await failure_of(models, ask())
        assert "stream_options" in server.hits[3]["body"], "a refusal that helped nothing is not remembered"


@pytest.mark.parametrize(
    "answer",
    [
        endpoint.error(
            400, "max_tokens is too large: 100. This model supports at most 10 completion tokens."
        ),
        endpoint.error(500, "stream_options"),
        endpoint.error(401, "stream_options"),
        endpoint.error(400, "no such model"),
    ],
)
async def test_any_other_refusal_is_asked_for_once(answer: Wire) -> None:
    async with against(always(answer)) as (models, server):
        await failure_of(models, ask())
        assert len(server.hits) == 1


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "code", "failure", "usage"),
    [
        (429, None, FailureClass.RATE_LIMITED, FREE),
        (500, None, FailureClass.UNAVAILABLE, FREE),
        (502, None, FailureClass.UNAVAILABLE, FREE),
        (503, None, FailureClass.UNAVAILABLE, FREE),
        (529, None, FailureClass.UNAVAILABLE, FREE),
        (504, None, FailureClass.TIMEOUT, None),
        (408, None, FailureClass.TIMEOUT, None),
        (400, None, FailureClass.BAD_REQUEST, FREE),
        (400, "context_length_exceeded", FailureClass.CONTEXT_OVERFLOW, FREE),
        (400, "exceed_context_size_error", FailureClass.CONTEXT_OVERFLOW, FREE),
        (401, None, FailureClass.AUTHENTICATION, FREE),
        (403, None, FailureClass.AUTHENTICATION, FREE),
        (404, None, FailureClass.BAD_REQUEST, FREE),
        (413, None, FailureClass.CONTEXT_OVERFLOW, FREE),
        (422, None, FailureClass.BAD_REQUEST, FREE),
        (307, None, FailureClass.BAD_REQUEST, FREE),
        (302, None, FailureClass.BAD_REQUEST, FREE),
    ],
)
async def test_a_status_has_a_class_and_no_redirect_is_followed(
    status: int, code: str | None, failure: FailureClass, usage: Usage | None
) -> None:
    answer = endpoint.error(status, "no", code=code, headers={"location": "/v1/elsewhere/chat/completions"})
    async with against(always(answer)) as (models, server):
        found = await failure_of(models, ask())
        assert (found.failure, found.usage) == (failure, usage)
        assert len(server.hits) == 1


def body(text: str | Json | list[Any], *, status: int = 400) -> Wire:
    data = text if isinstance(text, str) else json.dumps(text)
    return Wire(status=status, content_type="text/plain", pieces=[Send(data.encode())])


TOO_LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens."


@pytest.mark.parametrize(
    "answer",
    [
        body({"error": {"message": TOO_LONG}}),
        body({"object": "error", "message": TOO_LONG, "type": "BadRequestError", "code": 400}),
        body({"error": TOO_LONG}),
        body({"message": TOO_LONG}),
        body({"detail": TOO_LONG}),
        body({"detail": [{"loc": ["body"], "msg": TOO_LONG}]}, status=422),
        body(
            [
                {
                    "error": {
                        "code": 400,
                        "message": "The input token count exceeds the maximum number of tokens",
                    }
                }
            ]
        ),
        body(
            {"error": {"code": 400, "message": "the request exceeds the available context size", "type": "x"}}
        ),
        body({"error": {"message": "Please reduce the length of the messages or completion."}}),
        body(
            {
                "error": {
                    "message": "This model's maximum prompt length is 131072 but the request contains 140000"
                }
            }
        ),
        body(TOO_LONG),
    ],
)
async def test_a_conversation_that_is_too_long_is_known_by_code_or_words(answer: Wire) -> None:
    async with against(always(answer)) as (models, _):
        failure = await failure_of(models, ask())
    assert (failure.failure, failure.usage) == (FailureClass.CONTEXT_OVERFLOW, FREE)


async def test_a_limit_of_tokens_a_minute_is_no_conversation_that_is_too_long() -> None:
    answer = endpoint.error(429, "Request too large: reduce the length of the messages; tokens per min")
    async with against(always(answer)) as (models, _):
        assert (await failure_of(models, ask())).failure is FailureClass.RATE_LIMITED


@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "1000000000"}, 60_000),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"Retry-After": "Tue, 14 Nov 2023 22:13:40 GMT"}, 20_000),
        ({"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, 60_000),
        ({"retry-after-ms": "1234.2", "retry-after": "9"}, 1_235),
        ({"x-ms-retry-after-ms": "250"}, 250),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2_000),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2_000),
        ({"retry-after-ms": "inf"}, 60_000),
        ({}, None),
    ],
)
async def test_retry_after_reaches_the_failure(headers: dict[str, str], wait_ms: int | None) -> None:
    async with against(always(endpoint.error(429, "slow", headers=headers))) as (models, _):
        assert (await failure_of(models, ask())).retry_after_ms == wait_ms


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_no_key_no_header_no_prompt_and_no_address_is_in_a_message(status: int) -> None:
    planted = "planted-header-value"

    def echo(asked: Json) -> Wire:
        said = asked["messages"][-1]["content"]
        return endpoint.error(status, f"key {KEY} at http://10.0.0.1:80/x, key sk-pla***cdef; {said}")

    def tell(_: Json) -> Wire:
        return endpoint.error(
            status, f"Incorrect API key provided: {KEY} {planted} sk-pla***cdef http://10.0.0.1:80/x"
        )

    def page(_: Json) -> Wire:
        html = f"<html><body>Bad gateway for {KEY} at 10.0.0.1</body></html>".encode()
        return Wire(status=status, content_type="text/html", pieces=[Send(html)])

    profile = ModelProfile(api_key=Secret(KEY), headers={"X-Secret": Secret(planted)})
    for behaviour in (echo, tell, page):
        async with against(behaviour, profile=profile) as (models, server):
            failure = await failure_of(models, ask())
            shown = f"{failure.message} {failure!r} {failure.__cause__} {failure.__suppress_context__}"
            for leaked in (
                KEY,
                KEY[3:12],
                "cdef",
                planted,
                "10.0.0.1",
                "127.0.0.1",
                str(server.port),
                "Rosalind",
                PROMPT,
                "<",
            ):
                assert leaked not in shown.replace("<ModelFailure", "")


async def test_a_short_text_of_the_server_is_told() -> None:
    async with against(always(endpoint.error(400, "the flux is out of range", code="bad_flux"))) as (
        models,
        _,
    ):
        assert "the flux is out of range (bad_flux)" in (await failure_of(models, ask())).message


async def test_nobody_there_is_a_connection_failure_that_costs_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free_port = taken.getsockname()[1]
    profiles = {
        "p": ModelProfile(base_url=f"http://127.0.0.1:{free_port}/v1"),
        "dns": ModelProfile(base_url="http://nowhere.invalid/v1"),
    }
    async with adapter_for(profiles) as adapter:
        for profile in profiles:
            failure = await failure_of(adapter, request(plan=model_plan(adapter="openai", profile=profile)))
            assert (failure.failure, failure.usage) == (FailureClass.CONNECTION, FREE)
            assert "nowhere" not in failure.message


async def test_tls_to_a_plain_endpoint_is_a_connection_failure() -> None:
    async with endpoint.serve(always(Reply(text="x"))) as server:
        profile = ModelProfile(base_url=server.base_url.replace("http:", "https:"))
        async with adapter_for({"p": profile}) as adapter:
            assert (await failure_of(adapter, ask())).failure is FailureClass.CONNECTION
        assert server.hits == []


# --- replies that are none ---------------------------------------------------------------------

BROKEN: dict[str, Wire] = {
    "html": Wire(content_type="text/html", pieces=[Send(b"<html>gateway</html>")]),
    "empty": Wire(),
    "empty json": Wire(content_type="application/json"),
    "truncated json": Wire(content_type="application/json", pieces=[Send(b'{"id": "x", "choi')]),
    "json without choices": in_one_piece({"id": "x"}),
    "json that is a list": Wire(content_type="application/json", pieces=[Send(b"[]")]),
    "no content": Wire(status=204),
    "no choices": Wire(pieces=[sse({**chunk(), "choices": []}), DONE]),
    "null choices": Wire(pieces=[sse({**chunk(), "choices": None}), DONE]),
    "cut": Wire(pieces=[HALF, Cut()]),
    "no finish reason": Wire(pieces=[HALF, DONE]),
    "no end": Wire(pieces=[HALF]),
    "cut in an event": Wire(pieces=[HALF, Send(STOP.data[:-20])]),
    "bad json": Wire(pieces=[HALF, Send(b"data: {nope\n\n"), DONE]),
    "number": Wire(pieces=[Send(b"data: 5\n\n"), DONE]),
    "not utf-8": Wire(pieces=[HALF, Send(b'data: {"choices": "\xff\xfe"}\n\n'), DONE]),
    "endless number": Wire(pieces=[Send(b"data: " + b"1" * 10_000 + b"\n\n"), DONE]),
    "deep json": Wire(pieces=[Send(b"data: " + b"[" * 200_000 + b"\n\n"), DONE]),
    "error object": Wire(pieces=[HALF, sse({"error": {"message": f"bad {KEY}", "code": "who_knows"}}), DONE]),
    "error text": Wire(pieces=[HALF, sse({"error": "bad"}), DONE]),
    "error event": Wire(pieces=[HALF, Send(b"event: error\n" + sse({"message": "bad"}).data), STOP, DONE]),
    "object error": Wire(pieces=[HALF, sse({"object": "error", "message": "bad"}), STOP, DONE]),
    "error in json": in_one_piece({"error": {"message": "bad"}}),
    "endless line": Wire(pieces=[Send(b"data: "), *[Send(b"x" * 1_000_000)] * 12]),
    "endless event": Wire(pieces=[Send(b"data: " + b"x" * 1_000_000 + b"\n")] * 12),
    "endless comments": Wire(pieces=[Send(b": " + b"x" * 1_000_000 + b"\n")] * 70),
    "endless json": Wire(content_type="application/json", pieces=[Send(b" " * 1_000_000)] * 12),
    "compressed": Wire(headers={"content-encoding": "gzip"}, pieces=[Send(b"\x1f\x8b")]),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_whole_reply_is_malformed(name: str) -> None:
    async with against(always(BROKEN[name])) as (models, server):
        failure = await failure_of(models, ask())
        assert (failure.failure, failure.usage) == (FailureClass.MALFORMED, None)
        assert KEY not in failure.message
        assert len(server.hits) == 1


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        ({"message": "x", "code": "server_error"}, FailureClass.UNAVAILABLE),
        ({"message": "x", "code": 429}, FailureClass.RATE_LIMITED),
        ({"message": "x", "code": 502}, FailureClass.UNAVAILABLE),
        ({"message": "x", "code": "context_length_exceeded"}, FailureClass.CONTEXT_OVERFLOW),
    ],
)
async def test_a_provider_that_fails_in_the_middle_says_how(error: Json, failure: FailureClass) -> None:
    async with against(always(Wire(pieces=[HALF, sse({"error": error})]))) as (models, _):
        found = await failure_of(models, ask())
    assert (found.failure, found.usage) == (failure, None)


async def test_an_endless_error_page_is_read_up_to_its_cap() -> None:
    pages = Wire(status=503, content_type="text/html", pieces=[*[Send(b"<p>" * 100_000)] * 10, Hang()])
    async with against(always(pages)) as (models, server):
        assert (await failure_of(models, ask())).failure is FailureClass.UNAVAILABLE
        async with asyncio.timeout(5):
            assert await server.ended(1) == "client_gone"


# --- connections, time and leaving -------------------------------------------------------------


async def test_attempts_share_the_connections_of_their_profile() -> None:
    async with against(always(Reply(text="hi"))) as (models, server):
        for _ in range(5):
            assert (await reply_of(models, ask())).text == "hi"
        peers = {hit["peer"] for hit in server.hits}
    assert len(peers) == 1


async def test_a_refusal_leaves_its_connection_to_the_next_attempt() -> None:
    async with against(in_turn(endpoint.error(503, "later"), Reply(text="hi"))) as (models, server):
        await failure_of(models, ask())
        assert (await reply_of(models, ask())).text == "hi"
        assert len({hit["peer"] for hit in server.hits}) == 1


async def test_many_attempts_run_at_once() -> None:
    async with against(always(Reply(text="hi")), profile=ModelProfile(concurrency=4)) as (models, server):
        replies = await asyncio.gather(*(reply_of(models, ask()) for _ in range(20)))
        assert {reply.text for reply in replies} == {"hi"}
        assert len(server.hits) == 20
        assert len({hit["peer"] for hit in server.hits}) <= 4


async def test_closing_a_stream_early_closes_its_connection() -> None:
    async with against(always(Wire(pieces=[HALF, Hang()]))) as (models, server):
        stream = models.stream(ask())
        assert await anext(stream) == TextChunk("half")
        await stream.aclose()
        async with asyncio.timeout(5):
            assert await server.ended(1) == "client_gone"


@pytest.mark.parametrize("pieces", [[Hang()], [HALF, Hang()]], ids=["before the first chunk", "after it"])
async def test_cancelling_the_consumer_closes_the_connection(pieces: list[Piece]) -> None:
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
        for moment in range(0, 60, 2):
            task = asyncio.create_task(collect(models, ask()))
            for _ in range(moment):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=5)
            assert task.cancelled()
        async with asyncio.timeout(5):
            for number in range(len(server.hits)):
                assert await server.ended(number + 1) == "client_gone"


async def test_a_server_that_stays_on_the_line_after_the_end_does_not_hold_the_reply() -> None:
    async with against(always(Wire(pieces=[HELLO, STOP, DONE, Hang()]))) as (models, server):
        async with asyncio.timeout(5):
            assert (await reply_of(models, ask())).text == "hello"
            assert await server.ended(1) == "client_gone"
