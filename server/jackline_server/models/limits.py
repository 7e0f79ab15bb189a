"""What guards one attempt at a model: a slot, timers and caps, each a wrapper around an adapter.

Owns `Slotted` (how many attempts of a profile run at once), `Timed` (first chunk, idle, total; and that no
adapter can hold us) and `Capped` (bytes, chunks, output; and that a reply ends exactly once). Does not own
retries, which are the core's. The connect timer is the adapter's, since only it sees a connection.

Put them together in that order, the slot outermost.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from jackline_server.core.facts import FailureClass, FinishReason
from jackline_server.models.failures import refused
from jackline_server.runtime.ports import (
    EndChunk,
    ModelChunk,
    ModelFailure,
    ModelRequest,
    Models,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)

MAX_BYTES = 8 * 1024 * 1024
MAX_CHUNKS = 100_000

BYTES_PER_TOKEN = 16
"""More than any tokenizer makes of prose or code on average, so that no honest reply is cut."""

OUTPUT_SLACK_BYTES = 4096

_QUEUE_CHUNKS = 16
"""Small, so that a reply of many tiny chunks that is all there at once lets others have the loop between."""


class Slotted:
    """Lets `slots` attempts run at once; the others wait, at most as long as they may take in all.

    A wait can be cancelled. The time waited is taken off the attempt's own.
    """

    def __init__(self, inner: Models, *, slots: int) -> None:
        self._inner = inner
        self._slots = asyncio.Semaphore(slots)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. A slot that never came free is TIMEOUT, charged nothing."""
        waited_ms = await self._take(request)
        try:
            if waited_ms:
                request = replace(request, total_ms=max(request.total_ms - waited_ms, 1))
            async with aclosing(self._inner.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self._slots.release()

    async def _take(self, request: ModelRequest) -> int:
        """Wait for a slot; the whole milliseconds that it took."""
        if not self._slots.locked():
            await self._slots.acquire()  # free: this takes it at once
            return 0
        loop = asyncio.get_running_loop()
        since = loop.time()
        try:
            async with asyncio.timeout(request.total_ms / 1000):
                await self._slots.acquire()
        except TimeoutError:
            raise refused(
                FailureClass.TIMEOUT,
                f"no slot of model profile {request.plan.profile!r} came free in time; raise its concurrency",
            ) from None
        return int((loop.time() - since) * 1000)


class Timed:
    """Ends an attempt whose first chunk, next chunk or end does not come in time.

    The adapter runs in a task of its own, which alone opens, reads and closes its stream. An adapter that
    swallows cancellation is left behind after `grace_ms`; nothing waits for it any more.
    """

    def __init__(self, inner: Models, *, first_token_ms: int = 60_000, grace_ms: int = 500) -> None:
        self._inner = inner
        self._first_token_ms = first_token_ms
        self._grace_s = grace_ms / 1000
        self._left_behind: set[asyncio.Task[None]] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. A timer that fires is TIMEOUT; what the attempt cost is then unknown."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.total_ms / 1000
        pump = _Pump(self._inner, request)
        wait_s, what = self._first_token_ms / 1000, "did not begin to answer"
        try:
            while True:
                left_s = deadline - loop.time()
                if left_s <= wait_s:
                    wait_s, what = left_s, "did not finish its answer"
                chunk = await pump.next(wait_s, what)
                if chunk is None:
                    return
                yield chunk
                wait_s, what = request.idle_ms / 1000, "stopped in the middle of its answer"
        finally:
            await self._stop(pump.task)

    async def _stop(self, task: asyncio.Task[None]) -> None:
        if task.done():
            return
        task.cancel()
        self._left_behind.add(task)
        task.add_done_callback(self._left_behind.discard)
        await asyncio.wait({task}, timeout=self._grace_s)


class _Pump:
    """The task that reads an adapter, and the few chunks between it and whoever takes them.

    A chunk that is there already costs no timer; the one timer of a wait is made only when there is a wait.
    """

    def __init__(self, inner: Models, request: ModelRequest) -> None:
        self._inner = inner
        self._request = request
        self._chunks: deque[ModelChunk | ModelFailure | None] = deque()
        self._loop = asyncio.get_running_loop()
        self._taker: asyncio.Future[None] | None = None
        self._giver: asyncio.Future[None] | None = None
        self.task = self._loop.create_task(self._run(), name="model-attempt")

    async def _run(self) -> None:
        """Read to the end; the last thing put is None or the failure."""
        last: ModelFailure | None = None
        try:
            async with aclosing(self._inner.stream(self._request)) as chunks:
                async for chunk in chunks:
                    if len(self._chunks) >= _QUEUE_CHUNKS:
                        await self._room()
                    self._put(chunk)
        except ModelFailure as failure:
            last = failure
        except asyncio.CancelledError:
            if self.task.cancelling():
                raise
            last = ModelFailure(FailureClass.CONNECTION, "the model adapter cancelled its own request")
        except Exception as error:  # noqa: BLE001 - the task ends here; its text may hold content, its type does not
            last = ModelFailure(FailureClass.INTERNAL, f"the model adapter failed: {type(error).__name__}")
        self._put(last)

    def _put(self, item: ModelChunk | ModelFailure | None) -> None:
        self._chunks.append(item)
        _resolve(self._taker)

    async def _room(self) -> None:
        """Wait until a chunk was taken."""
        self._giver = self._loop.create_future()
        try:
            await self._giver
        finally:
            self._giver = None

    async def next(self, wait_s: float, what: str) -> ModelChunk | None:
        """The next chunk, None at the end. Raises ModelFailure: the adapter's, or TIMEOUT."""
        if wait_s <= 0:
            raise ModelFailure(FailureClass.TIMEOUT, f"the model {what} in time")
        if not self._chunks and not await self._came(wait_s):
            raise ModelFailure(FailureClass.TIMEOUT, f"the model {what} within {wait_s:.3g} s")
        item = self._chunks.popleft()
        _resolve(self._giver)
        if isinstance(item, ModelFailure):
            raise item
        return item

    async def _came(self, wait_s: float) -> bool:
        """Wait for a chunk; False if the time is over without one."""
        self._taker = self._loop.create_future()
        timer = self._loop.call_later(wait_s, _resolve, self._taker)
        try:
            await self._taker
        finally:
            timer.cancel()
            self._taker = None
        return bool(self._chunks)


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


class Capped:
    """Bounds what a model may send, and ends every reply exactly once.

    Output far beyond `max_output_tokens` (16 bytes a token and 4 KiB) ends the reply as LENGTH, since the
    provider has ignored the cap and would go on; its usage is then unknown. More than `max_bytes` or
    `max_chunks` is MALFORMED.
    """

    def __init__(self, inner: Models, *, max_bytes: int = MAX_BYTES, max_chunks: int = MAX_CHUNKS) -> None:
        self._inner = inner
        self._max_bytes = max_bytes
        self._max_chunks = max_chunks

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models."""
        output_bytes = request.max_output_tokens * BYTES_PER_TOKEN + OUTPUT_SLACK_BYTES
        taken = count = 0
        async with aclosing(self._inner.stream(request)) as chunks:
            async for chunk in chunks:
                taken += _size(chunk)
                count += 1
                if taken > self._max_bytes or count > self._max_chunks:
                    raise ModelFailure(FailureClass.MALFORMED, "the model's reply is over its size limit")
                if taken > output_bytes:
                    yield EndChunk(FinishReason.LENGTH, None)
                    return
                yield chunk
                if isinstance(chunk, EndChunk):
                    return
        raise ModelFailure(FailureClass.MALFORMED, "the model's reply has no end")


def _size(chunk: ModelChunk) -> int:
    """The bytes of a chunk's content; the cheap upper bound is close enough for text that is not ASCII."""
    match chunk:
        case TextChunk(text=text) | ReasoningChunk(text=text):
            return _bytes(text)
        case ToolCallChunk():
            return _bytes(chunk.arguments) + _bytes(chunk.name) + _bytes(chunk.call_id)
        case EndChunk():
            return 0


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
