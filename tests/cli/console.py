"""The console script as a process of its own, with an environment of its own.

Owns starting it and collecting what it wrote. Does not own the server it talks to.
"""

import asyncio
import os
import pty
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.scripted_service import TOKEN

COMMAND = (sys.executable, "-m", "jackline_client.cli.main")
_IN_A_TERMINAL = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("jackline_client.cli.main", run_name="__main__", alter_sys=True)
"""
HEARING_CONTROL_C = (sys.executable, "-c", _IN_A_TERMINAL)
"""The same as in a terminal: a shell that runs the tests in the background has its children ignore Ctrl-C."""

_LISTING_MODULES = """
import os, pathlib, sys
from jackline_client.cli.main import main
try:
    main()
finally:
    pathlib.Path(os.environ["MODULES"]).write_text(" ".join(sys.modules))
"""

_SECONDS = 60
HIDDEN = frozenset([*range(0x09), *range(0x0B, 0x20), 0x7F])


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    code: int
    out: str
    err: str
    raw: bytes

    @property
    def hidden_bytes(self) -> set[int]:
        """The control characters that reached the output."""
        return {ord(c) for c in self.out + self.err if ord(c) in HIDDEN or 0x7F <= ord(c) <= 0x9F}


@dataclass(frozen=True, slots=True, kw_only=True)
class Console:
    address: str
    home: Path

    def environment(self, **changes: str) -> dict[str, str]:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "JACKLINE_ADDRESS": self.address,
            "JACKLINE_TOKEN": TOKEN,
        }
        return {name: value for name, value in {**environ, **changes}.items() if value}

    async def run(
        self, *words: str, given: bytes | None = None, cwd: Path | None = None, **changes: str
    ) -> Done:
        """Runs it to its end. Without `given`, standard input is empty."""
        process = await self.start(*words, cwd=cwd, **changes)
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate(given or b"")
        return Done(
            code=process.returncode or 0,
            out=out.decode(errors="replace"),
            err=err.decode(errors="replace"),
            raw=out + err,
        )

    async def complete(self, *words: str, **changes: str) -> list[str]:
        """What bash is offered for the last of the words, which may be empty."""
        line = {"COMP_WORDS": " ".join(("jackline", *words)), "COMP_CWORD": str(len(words))}
        environ = {"_JACKLINE_COMPLETE": "complete_bash", **line, **changes}
        done = await self.run(given=None, cwd=None, **environ)
        assert (done.code, done.err) == (0, "")
        return done.out.split()

    async def modules(self, *words: str, **changes: str) -> set[str]:
        """What is loaded when the command has ended."""
        environ = self.environment(**changes)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _LISTING_MODULES, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**environ, "MODULES": str(self.home / "modules")},
            cwd=self.home,
        )
        async with asyncio.timeout(_SECONDS):
            await process.wait()
        return set((self.home / "modules").read_text(encoding="utf-8").split())

    async def start(self, *words: str, cwd: Path | None = None, **changes: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *HEARING_CONTROL_C,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(**changes),
            cwd=cwd or self.home,
        )

    async def shell(self, line: str, **changes: str) -> Done:
        """Runs a shell line in which `$JACKLINE` is the command."""
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(JACKLINE=" ".join(COMMAND), **changes),
            cwd=self.home,
        )
        async with asyncio.timeout(_SECONDS):
            out, err = await process.communicate()
        return Done(code=process.returncode or 0, out=out.decode(), err=err.decode(), raw=out + err)

    async def into(self, out: int, *words: str, **changes: str) -> Done:
        """Runs it with an open file of ours as its output; what it wrote there is not looked at."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=asyncio.subprocess.PIPE,
            env=self.environment(**changes),
            cwd=self.home,
        )
        async with asyncio.timeout(_SECONDS):
            _, err = await process.communicate()
        return Done(code=process.returncode or 0, out="", err=err.decode(), raw=err)

    async def on_terminal(self, *words: str, **changes: str) -> Done:
        """Runs it with a terminal as its output."""
        ours, theirs = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=self.environment(**{"TERM": "xterm-256color", **changes}),
            cwd=self.home,
        )
        os.close(theirs)
        async with asyncio.timeout(_SECONDS):
            shown = await asyncio.to_thread(_read_all, ours)
            await process.wait()
        return Done(code=process.returncode or 0, out=shown.decode(errors="replace"), err="", raw=shown)


@contextmanager
def full_disk() -> Generator[int]:
    """A file that takes nothing."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def nobody() -> Generator[int]:
    """A pipe whose reader went away."""
    theirs, ours = os.pipe()
    os.close(theirs)
    try:
        yield ours
    finally:
        os.close(ours)


def _read_all(terminal: int) -> bytes:
    shown = b""
    try:
        while piece := os.read(terminal, 65536):
            shown += piece
    except OSError:  # the other side closed the terminal
        pass
    finally:
        os.close(terminal)
    return shown
