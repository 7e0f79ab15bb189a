"""`control`: how long a command takes, and how long until its effect is seen, beside many active runs.

Owns the measurement. The command is an abort, the one that takes effect while a run waits for its model. Each
goes to a run of its own that one watcher follows; the many others wait all the while. The floor is
`control_floor`, asked in the same way.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks import control_floor
from benchmarks.aborting import abort_all
from benchmarks.doors import Doors, Watching, channel_to, doors_of
from benchmarks.histories import Watched, problems_of_storing, problems_of_watching
from benchmarks.outside import program
from benchmarks.readback import read_store
from benchmarks.results import Result, Target
from benchmarks.served import served
from benchmarks.waiting import ABORTED, start_waiting, waiting_setup
from jackline.v1.control_pb2 import AbortCommand, CommandDisposition, ReceiptStage
from jackline.v1.run_service_pb2 import ControlRequest, StreamProgressResponse

TARGETS = (Target(figure="effect_per_rpc", at_most=1.5),)

_Call = Callable[[bytes], Any]
"""A method whose messages stay bytes."""

_BATCH = 50
_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlParameters:
    """`active` runs wait all the while; `commands` more are aborted, one at a time."""

    active: int = 1_000
    commands: int = 400


TINY = ControlParameters(active=3, commands=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One command, in seconds from when it was sent: to its answer, and until its effect was seen."""

    rpc_s: float
    effect_s: float


async def measure(parameters: ControlParameters, folder: Path) -> Result:
    """Measure in a folder of its own. Raises ServerTrouble and ProgramFailed."""
    async with served(waiting_setup(), folder) as server, doors_of(server) as doors:
        active = await start_waiting(doors, parameters.active)
        timed: list[Timed] = []
        watched: list[Watched] = []
        for batch in _batches(parameters.commands):
            part, seen = await _batch(doors, batch)
            timed += part
            watched += seen
        still = {run.run_id for run in await doors.active()}
        watched += await abort_all(doors, active)
    floors = await _floor(folder, parameters.commands, watched[0])
    problems = _problems(watched, folder / "data")
    if not still >= set(active):
        problems.append("some of the runs that had to be active all the while were not")
    return Result(
        name="control",
        figures=_figures(timed, floors),
        targets=TARGETS,
        problems=problems,
        parameters=asdict(parameters),
        notes=(
            "one command at a time; its effect is the event that applies it, as a watcher of the run gets it",
        ),
    )


def _batches(commands: int) -> list[int]:
    return [min(_BATCH, commands - done) for done in range(0, commands, _BATCH)]


async def _batch(doors: Doors, runs: int) -> tuple[list[Timed], list[Watched]]:
    """Abort so many runs one after the other, each followed by a watcher of its own."""
    ids = await start_waiting(doors, runs)
    watchings = [Watching(run_id=run_id) for run_id in ids]
    tasks = [asyncio.create_task(doors.watch(watching)) for watching in watchings]
    async with asyncio.timeout(_WITHIN_S):
        timed = [await _abort(doors, watching) for watching in watchings]
        await asyncio.gather(*tasks)
    return timed, [watching.watched() for watching in watchings]


async def _abort(doors: Doors, watching: Watching) -> Timed:
    await watching.has_frames(1)
    request = ControlRequest(
        run_id=watching.run_id, command_id=f"bench-{watching.run_id}", abort=AbortCommand(), reason="measured"
    )
    sent = time.monotonic()
    answered = asyncio.ensure_future(_answered(doors.control(request)))
    position = 1
    while not _applies(watching.frames[position - 1], request.command_id):
        position += 1
        await watching.has_frames(position)
    return Timed(rpc_s=await answered - sent, effect_s=watching.arrived[position - 1] - sent)


async def _answered(call: Awaitable[Any]) -> float:
    response = await call
    now = time.monotonic()
    receipt = response.receipt
    if receipt.stage < ReceiptStage.RECEIPT_STAGE_ACCEPTED or (
        receipt.disposition == CommandDisposition.COMMAND_DISPOSITION_REJECTED
    ):
        raise RuntimeError(f"the command was not accepted: {receipt}")
    return now


def _applies(frame: bytes, command_id: str) -> bool:
    events = StreamProgressResponse.FromString(frame).events
    return any(event.command_applied.command_id == command_id for event in events)


async def _floor(folder: Path, commands: int, like: Watched) -> list[Timed]:
    """The same with the bare server. `like` is a watched abort, for the size of what is written and sent."""
    order = {
        "source": str(folder / "data"),
        "folder": str(folder / "floor"),
        "payload": like.run_id.encode().hex(),
        "frame": like.frames[-1].hex(),
    }
    async with program("benchmarks.control_floor", order) as floor:
        address = (await floor.answer())["address"]
        async with channel_to(address) as unary, channel_to(address) as streams:
            command = cast("_Call", unary.unary_unary(control_floor.COMMAND, None, None))
            watch = cast("_Call", streams.unary_stream(control_floor.WATCH, None, None))
            timed = [await _floor_command(command, watch, b"%d" % number) for number in range(commands)]
    return timed


async def _floor_command(command: _Call, watch: _Call, key: bytes) -> Timed:
    stream = watch(key)
    await stream.read()

    async def answered() -> float:
        await command(key)
        return time.monotonic()

    sent = time.monotonic()
    task = asyncio.create_task(answered())
    await stream.read()
    seen = time.monotonic()
    return Timed(rpc_s=await task - sent, effect_s=seen - sent)


def _problems(every: Sequence[Watched], data: Path) -> list[str]:
    contents = read_store(data)
    found: list[str] = []
    for watched in every:
        found += problems_of_watching(watched, ABORTED)
        found += problems_of_storing(watched, contents.runs.get(watched.run_id))
    if len(contents.runs) != len(every):
        found.append(f"the store has {len(contents.runs)} runs, {len(every)} were started")
    return found


def _figures(timed: Sequence[Timed], floors: Sequence[Timed]) -> dict[str, float]:
    rpc, effect = _ms([each.rpc_s for each in timed]), _ms([each.effect_s for each in timed])
    floor_rpc, floor_effect = _ms([each.rpc_s for each in floors]), _ms([each.effect_s for each in floors])
    return {
        "rpc_p50_ms": _at(rpc, 50),
        "effect_p50_ms": _at(effect, 50),
        "effect_per_rpc": _at(effect, 50) / _at(rpc, 50),
        "floor_rpc_p50_ms": _at(floor_rpc, 50),
        "floor_effect_p50_ms": _at(floor_effect, 50),
        "ratio": _at(rpc, 50) / _at(floor_rpc, 50),
        "effect_ratio": _at(effect, 50) / _at(floor_effect, 50),
        "rpc_p99_ms": _at(rpc, 99),
        "effect_p99_ms": _at(effect, 99),
        "floor_rpc_p99_ms": _at(floor_rpc, 99),
        "floor_effect_p99_ms": _at(floor_effect, 99),
    }


def _ms(seconds: Sequence[float]) -> list[float]:
    return [value * 1e3 for value in seconds]


def _at(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
