"""The worker programs of `client/`, which serve seats: started, signalled, and judged by their ledgers.

Owns the processes and their ledgers. Does not own what they are connected to, nor how they are built.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients import building

PROGRAM_S = 60


class Seats:
    """One program. `hold` keeps what it begins from ending, until `release`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.ledger = folder / f"{name}.ledger.jsonl"
        self.errors = folder / f"{name}.stderr"
        self._hold = folder / f"{name}.hold"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, program: tuple[str, ...], address: str, token: str, *, pool: str = "seats") -> None:
        """Start it, anew if it has ended."""
        with self.errors.open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *program,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "JACKLINE_ADDRESS": address,
                    "JACKLINE_TOKEN": token,
                    "SEATS_POOL": pool,
                    "SEATS_LEDGER": str(self.ledger),
                    "SEATS_HOLD": str(self._hold),
                    "SEATS_WORKER": self.name,
                },
                stdin=asyncio.subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )

    def hold(self) -> None:
        """Let nothing end that begins from now on."""
        self._hold.touch()

    def release(self) -> None:
        """Let everything end."""
        self._hold.unlink(missing_ok=True)

    def terminate(self) -> None:
        """SIGTERM."""
        self._running.send_signal(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL, and wait."""
        self._running.kill()
        await self._running.wait()

    async def ended(self) -> int:
        """Wait for its end; the exit code. A JVM that was asked to end by SIGTERM and did has 143 for 0."""
        async with asyncio.timeout(PROGRAM_S):
            code = await self._running.wait()
        return 0 if code == 128 + signal.SIGTERM else code

    async def was_terminated(self) -> bool:
        """Wait for its end: True if a signal did it, not the program itself."""
        async with asyncio.timeout(PROGRAM_S):
            return await self._running.wait() == -signal.SIGTERM

    async def close(self) -> None:
        """End it, whatever it does."""
        if self._process is not None and self._process.returncode is None:
            await self.kill()

    def lines(self, tool: str = "") -> list[dict[str, Any]]:
        """Its ledger, or what a tool wrote there."""
        if not self.ledger.exists():
            return []
        found = [json.loads(line) for line in self.ledger.read_text(encoding="utf-8").splitlines()]
        return [line for line in found if tool in {"", line["tool"]}]

    async def noted(self, tool: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until a tool wrote so many lines there."""
        self.ledger.touch()
        following = ("tail", "-n", "+1", "-F", str(self.ledger))
        tail = await asyncio.create_subprocess_exec(*following, stdout=asyncio.subprocess.PIPE)
        try:
            assert tail.stdout is not None
            async with asyncio.timeout(PROGRAM_S):
                while len(self.lines(tool)) < count:
                    await tail.stdout.readline()
        finally:
            tail.kill()
            await tail.wait()
        return self.lines(tool)

    def words(self) -> str:
        """What it printed."""
        return self.errors.read_text(encoding="utf-8")

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process


def program_of(language: str) -> tuple[str, ...]:
    """The words that call a language's worker; without its tools a test is skipped, or failed in CI."""
    if language == "python":
        return (sys.executable, str(building.CLIENT / "python" / "example" / "seats.py"))
    found = building.LANGUAGES[language]
    if lacks := building.lacking(found):
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"{language}: {lacks}")
    building.built(language)
    return found.worker


@asynccontextmanager
async def seats_in(folder: Path, name: str = "one") -> AsyncGenerator[Seats]:
    """A program that is not started yet, and is ended at the end."""
    made = Seats(folder, name)
    try:
        yield made
    finally:
        await made.close()
