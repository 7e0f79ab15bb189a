"""Timers and caps of one attempt, against a real endpoint, through both adapters that speak to one."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from jackline_server.core.facts import AttemptLimit, FailureClass, FinishReason, Usage
from jackline_server.core.plan import AttemptLimits
from jackline_server.egress.client import GuardedClients
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.runtime.ports.models import EndChunk, ModelFailure, ModelRequest, Models
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import collect, failure_of, model_plan, reply_of, request
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import Hang, Piece, Send, Wait, Wire, chunk, sse

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),  # litellm's own types, built late
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
]
both_adapters = pytest.mark.parametrize("adapter", ["openai", "litellm"])
HALF = sse(chunk({"content": "half"}))
FREE = Usage()


@pytest.fixture(scope="module", autouse=True)
def warmed() -> None:
    """The first call of a process brings in much of litellm, longer than the short timers here allow."""

    async def call_once() -> None:
        async with against(Wire(pieces=[HALF, sse(chunk(finish="stop"))]), adapter="litellm") as (models, _):
            await reply_of(models, ask("litellm"))

    asyncio.run(call_once())


@asynccontextmanager
async def at(base_url: str, *, adapter: str) -> AsyncGenerator[Models]:
    """The adapter in its guards, for a profile `p` at that address."""
    profiles = {"p": ModelProfile(api_key=Secret("k"), base_url=base_url)}
    openai = OpenAIModels(profiles=profiles, pools=GuardedClients(), environ={})
    litellm = LiteLLMModels(profiles)
    if adapter == "litellm":
        await litellm.load()
    try:
        yield ModelRouter(adapters={"openai": openai, "litellm": litellm}, profiles=profiles)
    finally:
        await openai.close()
        await litellm.close()


@asynccontextmanager
async def against(answer: Wire, *, adapter: str) -> AsyncGenerator[tuple[Models, endpoint.Endpoint]]:
    async with endpoint.serve(lambda _: answer) as server, at(server.base_url, adapter=adapter) as models:
        yield models, server


async def is_left(server: endpoint.Endpoint) -> bool:
    """True once the endpoint has seen its client go."""
    async with asyncio.timeout(5):
        return await server.ended(1) == "client_gone"


def ask(
    adapter: str, limits: AttemptLimits | None = None, *, total_ms: int = 20_000, idle_ms: int = 10_000
) -> ModelRequest:
    plan = replace(model_plan(adapter=adapter), limits=limits or AttemptLimits())
    return request(plan=plan, total_ms=total_ms, idle_ms=idle_ms, max_output_tokens=10_000_000)


def told(failure: ModelFailure) -> tuple[FailureClass, AttemptLimit | None, Usage | None]:
    return failure.failure, failure.limit, failure.usage


def for_ever(*pieces: Piece) -> Iterator[Piece]:
    while True:
        yield from pieces


@both_adapters
async def test_a_server_that_takes_no_connection_is_left_when_the_connect_timer_fires(adapter: str) -> None:
    with socket.socket() as full:  # listens, and its queue is full: no handshake comes to its end
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        async with at(f"http://127.0.0.1:{full.getsockname()[1]}/v1", adapter=adapter) as models:
            failure = await failure_of(models, ask(adapter, AttemptLimits(connect_timeout_ms=200)))
        for other in others:
            other.close()
    assert told(failure) == (FailureClass.CONNECTION, AttemptLimit.CONNECT, FREE)


@both_adapters
@pytest.mark.parametrize("pieces", [[Hang()], [Send(b": still here\n\n"), Hang()]], ids=["silent", "comment"])
async def test_a_server_that_never_begins_its_answer_is_left_when_the_first_token_timer_fires(
    adapter: str, pieces: list[Piece]
) -> None:
    async with against(Wire(pieces=pieces), adapter=adapter) as (models, server):
        failure = await failure_of(models, ask(adapter, AttemptLimits(first_token_timeout_ms=300)))
        assert await is_left(server)
    assert told(failure) == (FailureClass.TIMEOUT, AttemptLimit.FIRST_TOKEN, None)


@both_adapters
async def test_a_server_that_falls_silent_is_left_when_the_idle_timer_fires(adapter: str) -> None:
    async with against(Wire(pieces=[HALF, Hang()]), adapter=adapter) as (models, server):
        failure = await failure_of(models, ask(adapter, idle_ms=300))
        assert await is_left(server)
    assert told(failure) == (FailureClass.TIMEOUT, AttemptLimit.IDLE, None)


@both_adapters
async def test_a_server_that_trickles_is_left_when_the_whole_time_is_over(adapter: str) -> None:
    async with against(Wire(pieces=for_ever(HALF, Wait(0.02))), adapter=adapter) as (models, server):
        failure = await failure_of(models, ask(adapter, total_ms=500, idle_ms=400))
        assert await is_left(server)
    assert told(failure) == (FailureClass.TIMEOUT, AttemptLimit.TOTAL, None)


@both_adapters
@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (AttemptLimits(reply_bytes=2_000), AttemptLimit.BYTES),
        (AttemptLimits(reply_chunks=100), AttemptLimit.CHUNKS),
    ],
)
async def test_a_reply_without_end_is_cut_off_at_its_cap(
    adapter: str, limits: AttemptLimits, limit: AttemptLimit
) -> None:
    async with against(Wire(pieces=for_ever(HALF)), adapter=adapter) as (models, server):
        failure = await failure_of(models, ask(adapter, limits))
        assert await is_left(server)
    assert told(failure) == (FailureClass.MALFORMED, limit, None)


@both_adapters
async def test_a_reply_in_one_piece_beyond_the_cap_is_not_taken(adapter: str) -> None:
    whole = sse(chunk({"content": "x" * 3_000_000}))
    async with against(Wire(pieces=[whole, sse(chunk(finish="stop"))]), adapter=adapter) as (models, _):
        failure = await failure_of(models, ask(adapter, AttemptLimits(reply_bytes=1_000_000)))
    assert told(failure) == (FailureClass.MALFORMED, AttemptLimit.BYTES, None)


@both_adapters
async def test_a_line_without_end_is_cut_off_before_it_fills_the_memory(adapter: str) -> None:
    pieces = for_ever(Send(b"data: " + b"x" * 1_000_000))
    async with against(Wire(pieces=pieces), adapter=adapter) as (models, _):
        failure = await failure_of(models, ask(adapter))
    assert told(failure) == (FailureClass.MALFORMED, AttemptLimit.BYTES, None)


@both_adapters
async def test_output_far_beyond_what_was_asked_for_is_a_truncated_reply(adapter: str) -> None:
    async with against(Wire(pieces=for_ever(sse(chunk({"content": "x" * 100})))), adapter=adapter) as (
        models,
        _,
    ):
        asked = replace(ask(adapter), max_output_tokens=100)
        assert (await collect(models, asked))[-1] == EndChunk(FinishReason.LENGTH, None)
