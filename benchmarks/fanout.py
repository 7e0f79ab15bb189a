"""`fanout`: events a second to many watchers of a run, as stored bytes in list frames.

Owns the measurement. The watchers are `fanout_watchers`, the floor is `fanout_floor`: the same frames to the
same watchers.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.doors import STREAM, Watching, doors_of
from benchmarks.fanout_floor import METHOD, write_frames
from benchmarks.fanout_watchers import digest_of
from benchmarks.histories import Watched, problems_of_storing, problems_of_watching
from benchmarks.looping import INPUT, WORKFLOW, expected_of, loop_files
from benchmarks.metering import cpu_s
from benchmarks.outside import Program, program
from benchmarks.readback import read_store
from benchmarks.results import Result, Target
from benchmarks.served import Setup, served
from jackline.v1.run_pb2 import View
from jackline.v1.run_service_pb2 import StreamProgressRequest

TARGETS = (Target(figure="deliveries_per_s", at_least=300_000),)


@dataclass(frozen=True, slots=True, kw_only=True)
class FanoutParameters:
    """`watchers` in `processes`, each following a run of `turns` turns `passes` times; `rounds` of that."""

    watchers: int = 100
    processes: int = 4
    turns: int = 400
    passes: int = 5
    rounds: int = 3


TINY = FanoutParameters(watchers=4, processes=2, turns=2, passes=1, rounds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """What all watchers got at one go."""

    events: int
    frames: int
    seconds: float
    server_cpu_s: float
    problems: Sequence[str]
    digests: Mapping[str, int]

    @property
    def per_s(self) -> float:
        return self.events / self.seconds


async def measure(parameters: FanoutParameters, folder: Path) -> Result:
    """Measure in a folder of its own. Raises ServerTrouble and ProgramFailed."""
    async with served(Setup(files=loop_files(parameters.turns)), folder) as server, doors_of(server) as doors:
        run_id = await doors.start(WORKFLOW, INPUT)
        await doors.watch(Watching(run_id=run_id))
        alone = (await doors.watch(Watching(run_id=run_id))).watched()  # now from its first event to its last
        request = StreamProgressRequest(run_id=run_id, view=View.VIEW_FULL).SerializeToString()
        order = {
            "address": server.address, "token": server.token, "method": STREAM, "request": request.hex(),
            "run_id": run_id, "turns": parameters.turns, "passes": parameters.passes,
        }  # fmt: skip
        rounds = [await _round(order, parameters, server.pid) for _ in range(parameters.rounds)]
    write_frames(folder / "frames", alone.frames)
    async with program("benchmarks.fanout_floor", {"frames": str(folder / "frames")}) as floor:
        order = {**order, "address": (await floor.answer())["address"], "method": METHOD}
        floors = [await _round(order, parameters, floor.pid) for _ in range(parameters.rounds)]
    return Result(
        name="fanout",
        figures=_figures(rounds, floors),
        targets=TARGETS,
        problems=_problems(parameters, alone, [*rounds, *floors], folder / "data"),
        parameters=asdict(parameters),
        notes=("a watcher follows the finished run from its first event; the floor's frames lie in memory",),
    )


async def _round(order: Mapping[str, Any], parameters: FanoutParameters, pid: int) -> _Round:
    """All watchers at once, each process told to begin when all are connected."""
    async with AsyncExitStack() as stack:
        programs: list[Program] = []
        for share in shares(parameters.watchers, parameters.processes):
            started = program("benchmarks.fanout_watchers", {**order, "watchers": share})
            programs.append(await stack.enter_async_context(started))
        for each in programs:
            await each.answer()
        cpu = cpu_s(pid)
        for each in programs:
            each.tell({"go": True})
        told = [await each.answer() for each in programs]
        cpu = cpu_s(pid) - cpu
    digests = Counter[str]()
    for part in told:
        digests.update(part["digests"])
    return _Round(
        events=sum(part["events"] for part in told),
        frames=sum(part["frames"] for part in told),
        seconds=max(part["end"] for part in told) - min(part["start"] for part in told),
        server_cpu_s=cpu,
        problems=[problem for part in told for problem in part["problems"]],
        digests=digests,
    )


def shares(watchers: int, processes: int) -> list[int]:
    """So many watchers on so many processes, as even as can be; no process without one."""
    least, more = divmod(watchers, processes)
    return [share for index in range(processes) if (share := least + (index < more))]


def _problems(
    parameters: FanoutParameters, alone: Watched, rounds: Sequence[_Round], data: Path
) -> list[str]:
    contents = read_store(data)
    found = problems_of_watching(alone, expected_of(parameters.turns))
    found += problems_of_storing(alone, contents.runs.get(alone.run_id))
    stored = contents.runs.get(alone.run_id)
    events = list(stored.events) if stored else []
    passes = parameters.watchers * parameters.passes
    for part in rounds:
        found += part.problems
        if part.digests != {digest_of(events): passes}:
            found.append("not every watcher got the bytes that the store holds")
        if part.events != passes * len(events):
            found.append(f"{part.events} events were delivered, {passes * len(events)} had to be")
    return found


def _figures(rounds: Sequence[_Round], floors: Sequence[_Round]) -> dict[str, float | list[float]]:
    rate, most = (statistics.median(part.per_s for part in parts) for parts in (rounds, floors))
    return {
        "deliveries_per_s": rate,
        "floor_deliveries_per_s": most,
        "ratio": most / rate,
        "deliveries_per_s_rounds": [part.per_s for part in rounds],
        "floor_deliveries_per_s_rounds": [part.per_s for part in floors],
        "server_cpu_us_per_delivery": statistics.median(p.server_cpu_s / p.events for p in rounds) * 1e6,
        "floor_cpu_us_per_delivery": statistics.median(p.server_cpu_s / p.events for p in floors) * 1e6,
        "events_per_frame": sum(p.events for p in rounds) / sum(p.frames for p in rounds),
    }
