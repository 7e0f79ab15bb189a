"""`paused`: what a run that is held takes of the server: its memory, its descriptors, its boot.

Owns the measurement. So many runs are paused in the midst of a step, and the server is read before and after,
then again once it was started anew over the same store. The floor is the same server without any: before they
came, and with a fresh store. One of them is resumed, and so is one that is alone in its store.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import grpc
import grpc.aio

from benchmarks.doors import Doors, Watching, doors_of
from benchmarks.histories import Expected, Watched, problems_of_watching
from benchmarks.metering import calm_memory, descriptors
from benchmarks.results import Result, Target
from benchmarks.served import Served, Setup, served
from jackline.v1.control_pb2 import PauseCommand, ResumeCommand
from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import ControlRequest

TARGETS = (
    Target(figure="kb_per_run", at_most=0.3),
    Target(figure="descriptors_more", at_most=0),
    Target(figure="boot_ratio", at_most=1.5),
    Target(figure="resume_ratio", at_most=2),
)

WORKFLOW = "held"
_AT_ONCE, _READS = 24, 32
_WITHIN_S = 1_200.0
_FIRST_REPLY_MS = 5_000

_WORKFLOW = """\
name: held
model: scripted
flow: [work]
steps:
  work:
    kind: agent
    description: Looks a berth up, and is paused on the way there.
    tools: [{ref: look_up}]
    answer: text
  look_up: {kind: function, effect: read, description: Looks a berth up., function: "harbour:look_up"}
"""

_CONFIG = """\
[models.scripted]
script = "./script.yaml"
concurrency = 10000

[functions]
roots = ["harbour"]
"""

_MODULE = '''\
"""The tool that a run calls after it was held."""


async def look_up(berth: str) -> str:
    """Looks a berth up."""
    return berth
'''

RESUMED = Expected(
    state=RunState.RUN_STATE_SUCCEEDED,
    counts={"paused": 1, "resumed": 1, "model_replied": 2, "tool_call_finished": 1},
)
"""How a run that was paused and resumed ends here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedParameters:
    """`runs` that are paused; `resumed` of them go on again, one at a time; so many starts of the server."""

    runs: int = 10_000
    resumed: int = 8
    boots: int = 3


TINY = PausedParameters(runs=4, resumed=1, boots=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A server at rest: before and after all runs were counted, which fills the caches of the store."""

    rss_kib: int
    rss_read_kib: int
    descriptors: int
    paused: int


async def measure(parameters: PausedParameters, folder: Path) -> Result:
    """Measure in folders of its own. Raises ServerTrouble."""
    alone, alone_ms, problems = await _alone(parameters, folder / "alone")
    full = folder / "full"
    async with served(_setup(), full) as server, doors_of(server) as doors:
        await _pause(doors, 20)  # what is made once is made by these
        before = await _at_rest(server, doors)
        ids = await _pause(doors, parameters.runs)
        after = await _at_rest(server, doors)
    boots, empty_boots = await _boots(parameters.boots, full, folder / "empty")
    async with served(_setup(), full) as server, doors_of(server) as doors:
        booted = await _at_rest(server, doors)
        resumed, resume_ms = await _resume(doors, ids[: parameters.resumed])
    problems += [problem for watched in resumed for problem in problems_of_watching(watched, RESUMED)]
    if (after.paused, booted.paused) != (parameters.runs + 20,) * 2:
        problems.append(f"{after.paused} runs were paused, and {booted.paused} after the restart")
    boot_s, empty_boot_s = statistics.median(boots), statistics.median(empty_boots)
    return Result(
        name="paused",
        figures={
            "kb_per_run": (booted.rss_kib - alone.rss_kib) / parameters.runs,
            "rss_mb": booted.rss_kib / 1024,
            "floor_rss_mb": alone.rss_kib / 1024,
            "rss_mb_counted": booted.rss_read_kib / 1024,
            "floor_rss_mb_counted": alone.rss_read_kib / 1024,
            "rss_mb_before_pausing": before.rss_kib / 1024,
            "rss_mb_after_pausing": after.rss_kib / 1024,
            "descriptors": booted.descriptors,
            "floor_descriptors": alone.descriptors,
            "descriptors_more": max(
                after.descriptors - before.descriptors, booted.descriptors - alone.descriptors
            ),
            "boot_s": boot_s,
            "floor_boot_s": empty_boot_s,
            "boot_ratio": boot_s / empty_boot_s,
            "resume_ms": statistics.median(resume_ms),
            "floor_resume_ms": statistics.median(alone_ms),
            "resume_ratio": statistics.median(resume_ms) / statistics.median(alone_ms),
        },
        targets=TARGETS,
        problems=problems,
        parameters=asdict(parameters),
        notes=(
            "memory and descriptors of a server at rest",
            "a resume is timed from the command to the next event of the run, as a watcher gets it",
        ),
    )


async def _alone(parameters: PausedParameters, folder: Path) -> tuple[_Held, list[float], list[str]]:
    """A server with one paused run at a time: at rest after a start anew, and how long a resume takes."""
    async with served(_setup(), folder) as server, doors_of(server) as doors:
        ids = await _pause(doors, 1)
    async with served(_setup(), folder) as server, doors_of(server) as doors:
        held = await _at_rest(server, doors)
        watched: list[Watched] = []
        took: list[float] = []
        for number in range(parameters.resumed):
            ids = ids if number == 0 else await _pause(doors, 1)
            seen, ms = await _resume(doors, ids)
            watched += seen
            took += ms
    return held, took, [problem for one in watched for problem in problems_of_watching(one, RESUMED)]


async def _pause(doors: Doors, runs: int) -> list[str]:
    """Start so many runs and pause each while it waits for its first reply; returns once all are paused."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def one() -> str:
        async with room:
            while True:
                run_id = await doors.start(WORKFLOW)
                try:
                    await doors.control(ControlRequest(run_id=run_id, pause=PauseCommand()))
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                        raise
                else:
                    return run_id  # on a slow machine one has ended before it was told

    async with asyncio.timeout(_WITHIN_S):
        held = await doors.count(RunState.RUN_STATE_PAUSED)
        ids = list(await asyncio.gather(*(one() for _ in range(runs))))
        while await doors.count(RunState.RUN_STATE_PAUSED) < held + runs:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)
        return ids


async def _resume(doors: Doors, run_ids: Sequence[str]) -> tuple[list[Watched], list[float]]:
    """Resume one after the other: what a watcher of each saw, and the milliseconds to the next event."""
    watched: list[Watched] = []
    took: list[float] = []
    for run_id in run_ids:
        watching = Watching(run_id=run_id)
        task = asyncio.create_task(doors.watch(watching))
        async with asyncio.timeout(_WITHIN_S):
            await watching.has_frames(1)
            frames = len(watching.frames)
            sent = time.monotonic()
            await doors.control(ControlRequest(run_id=run_id, resume=ResumeCommand()))
            await watching.has_frames(frames + 1)
            took.append((watching.arrived[frames] - sent) * 1e3)
            await task
        watched.append(watching.watched())
    return watched, took


async def _at_rest(server: Served, doors: Doors) -> _Held:
    memory = await calm_memory(server.pid)
    counts = [doors.count(RunState.RUN_STATE_PAUSED) for _ in range(_READS)]
    paused = max(await asyncio.gather(*counts))  # so many at once: each reader of the store has its file open
    read = await calm_memory(server.pid)
    return _Held(
        rss_kib=memory.rss_kib,
        rss_read_kib=read.rss_kib,
        descriptors=descriptors(server.pid),
        paused=paused,
    )


async def _boots(count: int, full: Path, empty: Path) -> tuple[list[float], list[float]]:
    """Seconds from the command until it listens, over that store and over none, by turns."""
    found: tuple[list[float], list[float]] = ([], [])
    for _ in range(count):
        for seconds, folder in zip(found, (full, empty), strict=True):
            start = time.monotonic()
            async with served(_setup(), folder):
                seconds.append(time.monotonic() - start)
    return found


def _setup() -> Setup:
    turns = [
        {
            "tool_calls": [{"name": "look_up", "arguments": {"berth": "7"}}],
            "delay_ms": _FIRST_REPLY_MS,
            "when": {"turn": 1},
        },
        {"text": "Berth 7 is free."},
    ]
    return Setup(
        files={
            "config.toml": _CONFIG,
            "script.yaml": json.dumps({"turns": turns}),
            "workflows/held.yaml": _WORKFLOW,
            "modules/harbour.py": _MODULE,
        }
    )
