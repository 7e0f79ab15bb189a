"""Programs of this folder, run as processes of their own: floors and watchers.

Owns starting one and the lines of JSON that go to and fro: the first line on its standard input is its order,
each line that it prints an answer. A program ends when its standard input does.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.served import ROOT

WITHIN_S = 600.0
_LINE_BYTES = 64 << 20
_TAIL_CHARS = 2_000


class ProgramFailed(Exception):
    """A program ended before it had answered, or answered with something else than JSON."""


class Program:
    """A running program. Made by `program`."""

    def __init__(self, module: str, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        self.module = module
        self.pid = process.pid
        self._process = process
        self._errors = errors

    def tell(self, order: Mapping[str, Any]) -> None:
        """Give it a line."""
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def answer(self) -> dict[str, Any]:
        """Its next line. Raises ProgramFailed."""
        if self._process.stdout is None:
            raise ProgramFailed(f"{self.module} has no standard output")
        async with asyncio.timeout(WITHIN_S):
            line = await self._process.stdout.readline()
        if not line:
            raise ProgramFailed(f"{self.module} ended early: {self._last_words()}")
        try:
            return json.loads(line)
        except ValueError:
            raise ProgramFailed(f"{self.module} said {line!r}; its errors: {self._last_words()}") from None

    async def end(self) -> None:
        """Close its standard input and wait for its end; kill it if that takes long."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _last_words(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-_TAIL_CHARS:]


@asynccontextmanager
async def program(
    module: str, order: Mapping[str, Any], *, python: Path = Path(sys.executable)
) -> AsyncGenerator[Program]:
    """Run `python -m MODULE` with an order for the time of the context."""
    with tempfile.TemporaryFile() as errors:  # a pipe that nobody reads would fill up
        process = await asyncio.create_subprocess_exec(
            python, "-m", module,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, limit=_LINE_BYTES,
        )  # fmt: skip
        running = Program(module, process, errors)
        try:
            running.tell(order)
            yield running
        finally:
            await running.end()


async def ask(module: str, order: Mapping[str, Any]) -> dict[str, Any]:
    """The one answer of a program that needs nothing but its order. Raises ProgramFailed."""
    async with program(module, order) as running:
        return await running.answer()


# --- the program's own side --------------------------------------------------------------------


def read_order() -> dict[str, Any]:
    """The next line on standard input. Raises EOFError at its end."""
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return json.loads(line)


def say(answer: Mapping[str, Any]) -> None:
    """Print an answer."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
