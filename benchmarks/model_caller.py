"""A process that calls a model, one call after the other, in one of three ways, and checks what comes back.

Owns the ways: through the adapter for the OpenAI wire, through the one for litellm, and `raw`: the HTTP
library alone, which reads the same bytes and understands none. Each order is a name and a number of calls;
what they cost is read from outside, between the answers.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import uvloop

from benchmarks.model_endpoint import USAGE, events, pieces
from benchmarks.outside import read_order, say
from jackline_server.core.facts import FinishReason, Usage
from jackline_server.core.messages import SystemMessage, UserMessage
from jackline_server.core.plan import ModelPlan, ToolChoice, ToolEntry
from jackline_server.egress.late import LateClients
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.wire_body import body_of
from jackline_server.runtime.driving.replies import fold
from jackline_server.runtime.ports.models import ModelRequest, Models

Call = Callable[[], Awaitable[str]]
"""Makes one call; says what was wrong with its reply, if anything was."""

_PARAMETERS = '{"type":"object","properties":{"berth":{"type":"string"}},"required":["berth"]}'
_SAID = "The ketch needs two metres of water and shelter from the north. " * 20


def request_to(profile: str, adapter: str) -> ModelRequest:
    """What is asked: a short conversation and one tool, as in the middle of a run."""
    return ModelRequest(
        plan=ModelPlan(
            profile=profile,
            model="openai/measured",
            adapter=adapter,
            context_window=128_000,
            max_output_tokens=4_096,
            price=None,
            retries=0,
            retry_base_ms=1,
            retry_cap_ms=1,
        ),
        messages=(SystemMessage(text="Find a berth."), UserMessage(text=_SAID, provenance="input")),
        tools=[
            ToolEntry(
                ref="look_up",
                description="Looks a berth up.",
                parameters_json=_PARAMETERS,
                bind={},
                max_calls=None,
                writes_context=False,
            )
        ],
        tool_choice=ToolChoice(),
        max_output_tokens=4_096,
        total_ms=60_000,
        idle_ms=60_000,
    )


@asynccontextmanager
async def calls(way: str, base: str, chunks: Mapping[str, int]) -> AsyncGenerator[Mapping[str, Call]]:
    """The calls of a way, by the name of the reply."""
    if way == "raw":
        async with aiohttp.ClientSession(
            auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            yield {name: _raw(session, f"{base}/{name}/chat/completions", chunks[name]) for name in chunks}
        return
    profiles = {name: ModelProfile(base_url=f"{base}/{name}") for name in chunks}
    if way == "openai":
        models = OpenAIModels(profiles=profiles, pools=LateClients(), environ={})
    else:
        models = LiteLLMModels(profiles=profiles)
    try:
        yield {name: _through(models, request_to(name, way), chunks[name]) for name in chunks}
    finally:
        await models.close()


def _through(models: Models, request: ModelRequest, chunks: int) -> Call:
    text = "".join(pieces(chunks))
    usage = Usage(prompt_tokens=USAGE["prompt_tokens"], completion_tokens=USAGE["completion_tokens"])

    async def call() -> str:
        reply = fold([chunk async for chunk in models.stream(request)])
        if reply.text != text:
            return f"its text has {len(reply.text)} characters of {len(text)}, or others"
        if reply.finish is not FinishReason.STOP or reply.usage != usage:
            return f"it ended with {reply.finish} and {reply.usage}"
        return ""

    return call


def _raw(session: aiohttp.ClientSession, url: str, chunks: int) -> Call:
    body = body_of(request_to("raw", "raw"), model="measured", profile=ModelProfile(), without=frozenset())
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    expected = hashlib.sha256(b"".join(events(chunks))).digest()

    async def call() -> str:
        parts: list[bytes] = []
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            parts += [part async for part in response.content.iter_any()]
        return "" if hashlib.sha256(b"".join(parts)).digest() == expected else "its bytes are others"

    return call


async def obey(order: dict[str, Any]) -> None:
    """Make the calls that standard input asks for, until it ends."""
    async with calls(order["way"], order["base"], order["chunks"]) as made:
        say({"ready": True})
        while (asked := await asyncio.to_thread(_next)) is not None:
            call = made[asked["name"]]
            problems = [problem for _ in range(asked["calls"]) if (problem := await call())]
            say({"calls": asked["calls"], "problems": problems[:3]})


def _next() -> dict[str, Any] | None:
    try:
        return read_order()
    except (EOFError, json.JSONDecodeError):
        return None


if __name__ == "__main__":
    uvloop.run(obey(read_order()))
