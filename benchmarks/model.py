"""`model`: the CPU that one call of a model costs its caller, through each adapter and without any.

Owns the measurement. The caller and the endpoint are processes of their own, so that the endpoint's work is
in no figure; a caller makes its calls one after the other, and its CPU is read from outside.
"""

import statistics
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.metering import cpu_s
from benchmarks.model_endpoint import CALL_CHUNKS
from benchmarks.outside import Program, program
from benchmarks.results import Figure, Result, Target

TARGETS = (
    Target(figure="openai_call_ms", at_most=0.8),
    Target(figure="openai_stream50_ms", at_most=3),
)

WAYS = ("openai", "litellm", "raw")
CHUNKS: Mapping[str, int] = {"call": CALL_CHUNKS, "stream50": 50}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParameters:
    """`rounds` of so many calls and so many streams, the ways by turns; the figures are medians."""

    rounds: int = 5
    calls: int = 300
    streams: int = 100
    warmup: int = 30


TINY = ModelParameters(rounds=1, calls=5, streams=5, warmup=2)


async def measure(parameters: ModelParameters, folder: Path) -> Result:
    """Measure. Raises ProgramFailed."""
    del folder  # nothing here is kept on a disk
    problems: list[str] = []
    spent: dict[tuple[str, str], list[float]] = {(way, name): [] for way in WAYS for name in CHUNKS}
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(program("benchmarks.model_endpoint", {"chunks": CHUNKS}))
        base = f"http://127.0.0.1:{(await endpoint.answer())['port']}"
        callers: dict[str, Program] = {}
        for way in WAYS:
            order = {"way": way, "base": base, "chunks": CHUNKS}
            callers[way] = await stack.enter_async_context(program("benchmarks.model_caller", order))
            await callers[way].answer()
            for name in CHUNKS:
                await _calls(callers[way], way, name, parameters.warmup, problems)
        for _ in range(parameters.rounds):
            for (way, name), each in spent.items():
                count = parameters.calls if name == "call" else parameters.streams
                each.append(await _calls(callers[way], way, name, count, problems))
    return Result(
        name="model",
        figures=_figures(spent),
        targets=TARGETS,
        problems=problems,
        parameters=asdict(parameters),
        notes=("milliseconds of CPU of the calling process for one call, all of its threads",),
    )


async def _calls(caller: Program, way: str, name: str, count: int, problems: list[str]) -> float:
    """Milliseconds of CPU a call."""
    before = cpu_s(caller.pid)
    caller.tell({"name": name, "calls": count})
    told = await caller.answer()
    spent_s = cpu_s(caller.pid) - before
    if told["calls"] != count:
        problems.append(f"{way}, {name}: {told['calls']} calls were made instead of {count}")
    problems.extend(f"{way}, {name}: {problem}" for problem in told["problems"])
    return spent_s / count * 1000


def _figures(spent: Mapping[tuple[str, str], list[float]]) -> dict[str, Figure]:
    figures: dict[str, Figure] = {
        f"{way}_{name}_ms": statistics.median(each) for (way, name), each in spent.items()
    }
    for name in CHUNKS:
        ours, floor = spent["openai", name], spent["raw", name]
        figures[f"openai_{name}_ratio"] = statistics.median(ours) / statistics.median(floor)
    for (way, name), each in spent.items():
        figures[f"{way}_{name}_ms_each"] = each
    return figures
