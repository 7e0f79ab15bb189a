"""A server process as users run it, for the time of a measurement: its files, its start, its end.

Owns the process and its folder. All that is asked of it goes through its public doors; what it costs is read
from the operating system (`metering`).
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jackline_client.credentials import find_token

ROOT = Path(__file__).resolve().parent.parent
START_S = 60.0
END_S = 60.0
_TAIL_CHARS = 4_000

COMMAND = ("-m", "jackline_client.cli.main")
"""What the console script `jackline` runs."""


class ServerTrouble(Exception):
    """The server did not start, or did not end in good order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The files of a server, by their path below its folder; one is `config.toml`."""

    files: Mapping[str, str]
    profile: Path | None = None
    """Where to write what cProfile sees between `start_profile` and `stop_profile`."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, folder: Path) -> None:
        """Put the files there."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            path.chmod(0o600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that serves."""

    pid: int
    address: str
    token: str
    folder: Path
    profiled: bool

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.folder / "data"

    def start_profile(self) -> None:
        """Let cProfile watch its event loop from now on, if it was set up for that."""
        if self.profiled:
            os.kill(self.pid, signal.SIGUSR1)

    def stop_profile(self) -> None:
        """Let cProfile write down what it saw."""
        if self.profiled:
            os.kill(self.pid, signal.SIGUSR2)


def serve_words(folder: Path, *, listen: str) -> Sequence[str]:
    """The words of `jackline serve` for the files of a folder."""
    return (
        "serve", "--config", str(folder / "config.toml"), "--data", str(folder / "data"),
        "--workflows", str(folder / "workflows"), "--listen", listen,
    )  # fmt: skip


def serve_environ(folder: Path, setup: Setup) -> dict[str, str]:
    """The environment of that command: this interpreter's packages, and modules of the folder itself."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join([str(folder / "modules"), str(ROOT)]),
        "JACKLINE_STATE_DIR": str(folder / "state"),
        **setup.environ,
    }


@asynccontextmanager
async def served(setup: Setup, folder: Path) -> AsyncGenerator[Served]:
    """Serve inside the context, on a free port of the loopback; stopped by SIGTERM and waited for at its end.

    Raises ServerTrouble if it does not come up, or does not end with code 0.
    """
    folder.mkdir(parents=True, exist_ok=True)
    setup.write(folder)
    log = folder / "server.log"
    program = (
        COMMAND if setup.profile is None else ("-m", "benchmarks.profiled", str(setup.profile.resolve()))
    )
    with log.open("ab") as err:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *program, *serve_words(folder, listen="127.0.0.1:0"),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err,
            env=serve_environ(folder, setup), cwd=folder,
        )  # fmt: skip
    try:
        address = await _listening(process, log)
        token = find_token(address, environ={"JACKLINE_STATE_DIR": str(folder / "state")})
        if token is None:
            raise ServerTrouble("the server left no token for this machine")
        yield Served(
            pid=process.pid,
            address=address,
            token=token,
            folder=folder,
            profiled=setup.profile is not None,
        )
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(END_S):
            code = await process.wait()
        if code != 0:
            raise ServerTrouble(f"the server ended with {code}:\n{_tail(log)}")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def until_written(path: Path, within_s: float = 30.0, *, look_s: float = 0.05) -> None:
    """Return once a file is there. Raises ServerTrouble if it does not come."""
    end = time.monotonic() + within_s
    while not path.exists():
        if time.monotonic() > end:
            raise ServerTrouble(f"{path} was not written")
        await asyncio.sleep(look_s)


async def _listening(process: asyncio.subprocess.Process, log: Path) -> str:
    if process.stdout is None:
        raise ServerTrouble("the server has no standard output")
    async with asyncio.timeout(START_S):
        line = (await process.stdout.readline()).decode()
    said, _, address = line.strip().rpartition(" ")
    if said != "listening on":
        raise ServerTrouble(f"the server did not come up:\n{_tail(log)}")
    return address


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_TAIL_CHARS:]
