"""The SDK's transport over a process of ours: one JSON-RPC message a line, both ways.

Owns how lines become messages. A line that is none is skipped; one over the cap fails the call that it
answers, or all that are open if it does not say which, and none if it is no answer. Never raises into the
SDK: the end of the process is the end of the stream.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse, RequestId
from mcp_types.jsonrpc import jsonrpc_message_adapter

from jackline_server.runtime.ports.mcp import McpProcess
from jackline_server.tools.mcp.lines import LineCutter, TooLong
from jackline_server.tools.mcp.process import ServerPipes, server_process
from jackline_server.tools.mcp.progress import newest_only
from jackline_server.tools.mcp.witness import Witness

_log = logging.getLogger(__name__)

MAX_LINE_BYTES = 4 * 1024 * 1024
LINE_TOO_LONG = -32_098
"""Our own code for an answer that was dropped: whether the tool acted is then open."""

_CHUNK = 65_536
_IN_A_THREAD = 64 * 1024
_MAX_SKIPPED_TOLD = 5
_TOLD_BYTES = 4_096
_NO_ANSWER = re.compile(
    rb'\s*\{(?:\s*"(?:jsonrpc|id)"\s*:\s*(?:-?\d{1,18}|"(?:[^"\\]|\\.){0,128}")\s*,)*\s*"method"\s*:'
)
"""How news and requests of a server begin. A request's id is the server's own, and none of ours."""

_ID = re.compile(rb'"id"\s*:\s*(?:(-?\d{1,18})|"((?:[^"\\]|\\.){0,128})")')


@asynccontextmanager
async def stdio_streams(
    name: str, described: McpProcess, *, on_end: asyncio.Event, witness: Witness
) -> AsyncGenerator[
    tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
]:
    """A process with the two streams that the SDK reads and writes. `on_end` is set when its output ends.

    `witness` notes what the process shows of itself.

    Raises:
        OSError: it can't be started.
    """
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(server_process(name, described, witness=witness))
        to_sdk, sdk_reads = anyio.create_memory_object_stream[SessionMessage | Exception](16)
        sdk_writes, from_sdk = anyio.create_memory_object_stream[SessionMessage](0)
        for stream in (to_sdk, sdk_reads, sdk_writes, from_sdk):
            stack.callback(stream.close)
        pipes = _Pipes(name, process, to_sdk, from_sdk, on_end=on_end, witness=witness)
        tasks = [asyncio.create_task(pipes.read()), asyncio.create_task(pipes.write())]
        try:
            yield sdk_reads, sdk_writes
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def stdio_transport(
    name: str, described: McpProcess, *, on_end: asyncio.Event, witness: Witness
) -> Transport:
    """The same as the SDK's `Transport`."""
    return stdio_streams(name, described, on_end=on_end, witness=witness)


class _Pipes:
    """The two directions of one process, and the requests that wait for an answer."""

    def __init__(
        self,
        name: str,
        process: ServerPipes,
        to_sdk: MemoryObjectSendStream[SessionMessage | Exception],
        from_sdk: MemoryObjectReceiveStream[SessionMessage],
        *,
        on_end: asyncio.Event,
        witness: Witness,
    ) -> None:
        self._name = name
        self._process = process
        self._to_sdk = to_sdk
        self._from_sdk = from_sdk
        self._on_end = on_end
        self._witness = witness
        self._open: set[RequestId] = set()
        self._skipped = 0

    async def read(self) -> None:
        """Give every message to the SDK until the output ends."""
        lines = LineCutter(cap=MAX_LINE_BYTES)
        try:
            while chunk := await self._process.stdout.read(_CHUNK):
                for line in newest_only(list(lines.feed(chunk))):
                    for message in await self._messages(line):
                        await self._to_sdk.send(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            return  # the session is gone, or the pipe is
        finally:
            self._on_end.set()
            self._to_sdk.close()

    async def write(self) -> None:
        """Give every message of the SDK to the process until either is gone."""
        stdin = self._process.stdin
        try:
            async for item in self._from_sdk:
                if isinstance(item.message, JSONRPCRequest):
                    self._open.add(item.message.id)
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode("utf-8", "replace") + b"\n")
                await stdin.drain()
        except (OSError, RuntimeError):
            self._on_end.set()
            self._to_sdk.close()

    async def _messages(self, line: bytes | TooLong) -> list[JSONRPCMessage]:
        if isinstance(line, TooLong):
            return self._too_long(line)
        if not line.strip():
            return []
        if len(line) > _IN_A_THREAD:
            message = await asyncio.to_thread(_parsed, line)
        else:
            message = _parsed(line)
        if message is None:
            self._tell_skipped(line)
            return []
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self._open.discard(message.id)
        return [message]

    def _too_long(self, line: TooLong) -> list[JSONRPCMessage]:
        _log.warning("MCP server %s: a line of more than %d bytes was dropped", self._name, MAX_LINE_BYTES)
        if _NO_ANSWER.match(line.head):
            return []
        found = _ID.search(line.head)
        answered: set[RequestId] = set(self._open)
        if found is not None:
            number, text = found.groups()
            one: RequestId = int(number) if number is not None else text.decode("utf-8", "replace")
            answered = {one} & self._open
        self._open -= answered
        error = ErrorData(code=LINE_TOO_LONG, message=f"The answer is longer than {MAX_LINE_BYTES} bytes.")
        return [JSONRPCError(jsonrpc="2.0", id=request, error=error) for request in answered]

    def _tell_skipped(self, line: bytes) -> None:
        self._witness.saw_stray(line)
        self._skipped += 1
        if self._skipped <= _MAX_SKIPPED_TOLD:
            shown = self._witness.masked(line[:_TOLD_BYTES].decode("utf-8", "replace"))[:100]
            _log.warning("MCP server %s: a line that is no message was skipped: %r", self._name, shown)


def _parsed(line: bytes) -> JSONRPCMessage | None:
    """The message of a line. The standard library's parser holds up other threads the shortest."""
    try:
        value: object = json.loads(line.decode("utf-8", "replace"))
        return jsonrpc_message_adapter.validate_python(value, by_name=False)
    except (ValueError, RecursionError):
        return None
