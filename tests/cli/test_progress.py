"""What a person sees while a command waits, and where nobody is there to see it."""

import asyncio
import io
import os
import pty
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc
import pytest

from jackline.v1.event_pb2 import ModelCallStarted, StepEvent
from jackline_client.cli.progress import Progress
from tests.cli.console import HEARING_CONTROL_C, Console
from tests.support.scripted_service import (
    RUN_ID,
    Failure,
    ScriptedService,
    StreamScript,
    frame_of,
    numbered,
    small_log,
)

ERASE = "\r\x1b[2K"
WAITING = numbered(
    [*small_log(2)[:1], StepEvent(model_call_started=ModelCallStarted(model="fast", attempt=1))]
)


class Shown:
    """What a command writes to its terminals, as it comes."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader) -> None:
        self.process = process
        self._reader = reader
        self.text = ""

    async def until(self, words: str) -> None:
        async with asyncio.timeout(60):
            while words not in self.text:
                try:
                    piece = await self._reader.read(4096)
                except OSError:  # how a terminal says that nobody writes to it any more
                    piece = b""
                assert piece, f"{words!r} never came: {self.text!r}"
                self.text += piece.decode(errors="replace")


@asynccontextmanager
async def watching(console: Console, **changes: str) -> AsyncGenerator[Shown]:
    """`jackline watch` with standard error on a terminal of its own, and standard output elsewhere."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(*HEARING_CONTROL_C, "watch", RUN_ID),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=theirs,
        env=console.environment(**{"TERM": "xterm-256color", **changes}),
        cwd=console.home,
    )
    os.close(theirs)
    reader = asyncio.StreamReader()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), terminal
        )
        try:
            yield Shown(process, reader)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                await process.wait()
            transport.close()


async def test_a_run_that_is_quiet_says_what_it_waits_for(console: Console, service: ScriptedService) -> None:
    service.streams.append(StreamScript(frames=[frame_of(*WAITING)], hang=True))
    async with watching(console) as shown:
        await shown.until("the model fast is at work (")
        shown.process.send_signal(signal.SIGINT)
        await shown.until(f"jackline abort {RUN_ID}")
        async with asyncio.timeout(60):
            await shown.process.wait()
    assert shown.process.returncode == 130
    # The line is gone before anything else is written.
    last = shown.text.rindex("is at work")
    assert ERASE in shown.text[last : shown.text.index("jackline: the run")]


@pytest.mark.parametrize(
    "changes", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=lambda changes: next(iter(changes))
)
async def test_a_terminal_that_takes_no_escapes_sees_no_progress(
    console: Console, service: ScriptedService, changes: dict[str, str]
) -> None:
    # Long enough that it would be shown: the notice of a lost connection comes after two seconds.
    gone = Failure(code=grpc.StatusCode.UNAVAILABLE)
    service.streams.append(StreamScript(frames=[frame_of(*WAITING)], end=gone))
    service.streams.extend(StreamScript(frames=[], end=gone) for _ in range(4))
    service.streams.append(StreamScript(frames=[], hang=True))
    async with watching(console, **changes) as shown:
        await shown.until("reconnecting")
    assert "\x1b" not in shown.text
    assert "at work" not in shown.text
    service.streams.clear()


@pytest.mark.parametrize(
    ("is_terminal", "environ", "is_shown"),
    [
        (True, {"TERM": "xterm"}, True),
        (False, {"TERM": "xterm"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
    ids=["terminal", "file", "dumb", "no colour"],
)
def test_it_is_shown_on_a_terminal_alone_and_only_when_nothing_has_come_for_a_while(
    is_terminal: bool, environ: dict[str, str], is_shown: bool
) -> None:
    clock = [0.0]
    errors = Terminal() if is_terminal else io.StringIO()
    progress = Progress(errors=errors, environ=environ, clock=lambda: clock[0])
    progress.about("waiting\x1b[2J")
    progress.tick()
    assert errors.getvalue() == ""
    clock[0] = 3.0
    progress.tick()
    progress.clear()
    written = errors.getvalue()
    assert written == (f"{ERASE}/ waiting\\x1b[2J (3 s){ERASE}" if is_shown else "")
    progress.tick()
    progress.hold(True)
    clock[0] = 9.0
    progress.tick()
    assert errors.getvalue() == written


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True
