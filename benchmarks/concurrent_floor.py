"""The least that runs which wait can hold: a task, a timer and the bytes of the run's own events for each.

Owns a process that does nothing else. Its answer comes when all of them wait; its memory is then read from
outside.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.outside import read_order, say
from benchmarks.readback import read_store

_HOUR_S = 3_600.0


async def _model() -> AsyncGenerator[str]:
    """A model that does not reply."""
    await asyncio.sleep(_HOUR_S)
    yield ""


async def _wait(events: tuple[bytes, ...], waiting: asyncio.Semaphore) -> tuple[bytes, ...]:
    """One run: its events, kept, and its model, waited for under a timer."""
    waiting.release()
    async with asyncio.timeout(_HOUR_S), aclosing(_model()) as chunks:
        async for _ in chunks:
            break
    return events


async def hold(order: dict[str, Any]) -> None:
    """Say when nothing waits yet; on the word let all wait, and say so; end with standard input."""
    stored = read_store(Path(order["source"])).runs
    say({"empty": True})
    await asyncio.to_thread(read_order)
    waiting = asyncio.Semaphore(0)
    tasks = [
        asyncio.create_task(_wait(tuple(bytes(bytearray(event)) for event in stored[run_id].events), waiting))
        for run_id in order["run_ids"]
    ]
    for _ in tasks:
        await waiting.acquire()
    say({"waiting": len(tasks)})
    try:
        await asyncio.to_thread(read_order)
    except EOFError:
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    uvloop.run(hold(read_order()))
