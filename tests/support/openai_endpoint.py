"""A real HTTP endpoint that speaks the OpenAI chat wire, for tests and demonstrations.

Owns the wire as a provider would send it, and every way in which a provider may break it. A behaviour, one
function, decides each reply; a hit log says what was asked. Runs inside a test, or as a process:

    python -m tests.support.openai_endpoint --script FILE --hits FILE --port 0

prints its port and plays a script of the scripted model's format. `--hits` appends one JSON line a request.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, assert_never

from aiohttp import web

from jackline_server.core.facts import FailureClass
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.models.script import Script, ScriptUsage, Turn, load_script
from jackline_server.models.scripted import choose, play
from jackline_server.runtime.driving.replies import fold
from jackline_server.runtime.ports.models import ModelFailure
from tests.support.web_server import serving

Json = dict[str, Any]

PIECE_CHARS = 16
USAGE: Json = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
"""Reported unless a reply says otherwise."""


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes, sent as they are."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Silence for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection is reset."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Silence until the client goes away or the endpoint stops."""


Piece = Send | Wait | Cut | Hang


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A response piece by piece; nothing is added to it."""

    pieces: Iterable[Piece] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call of a reply. `arguments` is sent as it is."""

    name: str
    arguments: str
    call_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A well-behaved reply; streamed or whole, as the request asks.

    `usage` None reports none. `delay_s` comes before the first byte, `piece_delay_s` before each chunk.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    finish: str = ""
    usage: Json | None = field(default_factory=lambda: dict(USAGE))
    delay_s: float = 0
    piece_delay_s: float = 0


Behaviour = Callable[[Json], Reply | Wire]


# --- the wire ----------------------------------------------------------------------------------

DONE = Send(b"data: [DONE]\n\n")


def sse(document: object) -> Send:
    """One server-sent event."""
    return Send(b"data: " + json.dumps(document).encode() + b"\n\n")


def chunk(delta: Json | None = None, *, finish: str | None = None, usage: object = None) -> Json:
    """One chunk of a streamed completion. `usage` and no delta make the chunk without choices."""
    choices: list[Json] = []
    if delta is not None or finish is not None:
        choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    document: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "test-model",
        "choices": choices,
    }
    return document if usage is None else {**document, "usage": usage}


def call_fragments(calls: Sequence[Call]) -> list[Json]:
    """The deltas of parallel calls: a head for each, then their arguments in turns."""
    heads: list[Json] = [
        {
            "tool_calls": [
                {
                    "index": index,
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": ""},
                }
            ]
        }
        for index, call in enumerate(calls)
    ]
    longest = max((len(call.arguments) for call in calls), default=0)
    tails: list[Json] = [
        {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
        for start in range(0, longest, PIECE_CHARS)
        for index, call in enumerate(calls)
        if (part := call.arguments[start : start + PIECE_CHARS])
    ]
    return [*heads, *tails]


def stream_of(reply: Reply) -> list[Json]:
    """The chunks of a reply."""
    starts = range(0, len(reply.text), PIECE_CHARS)
    deltas: list[Json] = [{"content": reply.text[start : start + PIECE_CHARS]} for start in starts]
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk(delta) for delta in (*deltas, *call_fragments(reply.calls))]
    chunks.append(chunk(finish=_finish(reply)))
    if reply.usage is not None:
        chunks.append(chunk(usage=reply.usage))
    return chunks


def whole(reply: Reply) -> Json:
    """The reply as one document."""
    calls = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in reply.calls
    ]
    message: Json = {"role": "assistant", "content": reply.text or None}
    if calls:
        message["tool_calls"] = calls
    document: Json = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "test-model",
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply)}],
    }
    return document if reply.usage is None else {**document, "usage": reply.usage}


def error(
    status: int, message: str, *, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Wire:
    """An error as the provider would answer it."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return Wire(
        status=status,
        headers=headers or {},
        content_type="application/json",
        pieces=[Send(json.dumps(body).encode())],
    )


def _finish(reply: Reply) -> str:
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def _wire(reply: Reply, request: Json) -> Wire:
    first: list[Piece] = [Wait(reply.delay_s)] if reply.delay_s else []
    if not request.get("stream"):
        body = Send(json.dumps(whole(reply)).encode())
        return Wire(content_type="application/json", pieces=[*first, body])
    pieces = first
    for document in stream_of(reply):
        if reply.piece_delay_s:
            pieces.append(Wait(reply.piece_delay_s))
        pieces.append(sse(document))
    return Wire(pieces=[*pieces, DONE])


# --- the server --------------------------------------------------------------------------------


@dataclass(slots=True)
class Endpoint:
    """A running endpoint.

    `hits` has one entry a request: `number` from 1, `time`, `target` (path and query), `peer` (of the
    connection), `headers` (names in lower case), `body`, `messages`, `tools`, and `ending`, which is empty
    while the request runs, then `sent`, `cut` or `client_gone`. `base_url` is what a client is given.
    """

    behaviour: Behaviour
    hits_file: Path | None = None
    hits: list[Json] = field(default_factory=list[Json])
    port: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def base_url(self) -> str:
        """The address up to and with `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def ended(self, number: int) -> str:
        """Wait until that request, from 1, is over; how it ended."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.hits) >= number and self.hits[number - 1]["ending"])
        return self.hits[number - 1]["ending"]

    async def arrived(self, number: int) -> Json:
        """Wait until that many requests have come; the last of them."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.hits) >= number)
        return self.hits[number - 1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        body: Json = await request.json()
        hit: Json = {
            "number": len(self.hits) + 1,
            "time": time.time(),
            "target": request.path_qs,
            "peer": _peer(request),
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": body,
            "messages": body.get("messages", []),
            "tools": body.get("tools", []),
            "ending": "",
        }
        self.hits.append(hit)
        await self._notify()
        if self.hits_file is not None:
            await asyncio.to_thread(_append_line, self.hits_file, hit)
        ending = "client_gone"
        try:
            answer = self.behaviour(body)
            wire = _wire(answer, body) if isinstance(answer, Reply) else answer
            response, ending = await _send(request, wire)
            return response
        finally:
            hit["ending"] = ending
            await asyncio.shield(self._notify())

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _peer(request: web.Request) -> str:
    """The client's end of the connection, which tells one from another."""
    return "" if request.transport is None else str(request.transport.get_extra_info("peername"))


async def _send(request: web.Request, wire: Wire) -> tuple[web.StreamResponse, str]:
    response = web.StreamResponse(
        status=wire.status, headers={"content-type": wire.content_type, **wire.headers}
    )
    await response.prepare(request)
    for piece in wire.pieces:
        match piece:
            case Send(data=data):
                await response.write(data)
            case Wait(seconds=seconds):
                await asyncio.sleep(seconds)
            case Cut():
                if request.transport is not None:
                    request.transport.abort()
                return response, "cut"
            case Hang():
                await asyncio.Event().wait()
            case _:
                assert_never(piece)
    await response.write_eof()
    return response, "sent"


def _append_line(path: Path, hit: Json) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(hit) + "\n")


@contextlib.asynccontextmanager
async def serve(
    behaviour: Behaviour, *, port: int = 0, hits_file: Path | None = None
) -> AsyncGenerator[Endpoint]:
    """Serve on loopback for as long as the block runs; port 0 takes a free one."""
    endpoint = Endpoint(behaviour, hits_file)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{base:.+}/chat/completions", endpoint.handle)
    async with serving(app, port=port) as endpoint.port:
        yield endpoint


# --- scripts -----------------------------------------------------------------------------------

_STATUS_OF: Mapping[FailureClass, int] = {
    FailureClass.RATE_LIMITED: 429,
    FailureClass.AUTHENTICATION: 401,
    FailureClass.BAD_REQUEST: 400,
    FailureClass.CONTEXT_OVERFLOW: 400,
}


def scripted(script: Script) -> Behaviour:
    """The behaviour that plays a script of the scripted model."""

    def behave(request: Json) -> Reply | Wire:
        messages = read_messages(request.get("messages", []))
        offered = [tool["function"]["name"] for tool in request.get("tools", [])]
        turn = choose(script, messages, offered)
        if turn is None:
            return error(400, "the script has no turn for this conversation")
        return _play(turn, messages)

    return behave


def _play(turn: Turn, messages: Sequence[Message]) -> Reply | Wire:
    if turn.error is not None:
        wait_s = (turn.error.retry_after_ms or 0) / 1000
        headers = {"retry-after": f"{wait_s:g}"} if wait_s else {}
        code = "context_length_exceeded" if turn.error.failure is FailureClass.CONTEXT_OVERFLOW else None
        return error(_STATUS_OF.get(turn.error.failure, 503), turn.error.message, code=code, headers=headers)
    try:
        said = fold(play(turn, messages))
    except ModelFailure as failure:
        return error(400, failure.message)
    return Reply(
        text=said.text,
        calls=[Call(name=call.name, arguments=call.arguments, call_id=call.call_id) for call in said.calls],
        finish=turn.finish.value if turn.finish else "",
        usage=_script_usage(turn),
        delay_s=turn.delay_ms / 1000,
        piece_delay_s=turn.chunk_delay_ms / 1000,
    )


def _script_usage(turn: Turn) -> Json | None:
    match turn.usage:
        case ScriptUsage() as told:
            return {
                "prompt_tokens": told.prompt_tokens,
                "completion_tokens": told.completion_tokens,
                "total_tokens": told.prompt_tokens + told.completion_tokens,
                "prompt_tokens_details": {"cached_tokens": told.cached_tokens},
                "completion_tokens_details": {"reasoning_tokens": told.reasoning_tokens},
            }
        case "none":
            return None
        case None:
            return dict(USAGE)


def read_messages(documents: Sequence[Json]) -> list[Message]:
    """Wire messages back as ours, as far as a script looks at them."""
    names: dict[str, str] = {}
    messages: list[Message] = []
    for document in documents:
        text = document.get("content") or ""
        match document["role"]:
            case "system":
                messages.append(SystemMessage(text=text))
            case "assistant":
                calls = tuple(_read_call(call) for call in document.get("tool_calls") or ())
                names.update((call.call_id, call.name) for call in calls)
                messages.append(AssistantMessage(text=text, calls=calls))
            case "tool":
                call_id = document["tool_call_id"]
                messages.append(
                    ToolMessage(call_id=call_id, name=names.get(call_id, ""), text=text, is_error=False)
                )
            case _:
                messages.append(UserMessage(text=text, provenance="input"))
    return messages


def _read_call(document: Json) -> MessageToolCall:
    function = document["function"]
    return MessageToolCall(call_id=document["id"], name=function["name"], arguments=function["arguments"])


# --- the process -------------------------------------------------------------------------------


async def _main(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    behaviour = scripted(load_script(arguments.script))
    async with serve(behaviour, port=arguments.port, hits_file=arguments.hits) as endpoint:
        sys.stdout.write(f"{endpoint.port}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An OpenAI-compatible endpoint that plays a script.")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--hits", type=Path, default=None)
    parser.add_argument("--port", type=int, default=0)
    asyncio.run(_main(parser.parse_args()))
