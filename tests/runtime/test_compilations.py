"""Compilations are made one at a time, and kept up to a bound of bytes."""

import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest

from jackline_server.runtime.ports.definitions import Compilation, Signature, Source
from jackline_server.runtime.workflows.compilations import Compilations


class Slow:
    """A compiler that waits until it is told to go on, and knows how many compile at once."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Semaphore(0)
        self.compiled: list[str] = []
        self._running = 0
        self.most_at_once = 0

    def compile(self, source: Source) -> Compilation:
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        self.began.release()
        assert self.go.wait(20)
        self.compiled.append(source.yaml)
        self._running -= 1
        return Compilation(name="x", revision="", plan=None, findings=(), worst_case=None)

    def signature(self, source: Source) -> Signature | None:
        raise AssertionError(f"unexpected question about {source.yaml!r}")


@pytest.fixture
async def slow() -> AsyncGenerator[Slow]:
    compiler = Slow()
    yield compiler
    compiler.go.set()


def source(text: str) -> Source:
    return Source(yaml=text, files={})


async def test_one_source_is_compiled_at_a_time_and_each_but_once(slow: Slow) -> None:
    compilations = Compilations(compiler=slow)
    asked = [asyncio.create_task(compilations.of(source(text))) for text in "abcab"]
    async with asyncio.timeout(20):
        await asyncio.to_thread(slow.began.acquire)
        slow.go.set()
        await asyncio.gather(*asked)
    assert slow.compiled == ["a", "b", "c"]
    assert slow.most_at_once == 1


async def test_a_caller_that_goes_leaves_the_turn_to_the_thread_that_still_runs(slow: Slow) -> None:
    compilations = Compilations(compiler=slow)
    first = asyncio.create_task(compilations.of(source("a")))
    async with asyncio.timeout(20):
        await asyncio.to_thread(slow.began.acquire)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(compilations.of(source("b")))
        slow.go.set()
        await second
    assert slow.compiled == ["a", "b"]
    assert slow.most_at_once == 1


async def test_what_is_kept_is_bounded_by_bytes(slow: Slow) -> None:
    slow.go.set()
    most = 2 * 1024 * 1024
    compilations = Compilations(compiler=slow, most_bytes=most)
    for number in range(8):
        await compilations.of(source(f"{number}" + " " * 20_000))
        assert compilations.size_bytes <= most
    kept = len(slow.compiled)
    await compilations.of(source("7" + " " * 20_000))
    assert len(slow.compiled) == kept
    await compilations.of(source("0" + " " * 20_000))
    assert len(slow.compiled) == kept + 1


async def test_a_source_compiled_again_takes_the_place_of_the_old(slow: Slow) -> None:
    slow.go.set()
    compilations = Compilations(compiler=slow)
    old = await compilations.of(source("a"))
    size = compilations.size_bytes
    new = await compilations.again(source("a"))
    assert new is not old
    assert await compilations.of(source("a")) is new
    assert compilations.size_bytes == size
