"""One question under one timer, whatever the one who is asked does with cancellation.

Owns the task of a question from its start until it ends or is abandoned.
"""

import asyncio
from collections.abc import Awaitable, Callable

from jackline_server.runtime.ports.consultants import ConsultReply

_FAREWELL_SECONDS = 0.5
"""How long a cancelled question may take to end before it is abandoned."""


class Timed:
    """Asks questions, and holds on to the tasks that would not end when they were told to."""

    def __init__(self) -> None:
        self._abandoned: set[asyncio.Task[ConsultReply]] = set()

    @property
    def abandoned(self) -> int:
        """How many questions are still under way though nobody waits for them."""
        return len(self._abandoned)

    async def ask(self, question: Callable[[], Awaitable[ConsultReply]], *, timeout_ms: int) -> ConsultReply:
        """The answer, or none once the time is over. Being cancelled cancels the question.

        Returns at most half a second after the time is over. Raises nothing but CancelledError.
        """
        task = asyncio.get_running_loop().create_task(_answered(question))
        try:
            await asyncio.wait({task}, timeout=timeout_ms / 1000)
        except asyncio.CancelledError:
            await self._end(task)
            raise
        if task.done() and not task.cancelled():
            return task.result()
        await self._end(task)
        return ConsultReply(answer=None, error=f"no answer within {timeout_ms / 1000:g} s")

    async def _end(self, task: asyncio.Task[ConsultReply]) -> None:
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=_FAREWELL_SECONDS)
        finally:
            if not task.done():
                self._abandoned.add(task)
                task.add_done_callback(self._abandoned.discard)


async def _answered(question: Callable[[], Awaitable[ConsultReply]]) -> ConsultReply:
    try:
        return await question()
    except asyncio.CancelledError:
        return ConsultReply(answer=None, error="it was cancelled")
    except BaseException as error:  # noqa: BLE001 - a task ends here, and SystemExit must not end the server
        return ConsultReply(answer=None, error=f"it failed: {type(error).__name__}")
