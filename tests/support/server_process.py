"""A real server process for tests: started, killed, started again on the same data, waited for.

Owns the process and what belongs to it alone: config, data, token, log and port, all in one folder.
Everything else about the server is seen through its public doors. Every wait is bounded.
"""

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from jackline_client import JacklineClient, WatchPolicy
from jackline_client.credentials import find_token
from tests.support.warm_server import Nursery

_COMMAND = (sys.executable, "-m", "jackline_client.cli.main")
_START_S = 60.0
_END_S = 30.0
_TAIL_LINES = 40
_PORTS = range(20_000, 32_000)
"""Below what the system hands out by itself, so that nobody takes a port while its server is down."""

PATIENT = WatchPolicy(attempts=200, first_attempts=200, first_delay_s=0.05, longest_delay_s=0.2)
"""For watchers whose server is killed under them."""


class ServerDied(AssertionError):
    """The process ended before it listened. `code` is its exit code."""

    def __init__(self, code: int, tail: str) -> None:
        super().__init__(f"the server ended with {code} before it listened; its last words:\n{tail}")
        self.code = code


class ServerProcess:
    """One server and its folder. `stop` or `kill` it; `end` does whatever is left to do."""

    def __init__(self, folder: Path, config: str, *, nursery: Nursery | None = None) -> None:
        """Without a nursery it starts cold."""
        self.folder = folder
        self.port = free_port()
        self.starts = 0
        self._nursery = nursery
        self._pid = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ended: asyncio.Future[None] | None = None
        self._pidfd = -1
        self._lines: asyncio.StreamReader | None = None
        self._out: asyncio.BaseTransport | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.write_config(config)

    @property
    def address(self) -> str:
        """Where it listens, also after it was started again."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The process that runs now."""
        return self._pid

    def write_config(self, config: str) -> None:
        """What the next start reads."""
        (self.folder / "config.toml").write_text(config, encoding="utf-8")

    # --- start ---------------------------------------------------------------------------------

    async def start(self, *flags: str, failpoints: str = "", **environ: str) -> str:
        """Start it and wait until it listens; the address it tells. Raises ServerDied."""
        await self.spawn(*flags, failpoints=failpoints, **environ)
        return await self.listening()

    async def spawn(self, *flags: str, failpoints: str = "", **environ: str) -> None:
        """Start it and wait for nothing."""
        assert not self._pid, "it runs already"
        self.starts += 1
        words = ["serve", "--config", str(self.folder / "config.toml"), "--data", str(self.data)]
        if "--listen" not in flags:
            words += ["--listen", self.address]
        words += flags
        if failpoints:
            words.append("--enable-failpoints")
        read, write = os.pipe()
        with (self.folder / "server.log").open("ab") as log:
            self._pid = self._launch(words, self._environ(failpoints, environ), out=write, err=log.fileno())
        os.close(write)
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._pidfd = os.pidfd_open(self._pid)
        loop.add_reader(self._pidfd, self._note_end)
        self._lines = asyncio.StreamReader()
        reader = asyncio.StreamReaderProtocol(self._lines)
        self._out, _ = await loop.connect_read_pipe(lambda: reader, os.fdopen(read, "rb"))

    def _launch(self, words: Sequence[str], environ: Mapping[str, str], *, out: int, err: int) -> int:
        if self._nursery is not None:
            return self._nursery.start(words, environ, out=out, err=err)
        self._process = subprocess.Popen(
            [*_COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(environ),
            cwd=self.folder,
        )
        return self._process.pid

    def _environ(self, failpoints: str, changes: Mapping[str, str]) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "JACKLINE_STATE_DIR": str(self.folder / "state"),
            "FAILPOINTS": failpoints,
            **changes,
        }

    async def listening(self) -> str:
        """Wait until it says where it listens. Raises ServerDied."""
        assert self._lines is not None
        async with asyncio.timeout(_START_S):
            line = (await self._lines.readline()).decode()
        if not line:
            raise ServerDied(await self.ended(), self.tail())
        said, _, address = line.strip().rpartition(" ")
        assert said == "listening on"
        return address

    # --- end -----------------------------------------------------------------------------------

    async def ended(self, within_s: float = _END_S) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        assert self._ended is not None
        async with asyncio.timeout(within_s):
            await asyncio.shield(self._ended)
        pid, self._pid = self._pid, 0
        if self._out is not None:
            self._out.close()
        if self._process is not None:
            return self._process.wait()
        assert self._nursery is not None
        return self._nursery.reap(pid)

    async def gone(self) -> None:
        """Return once the process has ended, as often as asked, and take nothing from `ended`."""
        assert self._ended is not None
        await asyncio.shield(self._ended)

    async def killed(self, within_s: float = _END_S) -> None:
        """Wait until a failpoint has killed it."""
        assert await self.ended(within_s) == -signal.SIGKILL

    async def kill(self) -> None:
        """Kill it as a machine would: no handler runs."""
        os.kill(self._pid, signal.SIGKILL)
        await self.killed()

    async def stop(self, within_s: float = _END_S) -> int:
        """Ask it to drain, and wait for its end; the exit code."""
        os.kill(self._pid, signal.SIGTERM)
        return await self.ended(within_s)

    def _note_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    async def end(self) -> None:
        """Kill what is left, and show the log: pytest prints it if the test failed."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            await self.ended()
        print(self.tail())  # noqa: T201 - captured; shown with a failure only

    # --- what it says --------------------------------------------------------------------------

    def tail(self) -> str:
        """The end of its log."""
        log = self.folder / "server.log"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        return "\n".join([f"--- {log} ({self.starts} starts)", *lines[-_TAIL_LINES:]])

    @property
    def token(self) -> str:
        """The token that it made for this machine."""
        token = find_token(self.address, environ={"JACKLINE_STATE_DIR": str(self.folder / "state")})
        assert token is not None
        return token

    def client(self) -> JacklineClient:
        """A client of it; whoever asks closes it. It outlives the process and finds the next one."""
        return JacklineClient(self.address, token=self.token, watch_policy=PATIENT)


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    while True:
        port = random.choice(_PORTS)  # noqa: S311 - any port will do
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Servers:
    """Makes servers for one test, and ends all of them."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self._folder = folder
        self._nursery = nursery
        self._made: list[ServerProcess] = []

    def make(self, config: str, *, cold: bool = False) -> ServerProcess:
        """A server that is not started, in a folder of its own."""
        folder = self._folder / f"server{len(self._made)}"
        server = ServerProcess(folder, config, nursery=None if cold else self._nursery)
        self._made.append(server)
        return server

    def beside(self, other: ServerProcess, config: str, *, cold: bool = False) -> ServerProcess:
        """A second server for the same folder, data and all, on a port of its own."""
        server = ServerProcess(other.folder, config, nursery=None if cold else self._nursery)
        self._made.append(server)
        return server

    async def end(self) -> None:
        """End all, newest first."""
        for server in reversed(self._made):
            await server.end()
            assert not server.pid


@asynccontextmanager
async def servers_in(folder: Path, nursery: Nursery) -> AsyncGenerator[Servers]:
    """The servers of one test."""
    servers = Servers(folder, nursery)
    try:
        yield servers
    finally:
        await servers.end()
