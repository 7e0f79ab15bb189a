"""`start`: how long the server takes from its command to SERVING, what it then holds, and no litellm in it.

Owns the measurement. Health is asked for from outside, over a connection like anybody's. Whether litellm was
imported is seen in one more start with `-X importtime`: there the interpreter names every module it imports.
"""

import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import (  # pyright: ignore[reportMissingTypeStubs] - it has none
    health_pb2,
    health_pb2_grpc,
)

from benchmarks.looping import loop_files
from benchmarks.metering import cpu_s, mapped_files, memory
from benchmarks.results import Result, Target
from benchmarks.served import COMMAND, END_S, ROOT, ServerTrouble, Setup, serve_environ, serve_words

TARGETS = (
    Target(figure="seconds", at_most=1.0),
    Target(figure="rss_mb", at_most=90),
    Target(figure="litellm_imported", equals=False),
)

_WITHIN_S = 60.0
_PAUSE_S = 0.002
_LITELLM = "litellm"
_ITS_LIBRARIES = ("/tiktoken/", "/tokenizers/")
"""Compiled modules that litellm loads and nothing else here does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartParameters:
    """`starts` of the server and of the floor, by turns; the figures are medians."""

    starts: int = 5


TINY = StartParameters(starts=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One start, seen from outside."""

    seconds: float
    cpu_s: float
    rss_mb: float
    files: frozenset[str]


async def measure(parameters: StartParameters, folder: Path) -> Result:
    """Measure in a folder of its own. Raises ServerTrouble."""
    setup = Setup(files=loop_files(20))
    _server_start(folder / "first", setup)  # compiles what was never run, and is not counted
    ours: list[_Start] = []
    floors: list[_Start] = []
    for number in range(parameters.starts):
        ours.append(_server_start(folder / f"start-{number}", setup))
        floors.append(_started(_floor_words, folder, {}))
    names = _imported(folder / "importtime", setup)
    libraries = [file for file in ours[0].files if any(part in file for part in _ITS_LIBRARIES)]
    seconds, least = _median(ours, "seconds"), _median(floors, "seconds")
    return Result(
        name="start",
        figures={
            "seconds": seconds,
            "floor_seconds": least,
            "ratio": seconds / least,
            "seconds_each": [start.seconds for start in ours],
            "cpu_s": _median(ours, "cpu_s"),
            "floor_cpu_s": _median(floors, "cpu_s"),
            "rss_mb": _median(ours, "rss_mb"),
            "floor_rss_mb": _median(floors, "rss_mb"),
            "modules_imported": len(names),
            "litellm_imported": bool(libraries) or any(_is_litellm(name) for name in names),
        },
        targets=TARGETS,
        problems=_problems(names),
        parameters=asdict(parameters),
        notes=("each start has a fresh data folder: making the store and its token is in it",),
    )


def _server_start(folder: Path, setup: Setup) -> _Start:
    folder.mkdir(parents=True)
    setup.write(folder)
    return _started(lambda port: _server_words(folder, port), folder, serve_environ(folder, setup))


def _server_words(folder: Path, port: int, *flags: str) -> Sequence[str]:
    return (sys.executable, *flags, *COMMAND, *serve_words(folder, listen=f"127.0.0.1:{port}"))


def _floor_words(port: int) -> Sequence[str]:
    return (sys.executable, "-m", "benchmarks.start_floor", str(port))


def _started(words: Callable[[int], Sequence[str]], folder: Path, environ: Mapping[str, str]) -> _Start:
    """Start a program on a free port, wait for SERVING, look at it, end it. Raises ServerTrouble."""
    port = _free_port()
    with (folder / "server.log").open("ab") as log:
        start = time.monotonic()
        process = subprocess.Popen(
            words(port), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(environ) or None, cwd=ROOT
        )
        try:
            seconds = _serving(port, process, folder) - start
            found = _Start(
                seconds=seconds,
                cpu_s=cpu_s(process.pid),
                rss_mb=memory(process.pid).rss_kib / 1024,
                files=mapped_files(process.pid),
            )
            process.send_signal(signal.SIGTERM)
            process.wait(END_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return found


def _serving(port: int, process: subprocess.Popen[bytes], folder: Path) -> float:
    """When health says SERVING. Raises ServerTrouble."""
    end = time.monotonic() + _WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:  # first a bare connection: gRPC waits long between attempts
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(_PAUSE_S)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while time.monotonic() < end and process.poll() is None:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=5, wait_for_ready=True)
            if answer.status == health_pb2.HealthCheckResponse.SERVING:
                return time.monotonic()
            time.sleep(_PAUSE_S)
    raise ServerTrouble(f"nothing served: {(folder / 'server.log').read_text(errors='replace')[-2000:]}")


def _imported(folder: Path, setup: Setup) -> frozenset[str]:
    """Every module that a start imports, by the interpreter's own account."""
    folder.mkdir(parents=True)
    setup.write(folder)
    _started(
        lambda port: _server_words(folder, port, "-X", "importtime"), folder, serve_environ(folder, setup)
    )
    lines = (folder / "server.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:"))


def _problems(names: frozenset[str]) -> list[str]:
    """A look at imports that saw none would prove nothing."""
    if "jackline_server.bootstrap" not in names:
        return ["the account of imports does not even have the server's own modules"]
    return []


def _is_litellm(name: str) -> bool:
    return name == _LITELLM or name.startswith(f"{_LITELLM}.")


def _median(starts: Sequence[_Start], name: str) -> float:
    return statistics.median(getattr(start, name) for start in starts)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
