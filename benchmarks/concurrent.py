"""`concurrent`: the memory that a run takes while it waits for its model.

Owns the measurement. The workload is in `waiting`, the floor in `concurrent_floor`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.aborting import abort_all
from benchmarks.doors import doors_of
from benchmarks.histories import Watched, problems_of_storing, problems_of_watching
from benchmarks.metering import calm_memory, memory
from benchmarks.outside import program
from benchmarks.readback import read_store
from benchmarks.results import Result, Target
from benchmarks.served import served
from benchmarks.waiting import ABORTED, start_waiting, waiting_setup

TARGETS = (Target(figure="kb_per_run", at_most=40),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrentParameters:
    """`runs` that wait at once; `warm` more come and go before, so that what is made once does not count."""

    runs: int = 1_000
    warm: int = 20


TINY = ConcurrentParameters(runs=5, warm=1)


async def measure(parameters: ConcurrentParameters, folder: Path) -> Result:
    """Measure in a folder of its own. Raises ServerTrouble and ProgramFailed."""
    async with served(waiting_setup(), folder) as server, doors_of(server) as doors:
        warm = await abort_all(doors, await start_waiting(doors, parameters.warm))
        before = await calm_memory(server.pid)
        ids = await start_waiting(doors, parameters.runs)
        during = await calm_memory(server.pid)
        watched = await abort_all(doors, ids)
        after = await calm_memory(server.pid)
    problems = _problems([*warm, *watched], folder / "data")
    floor = await _floor(folder, ids)
    per_run = (during.rss_kib - before.rss_kib) / parameters.runs
    return Result(
        name="concurrent",
        figures={
            "kb_per_run": per_run,
            "floor_kb_per_run": floor,
            "ratio": per_run / floor if floor > 0 else None,
            "pss_kb_per_run": (during.pss_kib - before.pss_kib) / parameters.runs,
            "rss_mb_before": before.rss_kib / 1024,
            "rss_mb_waiting": during.rss_kib / 1024,
            "rss_mb_after": after.rss_kib / 1024,
        },
        targets=TARGETS,
        problems=problems,
        parameters=asdict(parameters),
        notes=("KiB of resident memory, read when the server had been at rest for half a second",),
    )


async def _floor(folder: Path, ids: Sequence[str]) -> float:
    order = {"source": str(folder / "data"), "run_ids": list(ids)}
    async with program("benchmarks.concurrent_floor", order) as floor:
        await floor.answer()
        before = memory(floor.pid)
        floor.tell({"go": True})
        await floor.answer()
        return (memory(floor.pid).rss_kib - before.rss_kib) / len(ids)


def _problems(every: Sequence[Watched], data: Path) -> list[str]:
    contents = read_store(data)
    found: list[str] = []
    for watched in every:
        found += problems_of_watching(watched, ABORTED)
        found += problems_of_storing(watched, contents.runs.get(watched.run_id))
    if len(contents.runs) != len(every):
        found.append(f"the store has {len(contents.runs)} runs, {len(every)} were started")
    return found
