"""Streams of other wires that break off are never an answer, whatever litellm makes of them.

litellm is the real one.
"""

import contextlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
from aiohttp import web

from jackline_server.core.facts import FinishReason
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import failure_of, model_plan, reply_of, request
from tests.support.openai_endpoint import DONE, chunk, sse
from tests.support.web_server import serving

KEY = "planted0123456789abcdef"

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
]


@contextlib.asynccontextmanager
async def answering(pieces: Sequence[bytes]) -> AsyncGenerator[ModelRouter]:
    """The adapter, and a provider of any wire that answers whatever it is asked with these bytes."""

    async def answer(asked: web.Request) -> web.StreamResponse:
        await asked.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(asked)
        for piece in pieces:
            await response.write(piece)
        return response

    app = web.Application()
    app.router.add_post("/{any:.*}", answer)
    async with serving(app) as port:
        profile = ModelProfile(api_key=Secret(KEY), base_url=f"http://127.0.0.1:{port}")
        adapter = LiteLLMModels({"p": profile})
        await adapter.load()
        try:
            yield ModelRouter(adapters={"litellm": adapter}, profiles={"p": profile})
        finally:
            await adapter.close()


def ask(model: str) -> ModelRequest:
    return request(plan=model_plan(model=model, adapter="litellm"))


def event(kind: str, fields: Mapping[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


ANTHROPIC, GEMINI, MISTRAL = "anthropic/claude-test", "gemini/gemini-test", "mistral/mistral-test"

_OPENING = event(
    "message_start",
    {
        "message": {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "claude-test",
            "stop_reason": None,
            "usage": {"input_tokens": 5, "output_tokens": 1},
        }
    },
)
_HALF = event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}) + event(
    "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "half"}}
)
_BLOCK_ENDS = event("content_block_stop", {"index": 0})
_CALL = event(
    "content_block_start",
    {"index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "lookup_order", "input": {}}},
)
_ARGUMENTS = event(
    "content_block_delta",
    {"index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"order_id": "A"}'}},
)
_MESSAGE_ENDS = event(
    "message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
) + event("message_stop", {})


def gemini(part: Mapping[str, Any], **fields: object) -> bytes:
    counts = {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6}
    candidate = {"content": {"parts": [part], "role": "model"}, **fields}
    return sse({"candidates": [candidate], "usageMetadata": counts}).data


WHOLE = {
    "anthropic": (ANTHROPIC, [_OPENING, _HALF, _BLOCK_ENDS, _MESSAGE_ENDS]),
    "gemini": (GEMINI, [gemini({"text": "half"}, finishReason="STOP")]),
    "mistral": (MISTRAL, [sse(chunk({"content": "half"})).data, sse(chunk(finish="stop")).data, DONE.data]),
}
CUT = {
    "anthropic in a text": (ANTHROPIC, [_OPENING, _HALF]),
    "anthropic behind a text": (ANTHROPIC, [_OPENING, _HALF, _BLOCK_ENDS]),
    "anthropic in a call": (ANTHROPIC, [_OPENING, _CALL]),
    "anthropic behind a call": (ANTHROPIC, [_OPENING, _CALL, _ARGUMENTS, _BLOCK_ENDS]),
    "gemini in a text": (GEMINI, [gemini({"text": "half"})]),
    "gemini behind a call": (
        GEMINI,
        [gemini({"functionCall": {"name": "lookup_order", "args": {"order_id": "A"}}})],
    ),
    "mistral in a text": (MISTRAL, [sse(chunk({"content": "half"})).data]),
    "mistral with a polite end": (MISTRAL, [sse(chunk({"content": "half"})).data, DONE.data]),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_reply_of_another_wire_is_one(name: str) -> None:
    model, pieces = WHOLE[name]
    async with answering(pieces) as models:
        reply = await reply_of(models, ask(model))
    assert (reply.text, reply.finish) == ("half", FinishReason.STOP)


@pytest.mark.parametrize("name", CUT)
async def test_a_stream_that_breaks_off_is_no_reply_on_any_wire(name: str) -> None:
    model, pieces = CUT[name]
    async with answering(pieces) as models:
        failure = await failure_of(models, ask(model))
    assert failure.failure.may_pass
    assert failure.usage is None


async def test_a_key_in_a_reply_of_another_wire_is_masked() -> None:
    said = [gemini({"text": f"it is {KEY[:9]}"}), gemini({"text": f"{KEY[9:]}."}, finishReason="STOP")]
    async with answering(said) as models:
        reply = await reply_of(models, ask(GEMINI))
    assert reply.text == "it is [redacted]."
