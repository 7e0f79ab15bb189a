"""Requests and collected replies for the tests of models."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from jackline_server.core.messages import Message, SystemMessage, UserMessage
from jackline_server.core.plan import ModelPlan, ToolChoice, ToolEntry
from jackline_server.runtime.driving.replies import Reply, fold
from jackline_server.runtime.ports.models import ModelChunk, ModelFailure, ModelRequest, Models

PROMPT = "Please refund order A-17, my name is Rosalind."


def tool(ref: str) -> ToolEntry:
    return ToolEntry(
        ref=ref,
        description=f"Does {ref}.",
        parameters_json='{"type":"object","properties":{"order_id":{"type":"string"}}}',
        bind={},
        max_calls=None,
        writes_context=False,
    )


def model_plan(*, model: str = "openai/test-model", adapter: str = "test", profile: str = "p") -> ModelPlan:
    return ModelPlan(
        profile=profile,
        model=model,
        adapter=adapter,
        context_window=8_000,
        max_output_tokens=100,
        price=None,
        retries=0,
        retry_base_ms=1,
        retry_cap_ms=1,
    )


def request(
    *messages: Message,
    plan: ModelPlan | None = None,
    tools: Sequence[str] = ("lookup_order",),
    total_ms: int = 20_000,
    idle_ms: int = 10_000,
    max_output_tokens: int = 100,
    reply_schema: str | None = None,
) -> ModelRequest:
    said = messages or (SystemMessage(text="Be kind."), UserMessage(text=PROMPT, provenance="input"))
    return ModelRequest(
        plan=plan or model_plan(),
        messages=said,
        tools=[tool(ref) for ref in tools],
        tool_choice=ToolChoice(),
        max_output_tokens=max_output_tokens,
        total_ms=total_ms,
        idle_ms=idle_ms,
        reply_schema=reply_schema,
    )


async def collect(models: Models, asked: ModelRequest) -> list[ModelChunk]:
    """All chunks of one attempt, under a time limit."""
    async with asyncio.timeout(60):
        return [chunk async for chunk in models.stream(asked)]


async def reply_of(models: Models, asked: ModelRequest) -> Reply:
    return fold(await collect(models, asked))


async def failure_of(models: Models, asked: ModelRequest) -> ModelFailure:
    """The failure of an attempt that must fail."""
    try:
        chunks = await collect(models, asked)
    except ModelFailure as failure:
        return failure
    raise AssertionError(f"no failure, but {chunks}")


@dataclass(slots=True)
class FakeAdapter:
    """An adapter made of one function, counting how many streams are open."""

    behave: Callable[[ModelRequest], AsyncGenerator[ModelChunk, None]]
    open: int = 0
    opened: int = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        self.open += 1
        self.opened += 1
        try:
            async for chunk in self.behave(request):
                yield chunk
        finally:
            self.open -= 1
