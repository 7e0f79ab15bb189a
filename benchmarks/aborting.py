"""Ending runs that wait, each watched from its first event to its end."""

import asyncio
from collections.abc import Sequence

from benchmarks.doors import Doors, Watching
from benchmarks.histories import Watched
from jackline.v1.control_pb2 import AbortCommand
from jackline.v1.run_service_pb2 import ControlRequest

AT_ONCE = 90
"""A server allows one principal a hundred streams."""


async def abort_all(doors: Doors, run_ids: Sequence[str]) -> list[Watched]:
    """Abort each run, and return what its watcher saw."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(run_id: str) -> Watched:
        async with room:
            await doors.control(ControlRequest(run_id=run_id, abort=AbortCommand()))
            return (await doors.watch(Watching(run_id=run_id))).watched()

    return list(await asyncio.gather(*(one(run_id) for run_id in run_ids)))
