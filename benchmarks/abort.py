"""`abort`: how long an abort takes until what hung is gone, and until the run's end is seen.

Owns the measurement. One run at a time hangs: in the stream of its model, in a tool over HTTP, in a function
that has a process of its own, in a call of an MCP server that is a process of the connection. Its end is
looked at from where the thing hangs: the peer's side of the socket, the kernel's list of processes, the notes
of the MCP server, which is told and lives on. The kernel is asked in the moment in which the end is seen.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.doors import Doors, Watching, doors_of
from benchmarks.hanging import HangingServer, hanging_server
from benchmarks.histories import Expected, problems_of_watching
from benchmarks.results import Result, Target
from benchmarks.served import Setup, served, until_written
from jackline.v1.control_pb2 import AbortCommand
from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import ControlRequest

TARGETS = (Target(figure="max_ms", at_most=300), Target(figure="seen_before_gone", at_most=0))

KINDS = ("model", "http", "function", "mcp")
ABORTED = Expected(
    state=RunState.RUN_STATE_ABORTED,
    counts={"command_applied": 1, "model_call_started": 1, "run_finished": 1},
)
"""How a run that hung ends here."""

_WITHIN_S = 60.0
_LOOK_S = 0.001
_MCP_SERVER = Path(__file__).with_name("hanging_mcp.py")

_WORKFLOW = """\
name: hang_{kind}
model: {model}
bounds: {{run_timeout: 2h, token_budget: 100000}}
flow: [work]
steps:
  work:
    kind: agent
    description: Calls what never answers.
    tools: {tools}
    answer: text
    bounds: {{model_timeout: 1h, tool_timeout: 1h, timeout: 1h}}
"""
_STEPS = {
    "model": "",
    "http": "  wait_http: {kind: http, effect: write, description: Waits., connection: harbour, "
    "method: POST, path: /wait}\n",
    "function": "  wait_function: {kind: function, effect: write, description: Waits., function: "
    '"harbour:wait", isolate: process}\n',
    "mcp": "",
}
_TOOLS = {
    "model": "[]",
    "http": "[{ref: wait_http}]",
    "function": "[{ref: wait_function}]",
    "mcp": "[{from: pier, allow: [wait_mcp]}]",
}
_MODULE = '''\
"""A function that never returns."""

import os
import threading
from pathlib import Path


def wait() -> None:
    """Notes which process it is, and waits for ever."""
    Path({note!r}).write_text(str(os.getpid()))
    threading.Event().wait()
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortParameters:
    """`rounds` of each kind, after `warm` that are not counted."""

    rounds: int = 100
    warm: int = 3


TINY = AbortParameters(rounds=1, warm=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hung:
    """How it is seen that something hangs, that it is gone, and when it went, by the monotonic clock."""

    hangs: Callable[[], Awaitable[None]]
    is_gone: Callable[[], bool]
    gone_at: Callable[[], Awaitable[float]]


@dataclass(slots=True, kw_only=True)
class _Timed:
    """Milliseconds from the command, a round each."""

    gone: list[float] = field(default_factory=list[float])
    seen: list[float] = field(default_factory=list[float])
    early: int = 0
    problems: list[str] = field(default_factory=list[str])


async def measure(parameters: AbortParameters, folder: Path) -> Result:
    """Measure in a folder of its own. Raises ServerTrouble."""
    folder.mkdir(parents=True, exist_ok=True)
    timed = {kind: _Timed() for kind in KINDS}
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(hanging_server(streams=True))
        tool = await stack.enter_async_context(hanging_server(streams=False))
        server = await stack.enter_async_context(served(_setup(folder, model.port, tool.port), folder))
        doors = await stack.enter_async_context(doors_of(server))
        for number in range(parameters.warm + parameters.rounds):
            for kind in KINDS:
                into = timed[kind] if number >= parameters.warm else _Timed()
                await _round(doors, kind, _hung(kind, folder, model, tool), into)
    return Result(
        name="abort",
        figures=_figures(timed),
        targets=TARGETS,
        problems=[problem for one in timed.values() for problem in one.problems],
        parameters=asdict(parameters),
        notes=(
            "milliseconds from the command until what hung was gone and the end of the run was seen",
            "an MCP server is told to cancel and lives on: gone is when it read that",
        ),
    )


async def _round(doors: Doors, kind: str, hung: _Hung, timed: _Timed) -> None:
    """One run that hangs, and its abort."""
    async with asyncio.timeout(_WITHIN_S):
        watching = Watching(run_id=await doors.start(f"hang_{kind}"))
        task = asyncio.create_task(doors.watch(watching))
        await hung.hangs()
        sent = time.monotonic()
        await doors.control(ControlRequest(run_id=watching.run_id, abort=AbortCommand()))
        await task
        timed.early += not hung.is_gone()
        timed.seen.append((watching.arrived[-1] - sent) * 1e3)
        timed.gone.append((await hung.gone_at() - sent) * 1e3)
    timed.problems += problems_of_watching(watching.watched(), ABORTED)


def _hung(kind: str, folder: Path, model: HangingServer, tool: HangingServer) -> _Hung:
    match kind:
        case "model":
            return _socket(model)
        case "http":
            return _socket(tool)
        case "function":
            return _process(folder / "pid")
        case _:
            return _mcp_call(folder / "called", folder / "cancelled")


def _socket(server: HangingServer) -> _Hung:
    number = server.count + 1
    return _Hung(
        hangs=lambda: server.arrived(number),
        is_gone=lambda: not server.is_established(number),
        gone_at=lambda: server.left(number),
    )


def _process(note: Path) -> _Hung:
    note.unlink(missing_ok=True)
    found: list[Path] = []

    async def hangs() -> None:
        await until_written(note, look_s=_LOOK_S)
        while not (text := note.read_text()):  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(_LOOK_S)
        found.append(Path("/proc") / text)

    async def gone_at() -> float:
        while found[0].exists():  # noqa: ASYNC110 - nor does the kernel
            await asyncio.sleep(_LOOK_S)
        return time.monotonic()

    return _Hung(hangs=hangs, is_gone=lambda: not found[0].exists(), gone_at=gone_at)


def _mcp_call(called: Path, cancelled: Path) -> _Hung:
    for note in (called, cancelled):
        note.unlink(missing_ok=True)

    async def gone_at() -> float:
        await until_written(cancelled, look_s=_LOOK_S)
        while not (text := cancelled.read_text()):  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(_LOOK_S)
        return float(text)

    return _Hung(hangs=lambda: until_written(called, look_s=_LOOK_S), is_gone=lambda: True, gone_at=gone_at)


def _figures(timed: Mapping[str, _Timed]) -> dict[str, float]:
    figures: dict[str, float] = {}
    every: list[float] = []
    for kind, one in timed.items():
        both = [max(pair) for pair in zip(one.gone, one.seen, strict=True)]
        every += both
        figures |= {
            f"{kind}_gone_p50_ms": _at(one.gone, 50),
            f"{kind}_seen_p50_ms": _at(one.seen, 50),
            f"{kind}_p99_ms": _at(both, 99),
            f"{kind}_max_ms": max(both),
        }
    figures["max_ms"] = max(every)
    figures["seen_before_gone"] = sum(one.early for one in timed.values())
    return figures


def _at(values: Sequence[float], percent: int) -> float:
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _setup(folder: Path, model_port: int, tool_port: int) -> Setup:
    command = [
        sys.executable,
        "-I",
        "-S",
        str(_MCP_SERVER),
        str(folder / "called"),
        str(folder / "cancelled"),
    ]
    config = (
        '[models.scripted]\nscript = "./script.yaml"\n'
        '[models.hanging]\nmodel = "openai/hanging"\nadapter = "openai"\napi_key = "sk-none"\n'
        f'base_url = "http://127.0.0.1:{model_port}/v1"\n'
        f'[connections.harbour]\nkind = "http"\nbase_url = "http://127.0.0.1:{tool_port}"\ntimeout = "1h"\n'
        f'[connections.pier]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n'
        'timeout = "1h"\n'
        '[functions]\nroots = ["harbour"]\n'
    )
    turns = [
        {"when": {"tools_offered": [f"wait_{kind}"]}, "tool_calls": [{"name": f"wait_{kind}"}]}
        for kind in KINDS
        if kind != "model"
    ]
    files = {
        "config.toml": config,
        "script.yaml": json.dumps({"turns": turns}),
        "modules/harbour.py": _MODULE.format(note=str(folder / "pid")),
    }
    for kind in KINDS:
        text = _WORKFLOW.format(
            kind=kind, model="hanging" if kind == "model" else "scripted", tools=_TOOLS[kind]
        )
        files[f"workflows/hang_{kind}.yaml"] = text + _STEPS[kind]
    return Setup(files=files)
