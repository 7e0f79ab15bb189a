"""The process of a stdio server: started in a session of its own, ended with everything that it started.

Owns the process, its pipes and what it says on stderr. Does not own what its output means (`stdio`).
"""

import asyncio
import logging
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import IO

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.mcp import McpProcess
from jackline_server.tools.mcp.witness import Witness
from jackline_server.tools.process_groups import is_gone, signal_group

_log = logging.getLogger(__name__)

GRACE_S = 1.0
"""How long a server may take to end by itself once its input is closed, and again once it was told to."""

_KILLED_S = 2.0
_LAST_WORDS_S = 0.5
_STDERR_LINE = 500
_STDERR_LINES = 200
_CHUNK = 65_536


@frozen
class ServerPipes:
    """The two pipes that speak the protocol."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader


@asynccontextmanager
async def server_process(
    name: str, described: McpProcess, *, witness: Witness
) -> AsyncGenerator[ServerPipes]:
    """The process inside the context; leaving it ends the whole process group within `2 * GRACE_S` and a bit.

    `witness` has its exit code and all of its stderr afterwards, if it ended before it was told to.

    Raises:
        OSError: it can't be started.
    """
    process = _started(described)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, name, process)
        stdout = await _reader(stack, process.stdout)
        stderr = await _reader(stack, process.stderr)
        stdin = await _writer(stack, process.stdin)
        telling = asyncio.create_task(_tell(name, stderr, witness), name=f"stderr of MCP server {name}")
        stack.push_async_callback(_cancel, telling)
        stack.push_async_callback(_last_words, process, stdout, telling, witness)
        yield ServerPipes(stdin=stdin, stdout=stdout)


def _started(described: McpProcess) -> "subprocess.Popen[bytes]":
    """Start it. The standard library's `vfork` stops the loop for a millisecond and wakes no fork handlers.

    The event loop's own `fork` would run gRPC's, which it must not with calls in flight.
    """
    return subprocess.Popen(  # noqa: S603 - the operator's own argument list, never a shell
        described.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={key: value.reveal() for key, value in described.environment.items()},
        cwd=described.directory,
        start_new_session=True,
        bufsize=0,
    )


async def _reader(stack: AsyncExitStack, pipe: IO[bytes] | None) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    stack.callback(transport.close)
    return reader


async def _writer(stack: AsyncExitStack, pipe: IO[bytes] | None) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), pipe
    )
    stack.callback(transport.close)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _last_words(
    process: "subprocess.Popen[bytes]", stdout: asyncio.StreamReader, telling: asyncio.Task[None], to: Witness
) -> None:
    """Note how a server ended whose output has ended before anybody told it to."""
    if not stdout.at_eof():
        return
    if await is_gone(process, _LAST_WORDS_S) and process.returncode is not None:
        to.saw_end(process.returncode)
    await asyncio.wait({telling}, timeout=_LAST_WORDS_S)  # what it started may hold its stderr open


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _end(name: str, process: "subprocess.Popen[bytes]") -> None:
    """End the group even if whoever waits is cancelled: a task of its own does it, and is waited for."""
    ending = asyncio.create_task(_end_group(name, process), name=f"end of MCP server {name}")
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait({ending}, timeout=2 * GRACE_S + _KILLED_S)
        raise


async def _end_group(name: str, process: "subprocess.Popen[bytes]") -> None:
    """Its pipes are closed by now, which is how a server is asked to end."""
    if not await is_gone(process, GRACE_S):
        signal_group(process.pid, signal.SIGTERM)
        await is_gone(process, GRACE_S)
    signal_group(process.pid, signal.SIGKILL)  # the leader may be gone while what it started is not
    if not await is_gone(process, _KILLED_S):
        _log.warning("MCP server %s: process %d can't be killed and is left behind", name, process.pid)


async def _tell(name: str, stderr: asyncio.StreamReader, witness: Witness) -> None:
    """Put the first lines of stderr into the log, and all of it before the witness, who keeps the last.

    Nothing is left in the pipe: a full one would stop the server.
    """
    told = 0
    while chunk := await stderr.read(_CHUNK):
        text = chunk.decode("utf-8", "replace")
        witness.heard(text)
        for line in text.splitlines():
            told += 1
            if told <= _STDERR_LINES and line.strip():
                _log.debug("MCP server %s: %s", name, witness.masked(line)[:_STDERR_LINE])
