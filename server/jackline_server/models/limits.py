"""What guards one attempt at a model: timers and caps, in one wrapper around an adapter.

Owns `Guarded`: the time until the first chunk, the next one and the end, how much a reply may hold and that
it ends exactly once; and that no adapter can hold us. Does not own retries, which are the core's, nor how
many attempts run at once (`places`). The connect timer is the adapter's, since only it sees a connection.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

from jackline_server.core.facts import AttemptLimit, FailureClass, FinishReason
from jackline_server.models.failures import over_size
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ModelFailure,
    ModelRequest,
    Models,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)

BYTES_PER_TOKEN = 16
"""More than any tokenizer makes of prose or code on average, so that no honest reply is cut."""

OUTPUT_SLACK_BYTES = 4096

_TOO_LATE = {
    AttemptLimit.FIRST_TOKEN: "did not begin to answer",
    AttemptLimit.IDLE: "stopped in the middle of its answer",
    AttemptLimit.TOTAL: "did not finish its answer",
}

_QUEUE_CHUNKS = 16
"""Small, so that a reply of many tiny chunks that is all there at once lets others have the loop between."""


class Guarded:
    """An adapter each of whose attempts keeps to its time and size.

    The adapter runs in a task of its own, which alone opens, reads and closes its stream. An adapter that
    swallows cancellation is left behind after `grace_ms`; nothing waits for it any more.

    Output far beyond `max_output_tokens` (16 bytes a token and 4 KiB) ends the reply as LENGTH, since the
    provider has ignored the cap and would go on; its usage is then unknown. More bytes or chunks than the
    plan's limits allow is MALFORMED.
    """

    def __init__(
        self,
        adapter: Models,
        *,
        grace_ms: int = 500,
    ) -> None:
        self.adapter = adapter
        self._grace_s = grace_ms / 1000
        self._left_behind: set[asyncio.Task[None]] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. A timer that fires is TIMEOUT; what the attempt cost is then unknown."""
        attempt = _Attempt(self, request)
        try:
            wait_ms, limit = request.plan.limits.first_token_timeout_ms, AttemptLimit.FIRST_TOKEN
            while True:
                if not attempt.came:
                    await attempt.wait(wait_ms / 1000, limit)
                wait_ms, limit = request.idle_ms, AttemptLimit.IDLE
                chunk = attempt.take()
                if chunk is None:
                    return
                yield chunk
        finally:
            await self._stop(attempt.task)

    async def _stop(self, task: asyncio.Task[None]) -> None:
        if task.done():
            return
        task.cancel()
        self._left_behind.add(task)
        task.add_done_callback(self._left_behind.discard)
        await asyncio.wait({task}, timeout=self._grace_s)


class _Attempt:
    """The task that reads an adapter, and the few chunks between it and whoever takes them.

    A chunk that is there already costs no timer; the one timer of a wait is made only when there is a wait.
    `came` has what waits to be taken, last None or the failure.
    """

    __slots__ = ("_deadline", "_giver", "_guard", "_loop", "_request", "_taker", "came", "task")

    def __init__(self, guard: Guarded, request: ModelRequest) -> None:
        self._guard = guard
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + request.total_ms / 1000
        self._taker: asyncio.Future[None] | None = None
        self._giver: asyncio.Future[None] | None = None
        self.came: deque[ModelChunk | ModelFailure | None] = deque()
        self.task = self._loop.create_task(self._run(), name="model-attempt")

    # --- the adapter's side --------------------------------------------------------------------

    async def _run(self) -> None:
        last: ModelFailure | None = None
        try:
            await self._read()
        except ModelFailure as failure:
            last = failure
        except asyncio.CancelledError:
            if self.task.cancelling():
                raise
            last = ModelFailure(FailureClass.CONNECTION, "the model adapter cancelled its own request")
        except Exception as error:  # noqa: BLE001 - the task ends here; its text may hold content, its type does not
            last = ModelFailure(FailureClass.INTERNAL, f"the model adapter failed: {type(error).__name__}")
        self._put(last)

    async def _read(self) -> None:
        """Read to the end of the reply or of a cap. Raises ModelFailure, and what the adapter raises."""
        guard, limits, taken, count = self._guard, self._request.plan.limits, 0, 0
        output_bytes = self._request.max_output_tokens * BYTES_PER_TOKEN + OUTPUT_SLACK_BYTES
        async with aclosing(guard.adapter.stream(self._request)) as chunks:
            async for chunk in chunks:
                taken += _size(chunk)
                count += 1
                if taken > limits.reply_bytes:
                    raise over_size()
                if count > limits.reply_chunks:
                    raise over_size(AttemptLimit.CHUNKS)
                if len(self.came) >= _QUEUE_CHUNKS:
                    await self._room()
                if taken > output_bytes:
                    self._put(EndChunk(FinishReason.LENGTH, None))
                    return
                self._put(chunk)
                if isinstance(chunk, EndChunk):
                    return
        raise ModelFailure(FailureClass.MALFORMED, "the model's reply has no end")

    def _put(self, item: ModelChunk | ModelFailure | None) -> None:
        self.came.append(item)
        _resolve(self._taker)

    async def _room(self) -> None:
        """Wait until a chunk was taken."""
        self._giver = self._loop.create_future()
        try:
            await self._giver
        finally:
            self._giver = None

    # --- the taker's side ----------------------------------------------------------------------

    def take(self) -> ModelChunk | None:
        """The next chunk of those that came, None at the end. Raises the adapter's ModelFailure."""
        item = self.came.popleft()
        _resolve(self._giver)
        if isinstance(item, ModelFailure):
            raise item
        return item

    async def wait(self, wait_s: float, limit: AttemptLimit) -> None:
        """Wait so long for a chunk, and no longer than for the whole reply. Raises ModelFailure: TIMEOUT."""
        left_s = self._deadline - self._loop.time()
        if left_s <= wait_s:
            wait_s, limit = left_s, AttemptLimit.TOTAL
        if wait_s <= 0:
            raise ModelFailure(FailureClass.TIMEOUT, f"the model {_TOO_LATE[limit]} in time", limit=limit)
        self._taker = self._loop.create_future()
        timer = self._loop.call_later(wait_s, _resolve, self._taker)
        try:
            await self._taker
        finally:
            timer.cancel()
            self._taker = None
        if not self.came:
            message = f"the model {_TOO_LATE[limit]} within {wait_s:.3g} s"
            raise ModelFailure(FailureClass.TIMEOUT, message, limit=limit)


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


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
