"""Models of Mistral's family get conversations in the order that they demand, whoever serves them."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import cast

import pytest

from jackline_server.core.messages import AssistantMessage, MessageToolCall, ToolMessage, UserMessage
from jackline_server.core.plan import JsonObject
from jackline_server.egress.client import GuardedClients
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.models.strict_order import ordered, wants_strict_order
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import model_plan, reply_of, request
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import Json, Reply, Wire

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
]

HISTORY = (
    UserMessage(text="Refund A-17.", provenance="input"),
    AssistantMessage(
        text="",
        calls=tuple(
            MessageToolCall(call_id=f"call_{order}", name="lookup_order", arguments='{"order_id":"A"}')
            for order in ("one", "two")
        ),
    ),
    ToolMessage(call_id="call_one", name="lookup_order", text="paid", is_error=False),
    ToolMessage(call_id="call_two", name="lookup_order", text="open", is_error=False),
    UserMessage(text="Be quick.", provenance="guidance"),
)


def like_mistral(asked: Json) -> Reply | Wire:
    """As the provider answers: it refuses a user behind results, and any id but nine plain characters."""
    roles = [message["role"] for message in asked["messages"]]
    if ("tool", "user") in pairwise(roles):
        return endpoint.error(
            400, "Unexpected role 'user' after role 'tool'", code="invalid_request_message_order"
        )
    ids = [message["tool_call_id"] for message in asked["messages"] if message["role"] == "tool"]
    ids += [call["id"] for message in asked["messages"] for call in message.get("tool_calls") or ()]
    for call_id in ids:
        if not re.fullmatch("[a-zA-Z0-9]{9}", call_id):
            return endpoint.error(
                400, f"Tool call id was {call_id} but must be a-z, A-Z, 0-9, with a length of 9."
            )
    return Reply(text="done")


@asynccontextmanager
async def against(adapter: str) -> AsyncGenerator[tuple[ModelRouter, endpoint.Endpoint]]:
    async with endpoint.serve(like_mistral) as server:
        profile = ModelProfile(api_key=Secret("planted0123456789"), base_url=server.base_url)
        made = (
            OpenAIModels(profiles={"p": profile}, pools=GuardedClients(), environ={})
            if adapter == "openai"
            else LiteLLMModels({"p": profile})
        )
        try:
            yield ModelRouter(adapters={adapter: made}, profiles={"p": profile}), server
        finally:
            await made.close()


def asked(model: str, adapter: str) -> ModelRequest:
    return request(*HISTORY, plan=model_plan(model=model, adapter=adapter))


@pytest.mark.parametrize(
    ("model", "adapter"),
    [
        ("openai/mistralai/Devstral-Small-2", "openai"),
        ("openai/mistral-small", "litellm"),
        ("mistral/mistral-large-latest", "litellm"),
    ],
)
async def test_guidance_behind_results_reaches_a_model_that_refuses_it_there(
    model: str, adapter: str
) -> None:
    async with against(adapter) as (models, server):
        assert (await reply_of(models, asked(model, adapter))).text == "done"
        (hit,) = server.hits
    roles = [message["role"] for message in hit["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "assistant", "user"]
    calls = [call["id"] for call in hit["messages"][1]["tool_calls"]]
    assert calls == [message["tool_call_id"] for message in hit["messages"][2:4]]
    assert len(set(calls)) == 2


async def test_a_server_that_demands_the_order_under_another_name_is_learned_once() -> None:
    async with against("openai") as (models, server):
        for _ in range(2):
            assert (await reply_of(models, asked("openai/our-own", "openai"))).text == "done"
        assert len(server.hits) == 3


def test_no_other_model_s_conversation_is_touched() -> None:
    assert not any(map(wants_strict_order, ("openai/gpt-4o", "anthropic/claude-x", "gemini/gemini-2", "x")))
    kept = cast("list[JsonObject]", json.loads('[{"role":"user","content":"a"},{"role":"assistant"}]'))
    assert ordered(kept) == kept
