"""Which measurements there are, by name, each with its full parameters and the smallest that still work."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import abort, concurrent, control, fanout, loop, model, paused, start
from benchmarks.results import Result, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One of them. `measure` takes parameters and an empty folder of its own."""

    tells: str
    targets: Sequence[Target]
    full: Any
    tiny: Any
    measure: Callable[[Any, Path], Awaitable[Result]]


BENCHMARKS: Mapping[str, Benchmark] = {
    "loop": Benchmark(
        tells="CPU of the server for one turn, 100 runs at once, durable at FULL",
        targets=loop.TARGETS,
        full=loop.LoopParameters(),
        tiny=loop.TINY,
        measure=loop.measure,
    ),
    "concurrent": Benchmark(
        tells="memory of a run that waits for its model, with 1,000 of them",
        targets=concurrent.TARGETS,
        full=concurrent.ConcurrentParameters(),
        tiny=concurrent.TINY,
        measure=concurrent.measure,
    ),
    "fanout": Benchmark(
        tells="events a second to 100 watchers in processes of their own",
        targets=fanout.TARGETS,
        full=fanout.FanoutParameters(),
        tiny=fanout.TINY,
        measure=fanout.measure,
    ),
    "start": Benchmark(
        tells="time from the command to SERVING, and the memory then",
        targets=start.TARGETS,
        full=start.StartParameters(),
        tiny=start.TINY,
        measure=start.measure,
    ),
    "control": Benchmark(
        tells="time to the durable answer of a command, and until its effect is seen, at 1,000 active runs",
        targets=control.TARGETS,
        full=control.ControlParameters(),
        tiny=control.TINY,
        measure=control.measure,
    ),
    "abort": Benchmark(
        tells="time from an abort until what hung is gone and the end is seen, by what hung",
        targets=abort.TARGETS,
        full=abort.AbortParameters(),
        tiny=abort.TINY,
        measure=abort.measure,
    ),
    "paused": Benchmark(
        tells="memory, descriptors and boot of a server with 10,000 paused runs, and the resume of one",
        targets=paused.TARGETS,
        full=paused.PausedParameters(),
        tiny=paused.TINY,
        measure=paused.measure,
    ),
    "model": Benchmark(
        tells="CPU of one call of a model and of a stream of 50 chunks, by adapter",
        targets=model.TARGETS,
        full=model.ModelParameters(),
        tiny=model.TINY,
        measure=model.measure,
    ),
}
