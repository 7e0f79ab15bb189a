"""Step kind `function` with `isolate: process`: each call in a process of its own, ended with its call.

Owns the process from its start until nothing of its group is left: its time, its output, its folder, and what
its end means. A process has a session, a fresh folder and an environment of its own, and no file of the
server's. Whether the function was called at all is always known; how far it came is not, once it ended early.

A process that leaves its group (`setsid`) is looked for once the call has ended (`homes`); one that the
kernel does not let die is out of reach.
"""

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from jackline_server.core import json_text
from jackline_server.core.plan import FunctionAction, JsonObject
from jackline_server.runtime.ports.functions import FunctionProcesses
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.isolated.frames import BEGAN, FAILURE, HEAD_BYTES, MOST_BYTES, VALUE
from jackline_server.tools.isolated.homes import Homes
from jackline_server.tools.isolated.limits import limits_of, met_by_signal
from jackline_server.tools.isolated.strays import MARK
from jackline_server.tools.process_groups import POLL_S, is_gone, signal_group
from jackline_server.tools.results import HARD_BYTES, clean_json, completed, failed

_log = logging.getLogger(__name__)

_CHILD = Path(__file__).with_name("child.py")
_CHUNK = 65_536
_AT_ONCE_BYTES = 64 * 1024
_TOLD_CHARS = 2_000
_LAST_WORDS_S = 0.5
_KILLED_S = 2.0
_SEEN_GONE_S = 1.0
"""So long a cancelled call waits for its process to be gone: less than what an abort gives a call to end."""


class IsolatedFunctions:
    """Calls functions of the roots, each in a process of its own. Use it in one event loop."""

    def __init__(self, *, roots: Sequence[str], processes: FunctionProcesses, homes: Homes) -> None:
        """`homes` are whoever's made them to close."""
        self._roots = list(roots)
        self._homes = homes
        self._settings = processes
        self._free = asyncio.Semaphore(processes.concurrency)
        self._ending: set[asyncio.Task[None]] = set()
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many processes could not be ended; each keeps its place."""
        return self._lost

    def serves(self, action: FunctionAction) -> bool:
        """True for a function that is to be called here."""
        return action.isolated or self._settings.always

    async def call(self, action: FunctionAction, invocation: Invocation) -> ToolResult:
        """Call the function. Waits for a place first; that counts.

        Raises nothing but CancelledError, once the process and its group are killed and it is gone.
        """
        deadline = asyncio.get_running_loop().time() + invocation.timeout_ms / 1000
        request = self._request(action, invocation)
        if request is None:
            return failed("The arguments can't be written as JSON.")
        try:
            async with asyncio.timeout_at(deadline):
                await self._free.acquire()
        except TimeoutError:
            message = "Every process for functions was busy for the whole time; nothing was called."
            return failed(message, may_pass=True)
        folder = ""
        try:
            folder = self._homes.made()
            started = self._started(folder)
        except OSError as error:
            self._end(None, folder)
            message = f"A process for the function can't be started ({error.strerror}); nothing was called."
            return failed(message, may_pass=True)
        call = _Call(started.process, invocation, deadline, limits_of(self._settings))
        return await self._in_process(started, folder, request, call)

    async def close(self) -> None:
        """Wait until the processes that were ended are gone. Bounded."""
        if self._ending:
            await asyncio.wait(self._ending, timeout=_KILLED_S)

    async def _in_process(
        self, started: "_Started", folder: str, request: bytes, call: "_Call"
    ) -> ToolResult:
        """What comes of the call; its process ends with it. A call that is cancelled has seen it gone."""
        try:
            async with AsyncExitStack() as stack:
                stack.callback(self._end, started.process, folder)
                answers = await _reader(stack, started.answers)
                output = await _reader(stack, started.process.stdout)
                await _send(stack, started.control, request)
                return await call.result(answers, output)
        except asyncio.CancelledError:
            await is_gone(started.process, _SEEN_GONE_S)
            raise

    def _request(self, action: FunctionAction, invocation: Invocation) -> bytes | None:
        settings = self._settings
        call: JsonObject = {
            "function": action.function,
            "roots": list(self._roots),
            "path": [one or str(Path.cwd()) for one in sys.path],
            "arguments": dict(invocation.arguments),
            "bound": dict(invocation.bound),
            "step_input": dict(invocation.step_input),
            "call": {
                "run_id": invocation.run_id,
                "call_key": invocation.call_key,
                "attempt": invocation.attempt,
                "subject": dict(invocation.subject),
            },
            "limits": limits_of(settings),
        }
        try:
            body = json_text.write(call).encode()
        except ValueError:
            return None
        return len(body).to_bytes(8, "big") + body

    def _started(self, folder: str) -> "_Started":
        """Start it, by `vfork` of the standard library: the loop's own `fork` would run gRPC's handlers."""
        theirs_reads, control = os.pipe()
        try:
            answers, theirs_writes = os.pipe()
        except OSError:
            os.close(theirs_reads)
            os.close(control)
            raise
        own = [os.fdopen(control, "wb", buffering=0), os.fdopen(answers, "rb", buffering=0)]
        environment = {name: value.reveal() for name, value in (self._settings.environment or {}).items()}
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program, never a shell
                # Without bytecode: a limit on the size of files would cut it short for whoever reads it next.
                [sys.executable, "-I", "-B", str(_CHILD), str(theirs_reads), str(theirs_writes)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={
                    "PATH": os.defpath,
                    "LANG": "C.UTF-8",
                    "HOME": folder,
                    "TMPDIR": folder,
                    **environment,
                    MARK: folder,
                },
                cwd=folder,
                start_new_session=True,
                pass_fds=(theirs_reads, theirs_writes),
                bufsize=0,
            )
        except OSError:
            for file in own:
                file.close()
            raise
        finally:
            os.close(theirs_reads)
            os.close(theirs_writes)
        return _Started(process, *own)

    def _end(self, process: "subprocess.Popen[bytes] | None", folder: str) -> None:
        """Kill the group at once; see in a task that it is gone, and then free its place."""
        if process is not None:
            signal_group(process.pid, signal.SIGKILL)
        ending = asyncio.get_running_loop().create_task(self._gone(process, folder))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _gone(self, process: "subprocess.Popen[bytes] | None", folder: str) -> None:
        if process is not None and not await is_gone(process, _KILLED_S):
            self._lost += 1
            _log.warning(
                "a function's process can't be killed and is left behind", extra={"pid": process.pid}
            )
            return
        if folder:
            await self._homes.give_up(folder)
        self._free.release()


@dataclass(frozen=True, slots=True)
class _Started:
    process: "subprocess.Popen[bytes]"
    control: IO[bytes]
    answers: IO[bytes]


class _Flood(Exception):
    """The function printed more than anybody reads."""


class _Call:
    """One call that is under way in its process."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        invocation: Invocation,
        deadline: float,
        limits: JsonObject,
    ) -> None:
        self._process = process
        self._invocation = invocation
        self._deadline = deadline
        self._limits = limits
        self._began = False
        self._printed = bytearray()

    async def result(self, answers: asyncio.StreamReader, output: asyncio.StreamReader) -> ToolResult:
        answering = asyncio.create_task(self._answer(answers))
        printing = asyncio.create_task(self._read(output))
        try:
            return await self._first(answering, printing)
        finally:
            for task in (answering, printing):
                task.cancel()
            await asyncio.gather(answering, printing, return_exceptions=True)
            self._tell()

    async def _first(
        self, answering: "asyncio.Task[ToolResult | None]", printing: asyncio.Task[None]
    ) -> ToolResult:
        """What comes first: its answer, its end, too much of its output, or the end of its time."""
        loop = asyncio.get_running_loop()
        waiting: set[asyncio.Task[ToolResult | None] | asyncio.Task[None]] = {answering, printing}
        while (left_s := self._deadline - loop.time()) > 0:
            # Its death is looked for: whatever it started may hold its pipes open.
            done, waiting = await asyncio.wait(
                waiting, timeout=min(left_s, POLL_S), return_when=asyncio.FIRST_COMPLETED
            )
            if printing in done and printing.exception() is not None:
                return self._broken(f"The function printed more than {HARD_BYTES} bytes and was ended.")
            if answering.done() or self._process.poll() is not None:
                await asyncio.wait({answering}, timeout=_LAST_WORDS_S)
                result = answering.result() if answering.done() else None
                return await self._died() if result is None else result
        message = "The function did not finish in time and was ended."
        if not self._began:
            message = "The function's process was not ready in time; nothing was called."
        return self._broken(message, timed_out=True)

    async def _answer(self, answers: asyncio.StreamReader) -> ToolResult | None:
        """What the process answers; None if it ends without."""
        try:
            while True:
                head = await answers.readexactly(HEAD_BYTES)
                kind, size = head[:1], int.from_bytes(head[1:], "big")
                if size > MOST_BYTES:
                    return self._broken("The function's process answered more than can be kept.")
                body = await answers.readexactly(size)
                if kind == BEGAN:
                    self._began = True
                elif len(body) <= _AT_ONCE_BYTES:
                    return self._understood(kind, body)
                else:
                    return await asyncio.to_thread(self._understood, kind, body)
        except asyncio.IncompleteReadError:
            return None

    def _understood(self, kind: bytes, body: bytes) -> ToolResult:
        try:
            if kind == VALUE:
                return completed(clean_json(json_text.parse(body.decode())))
            failure = json_text.parse_object(body.decode()) if kind == FAILURE else None
        except ValueError:
            failure = None
        if failure is None:
            return self._broken("The function's process answered what can't be read.")
        if "frames" in failure:
            _log.warning(
                "a function raised",
                extra={
                    "run_id": self._invocation.run_id,
                    "error_type": str(failure.get("error_type")),
                    "frames": str(failure["frames"]),
                },
            )
        return failed(str(failure.get("message")), may_pass=failure.get("may_pass") is True)

    async def _died(self) -> ToolResult:
        await is_gone(self._process, _LAST_WORDS_S)
        code = self._process.returncode
        if code is None:
            how = "closed its answer without one"
        elif code >= 0:
            how = f"ended with code {code}"
        elif met := met_by_signal(-code, self._limits):
            how = f"used up its {met} and was ended"
        else:
            how = f"was ended by {_signal_name(-code)}"
        where = "before it answered" if self._began else "before the function was called"
        from_outside = code in (-signal.SIGKILL, -signal.SIGTERM)
        return self._broken(f"The function's process {how} {where}.", may_pass=from_outside)

    def _broken(self, message: str, *, timed_out: bool = False, may_pass: bool = False) -> ToolResult:
        uncertain = self._began and not self._invocation.step.effect.repeatable
        return failed(message, uncertain=uncertain, timed_out=timed_out, may_pass=may_pass)

    async def _read(self, output: asyncio.StreamReader) -> None:
        """Read what it prints, so that a full pipe does not stop it; raises _Flood at the cap."""
        size = 0
        while chunk := await output.read(_CHUNK):
            size += len(chunk)
            self._printed += chunk[: max(_TOLD_CHARS - len(self._printed), 0)]
            if size > HARD_BYTES:
                raise _Flood

    def _tell(self) -> None:
        if self._printed:
            text = self._printed.decode("utf-8", "replace")
            _log.debug("a function printed", extra={"run_id": self._invocation.run_id, "text": text})


async def _reader(stack: AsyncExitStack, pipe: IO[bytes] | None) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    stack.callback(transport.close)
    return reader


async def _send(stack: AsyncExitStack, pipe: IO[bytes], request: bytes) -> None:
    """Send the call, and leave the pipe open: its end would end the process."""
    transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, pipe)
    stack.callback(_hang_up, transport)
    transport.write(request)


def _hang_up(transport: asyncio.WriteTransport) -> None:
    if not transport.is_closing():  # of one that has closed itself it would raise
        transport.abort()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
