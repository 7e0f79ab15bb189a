import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

import pytest

from jackline_server.core.facts import AttemptLimit, FailureClass, FinishReason, Usage
from jackline_server.core.plan import AttemptLimits
from jackline_server.models.limits import Guarded
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import ModelRouter
from jackline_server.runtime.ports.models import EndChunk, ModelChunk, ModelFailure, ModelRequest, TextChunk
from tests.models.examples import FakeAdapter, collect, failure_of, model_plan, request
from tests.models.virtual_time import run_virtual

END = EndChunk(FinishReason.STOP, Usage(prompt_tokens=1, completion_tokens=1))
Behave = Callable[[ModelRequest], AsyncGenerator[ModelChunk, None]]


def paced(*delays_s: float) -> Behave:
    """A chunk after each of these waits, then the end."""

    async def behave(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        for delay_s in delays_s:
            await asyncio.sleep(delay_s)
            yield TextChunk("x")
        yield END

    return behave


async def forever(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    await asyncio.Event().wait()
    yield END


async def stubborn(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
    """Swallows a hundred cancellations."""
    for _number in range(100):
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            continue
    yield END


@pytest.mark.parametrize(
    ("behave", "total_ms", "ends_at_s", "limit"),
    [
        (forever, 600_000, 60, AttemptLimit.FIRST_TOKEN),
        (forever, 5_000, 5, AttemptLimit.TOTAL),
        (paced(1, 100), 600_000, 31, AttemptLimit.IDLE),
        (paced(*[29] * 100), 600_000, 600, AttemptLimit.TOTAL),
        (paced(*[0.01] * 20_000), 50_000, 50, AttemptLimit.TOTAL),
    ],
    ids=["no first token", "total before first token", "idle", "slow for ever", "busy for ever"],
)
def test_a_provider_that_is_too_slow_is_ended_when_its_timer_fires(
    behave: Behave, total_ms: int, ends_at_s: float, limit: AttemptLimit
) -> None:
    async def attempt() -> tuple[ModelFailure, float]:
        loop = asyncio.get_running_loop()
        failure = None
        try:
            async for _chunk in Guarded(FakeAdapter(behave)).stream(
                request(total_ms=total_ms, idle_ms=30_000)
            ):
                pass
        except ModelFailure as found:
            failure = found
        assert failure is not None
        return failure, loop.time()

    failure, ended_s = run_virtual(attempt())
    assert (failure.failure, failure.limit) == (FailureClass.TIMEOUT, limit)
    assert failure.usage is None
    assert ended_s == pytest.approx(ends_at_s, abs=0.01)


def test_a_provider_that_swallows_cancellation_is_left_behind() -> None:
    async def attempt() -> float:
        models = Guarded(FakeAdapter(stubborn), grace_ms=500)
        failure = None
        try:
            async for _chunk in models.stream(request(total_ms=1_000)):
                pass
        except ModelFailure as found:
            failure = found
        assert failure is not None
        assert failure.failure is FailureClass.TIMEOUT
        ended_s = asyncio.get_running_loop().time()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            while not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=0.1)
        return ended_s

    assert run_virtual(attempt()) == pytest.approx(1.5, abs=0.01)


async def test_closing_a_stream_early_closes_the_adapter() -> None:
    adapter = FakeAdapter(paced(0, 1_000))
    models = ModelRouter(adapters={"test": adapter}, profiles={"p": ModelProfile()})
    stream = models.stream(request())
    assert await anext(stream) == TextChunk("x")
    await stream.aclose()
    assert (adapter.opened, adapter.open) == (1, 0)


async def test_cancelling_the_consumer_closes_the_adapter() -> None:
    begun = asyncio.Event()

    async def behave(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        begun.set()
        await asyncio.Event().wait()
        yield END

    adapter = FakeAdapter(behave)
    models = ModelRouter(adapters={"test": adapter}, profiles={"p": ModelProfile()})
    task = asyncio.create_task(collect(models, request()))
    await begun.wait()
    task.cancel()
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    assert adapter.open == 0


async def test_an_adapter_that_breaks_is_an_internal_failure_without_its_text() -> None:
    async def behave(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        yield TextChunk("x")
        raise KeyError("sk-secret")

    failure = await failure_of(Guarded(FakeAdapter(behave)), request())
    assert failure.failure is FailureClass.INTERNAL
    assert "sk-secret" not in failure.message


async def test_an_adapter_that_cancels_itself_is_a_connection_failure() -> None:
    async def behave(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        yield TextChunk("x")
        raise asyncio.CancelledError

    failure = await failure_of(Guarded(FakeAdapter(behave)), request())
    assert failure.failure is FailureClass.CONNECTION


def endless(text: str) -> Behave:
    async def behave(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        while True:
            yield TextChunk(text)

    return behave


async def test_output_far_over_the_cap_ends_as_length() -> None:
    adapter = FakeAdapter(endless("word " * 100))
    chunks = await collect(Guarded(adapter), request(max_output_tokens=100))
    assert chunks[-1] == EndChunk(FinishReason.LENGTH, None)
    assert (
        100 * 16
        <= sum(len(chunk.text) for chunk in chunks if isinstance(chunk, TextChunk))
        <= 100 * 16 + 4096
    )
    assert adapter.open == 0


@pytest.mark.parametrize(
    ("text", "limit"), [("x" * 1000, AttemptLimit.BYTES), ("", AttemptLimit.CHUNKS)], ids=["bytes", "chunks"]
)
async def test_a_reply_over_its_size_is_malformed(text: str, limit: AttemptLimit) -> None:
    plan = replace(model_plan(), limits=AttemptLimits(reply_bytes=50_000, reply_chunks=500))
    models = Guarded(FakeAdapter(endless(text)))
    failure = await failure_of(models, request(plan=plan, max_output_tokens=10_000_000))
    assert (failure.failure, failure.limit) == (FailureClass.MALFORMED, limit)


async def test_a_reply_ends_exactly_once() -> None:
    async def never(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        yield TextChunk("x")

    async def twice(_: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        yield END
        yield END

    assert (await failure_of(Guarded(FakeAdapter(never)), request())).failure is FailureClass.MALFORMED
    assert await collect(Guarded(FakeAdapter(twice)), request()) == [END]


async def test_a_profile_or_adapter_that_is_not_there_is_a_bad_request() -> None:
    router = ModelRouter(adapters={}, profiles={"p": ModelProfile()})
    for plan in (model_plan(), model_plan(profile="gone")):
        failure = await failure_of(router, request(plan=plan))
        assert (failure.failure, failure.usage) == (FailureClass.BAD_REQUEST, Usage())
