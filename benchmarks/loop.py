"""`loop`: what one turn of a run costs the server, with many runs at once, durable at FULL.

Owns the measurement. The workload is in `looping`, the floor in `loop_floor`.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.doors import Doors, Watching, doors_of
from benchmarks.frames import events_of
from benchmarks.histories import Watched, problems_of_storing, problems_of_watching
from benchmarks.looping import INPUT, WORKFLOW, expected_of, loop_files
from benchmarks.metering import cpu_s
from benchmarks.outside import ask
from benchmarks.readback import read_store
from benchmarks.results import Result, Target
from benchmarks.served import Served, Setup, served, until_written

SOLO_RUNS = 3

_LOOK_S = 0.02
"""How often the end of a round is looked for; a look is one row of a list."""

TARGETS = (Target(figure="cpu_us_per_turn", at_most=300), Target(figure="ratio", at_most=2.2))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopParameters:
    """`runs` at once, each of `turns` turns with a tool call and one that answers; measured `rounds` times.

    With `profile` cProfile watches the server during the rounds and writes that file.
    """

    runs: int = 100
    turns: int = 20
    rounds: int = 3
    profile: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One round as it was seen from outside. `turns` is that of all its runs, the answering ones included."""

    cpu_s: float
    wall_s: float
    turns: int
    watched: Sequence[Watched]


TINY = LoopParameters(runs=3, turns=2, rounds=1)


async def measure(parameters: LoopParameters, folder: Path) -> Result:
    """Measure in a folder of its own. Raises ServerTrouble and ProgramFailed."""
    setup = Setup(files=loop_files(parameters.turns), profile=parameters.profile)
    async with served(setup, folder) as server, doors_of(server) as doors:
        each = parameters.turns + 1
        warm = await _live_round(server, doors, min(parameters.runs, 4), each)
        solos = [await _live_round(server, doors, 1, each) for _ in range(SOLO_RUNS)]
        server.start_profile()
        rounds = [await _round(server, doors, parameters.runs, each) for _ in range(parameters.rounds)]
        server.stop_profile()
        live = [await _live_round(server, doors, parameters.runs, each) for _ in range(parameters.rounds)]
        if parameters.profile is not None:
            await until_written(parameters.profile)
    every = [watched for part in (warm, *solos, *rounds, *live) for watched in part.watched]
    cuts = cuts_of(max((solo.watched[0] for solo in solos), key=lambda solo: len(solo.frames)))
    problems = _problems(parameters, every, server.data, cuts)
    floor = {} if problems else await _floor(rounds, cuts, folder)
    return Result(
        name="loop",
        figures=_figures(_Rounds(solos=solos, rounds=rounds, live=live), cuts, floor),
        targets=TARGETS,
        problems=problems,
        parameters={"runs": parameters.runs, "turns": parameters.turns, "rounds": parameters.rounds},
        notes=_notes(parameters),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounds:
    """All rounds: one run alone, many at once, and many at once with a live watcher each."""

    solos: Sequence[_Round]
    rounds: Sequence[_Round]
    live: Sequence[_Round]


async def _round(server: Served, doors: Doors, runs: int, turns: int) -> _Round:
    """Start so many runs at once, until none of them runs any more; then watch each from its first event."""
    cpu, wall = cpu_s(server.pid), time.monotonic()
    run_ids = await asyncio.gather(*(doors.start(WORKFLOW, INPUT) for _ in range(runs)))
    while await doors.count_active():  # noqa: ASYNC110 - the server tells of one run at a time
        await asyncio.sleep(_LOOK_S)
    cpu, wall = cpu_s(server.pid) - cpu, time.monotonic() - wall
    watching = await asyncio.gather(*(doors.watch(Watching(run_id=run_id)) for run_id in run_ids))
    return _Round(cpu_s=cpu, wall_s=wall, turns=runs * turns, watched=[each.watched() for each in watching])


async def _live_round(server: Served, doors: Doors, runs: int, turns: int) -> _Round:
    """Start so many runs at once, each with a watcher from its start, to the end of the last."""
    cpu, wall = cpu_s(server.pid), time.monotonic()

    async def one() -> Watched:
        run_id = await doors.start(WORKFLOW, INPUT)
        return (await doors.watch(Watching(run_id=run_id))).watched()

    watched = await asyncio.gather(*(one() for _ in range(runs)))
    return _Round(
        cpu_s=cpu_s(server.pid) - cpu, wall_s=time.monotonic() - wall, turns=runs * turns, watched=watched
    )


def cuts_of(solo: Watched) -> list[int]:
    """How many events each append of a run has: a watcher alone gets a frame for each."""
    return [size for frame in solo.frames if (size := len(events_of(frame)))]


def _problems(
    parameters: LoopParameters, every: Sequence[Watched], data: Path, cuts: Sequence[int]
) -> list[str]:
    expected, contents = expected_of(parameters.turns), read_store(data)
    found: list[str] = []
    for watched in every:
        found += problems_of_watching(watched, expected)
        found += problems_of_storing(watched, contents.runs.get(watched.run_id))
    if len(contents.runs) != len(every):
        found.append(f"the store has {len(contents.runs)} runs, {len(every)} were started")
    seen = sum(len(watched.events()) for watched in every)
    if contents.events != seen:
        found.append(f"the store has {contents.events} events, the watchers saw {seen}")
    if len({len(watched.events()) for watched in every} | {sum(cuts)}) != 1:
        found.append("the runs differ in how many events they have")
    return found


async def _floor(rounds: Sequence[_Round], cuts: Sequence[int], folder: Path) -> dict[str, list[float]]:
    told = await ask(
        "benchmarks.loop_floor",
        {
            "source": str(folder / "data"),
            "folder": str(folder / "floor"),
            "rounds": [[watched.run_id for watched in part.watched] for part in rounds],
            "cuts": list(cuts),
        },
    )
    return {
        "codec": [part["cpu_s"] for part in told["codec"]],
        "wire": [part["cpu_s"] for part in told["wire"]],
        "wall": [part["wall_s"] for part in told["codec"]],
        "fsync_ms": [told["fsync_ms"]],
    }


def _figures(
    measured: _Rounds, cuts: Sequence[int], floor: dict[str, list[float]]
) -> dict[str, float | list[float] | None]:
    solos, rounds = measured.solos, measured.rounds
    turns = rounds[0].turns
    each = [part.cpu_s / turns * 1e6 for part in rounds]
    live = [part.cpu_s / turns * 1e6 for part in measured.live]
    floors = [cpu / turns * 1e6 for cpu in floor.get("codec", ())]
    wires = [cpu / turns * 1e6 for cpu in floor.get("wire", ())]
    cost = statistics.median(each)
    least = statistics.median(floors) if floors else None
    fsync = floor["fsync_ms"][0] if floor else None
    commits = len(cuts) / solos[0].turns
    return {
        "cpu_us_per_turn": cost,
        "floor_us_per_turn": least,
        "ratio": cost / least if least else None,
        "wire_floor_us_per_turn": statistics.median(wires) if wires else None,
        "watched_cpu_us_per_turn": statistics.median(live),
        "cpu_us_per_turn_rounds": each,
        "floor_us_per_turn_rounds": floors,
        "wall_s": statistics.median(part.wall_s for part in rounds),
        "floor_wall_s": statistics.median(floor["wall"]) if floor else None,
        "events_per_turn": sum(cuts) / solos[0].turns,
        "appends_per_turn": commits,
        "solo_wall_ms_per_turn": statistics.median(solo.wall_s for solo in solos) / solos[0].turns * 1e3,
        "solo_floor_ms_per_turn": commits * fsync if fsync else None,
        "fsync_ms": fsync,
    }


def _notes(parameters: LoopParameters) -> list[str]:
    notes = [
        f"{parameters.turns} turns with a tool call and one that answers; start and end are in it",
        "watched: the same with a watcher of everything on each run from its start",
        "solo floor: appends a turn times the time of one fsync",
    ]
    if parameters.profile is not None:
        notes.append("with cProfile in the server: the figures of CPU are not the server's")
    return notes
