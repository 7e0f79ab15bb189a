"""Starts of runs that were asked for and are not answered yet.

Owns that none is lost sight of: whoever waits for a start may be cancelled, and the start goes on, since
nobody can say whether a run comes of it before it is answered. Does not own what is started.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Starts:
    """The starts of one evaluation that are under way."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[str]] = set()

    async def made(self, start: Coroutine[Any, Any, str]) -> str:
        """The answer to a start, which cancelling this does not cut off."""
        task = asyncio.create_task(start)
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        return await asyncio.shield(task)

    async def settled(self, *, within_s: float) -> tuple[int, int]:
        """Wait for the answers; how many came and how many did not in that time, which are given up."""
        waited = set(self._open)
        if not waited:
            return 0, 0
        done, left = await asyncio.wait(waited, timeout=within_s)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(done), len(left)
