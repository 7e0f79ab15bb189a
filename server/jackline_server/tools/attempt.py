"""One attempt at a tool under one timer, whatever the tool does with cancellation.

Owns the task of an attempt from its start until it ends or is abandoned. Does not know any kind of tool.
"""

import asyncio
from collections.abc import Awaitable, Callable

from jackline_server.runtime.ports.tools import ToolResult
from jackline_server.tools.results import failed

_FAREWELL_SECONDS = 0.5
"""How long a cancelled attempt may take to clean up before it is abandoned."""


class Attempts:
    """Runs attempts, and holds on to the tasks that would not end when they were told to."""

    def __init__(self) -> None:
        self._abandoned: set[asyncio.Task[None]] = set()

    @property
    def abandoned(self) -> int:
        """How many attempts are still running though nobody waits for them."""
        return len(self._abandoned)

    async def run(
        self,
        attempt: Callable[[], Awaitable[ToolResult]],
        *,
        timeout_ms: int,
        net_ms: int,
        repeatable: bool,
    ) -> ToolResult:
        """The attempt's result, or a failure once its time is over, uncertain unless it is repeatable.

        An attempt that keeps its own time knows best what its end means: it is cut `net_ms` later. Returns at
        most half a second after that, even if the tool swallows cancellation. Being cancelled cancels the
        attempt, waits as long for it, and raises CancelledError.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[ToolResult | None] = loop.create_future()
        task = loop.create_task(_answered(answer, attempt, repeatable=repeatable))
        timer = loop.call_later((timeout_ms + net_ms) / 1000, _resolve, answer, None)
        try:
            result = await answer
        except asyncio.CancelledError:
            await self._end(task)
            raise
        finally:
            timer.cancel()
        if result is not None:
            return result
        await self._end(task)
        message = f"The tool did not finish within {_words(timeout_ms)}."
        return failed(message, uncertain=not repeatable, timed_out=True)

    async def _end(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
        finally:
            if not task.done():
                self._abandoned.add(task)
                task.add_done_callback(self._abandoned.discard)


async def _answered(
    answer: asyncio.Future[ToolResult | None],
    attempt: Callable[[], Awaitable[ToolResult]],
    *,
    repeatable: bool,
) -> None:
    """Carry the attempt out and answer with its result, if the answer is still waited for."""
    try:
        result = await attempt()
    except asyncio.CancelledError:
        # Ours, and then nobody reads this; or the tool's own, and then it is a failure like any other.
        result = failed("The tool was cancelled.", uncertain=not repeatable)
    except BaseException as error:  # noqa: BLE001 - a task ends here, and SystemExit must not end the server
        result = failed(f"The tool failed: {type(error).__name__}.", uncertain=not repeatable)
    _resolve(answer, result)


def _resolve(answer: asyncio.Future[ToolResult | None], result: ToolResult | None) -> None:
    if not answer.done():
        answer.set_result(result)


def _words(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s"
