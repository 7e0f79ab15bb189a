"""What of a server's messages the SDK would refuse or stumble over, made what it takes.

Owns three mends. A block of a result whose type nobody knows, or that lacks what its type needs, becomes a
note, so that the rest of the result is not lost with it. Structured content is held back from the SDK, which
would walk through all of it on the event loop, half a second for four megabytes: it is ours to check. What
says how far a call is never reaches it (`progress`).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

from mcp.client import Transport
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from jackline_server.core.plan import JsonValue
from jackline_server.tools.mcp.progress import ProgressDesk


class Held(dict[str, Any]):
    """Structured content behind an empty object."""

    def __init__(self, content: JsonValue) -> None:
        super().__init__()
        self.content = content


_NEEDS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": (),
    "resource_link": ("name", "uri"),
}
"""The texts that a block of each known type can't do without."""

_MAX_SHOWN = 40


class _TidyStream:
    """A read stream whose messages are tidied."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], desk: ProgressDesk) -> None:
        self._inner = inner
        self._desk = desk

    @property
    def last_context(self) -> object:
        """The SDK looks here for the sender's context."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self._next(self._inner.receive)

    async def _next(
        self, inner: Callable[[], Awaitable[SessionMessage | Exception]]
    ) -> SessionMessage | Exception:
        while True:
            item = await inner()
            if not isinstance(item, SessionMessage) or not await self._desk.took(item.message):
                return tidied(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return await self._next(self._inner.__anext__)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


@asynccontextmanager
async def tidy(transport: Transport, desk: ProgressDesk) -> AsyncGenerator[TransportStreams]:
    """The transport with tidied messages. What servers say of how far they are goes to the desk."""
    async with transport as (reads, writes):
        yield _TidyStream(reads, desk), writes


def tidied(item: SessionMessage | Exception) -> SessionMessage | Exception:
    """The message, its unknown blocks replaced and its structured content held."""
    if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCResponse):
        result: dict[str, Any] = item.message.result
        content = result.get("content")
        if isinstance(content, list):
            blocks = cast("list[object]", content)
            result["content"] = [_block(block) for block in blocks]
            if result.get("structuredContent") is not None:
                result["structuredContent"] = Held(result["structuredContent"])
    return item


def _block(block: object) -> object:
    """The block, or a note of what it was and how much text it held."""
    if not isinstance(block, dict):
        return _note(f"something that is no block, {type(block).__name__}", 0)
    fields = cast("dict[str, object]", block)
    size = sum(len(value) for value in fields.values() if isinstance(value, str))
    kind = fields.get("type")
    if not isinstance(kind, str):
        return _note("a block without a type", size)
    needs = _NEEDS.get(kind)
    if needs is None:
        return _note(f"a block of the unknown type {kind[:_MAX_SHOWN]!r}", size)
    if not all(isinstance(fields.get(name), str) for name in needs):
        return _note(f"a broken block of the type {kind!r}", size)
    if kind == "resource" and not _is_resource(fields.get("resource")):
        return _note("a broken block of the type 'resource'", size)
    return fields


def _is_resource(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, object]", value)
    return isinstance(fields.get("uri"), str) and any(
        isinstance(fields.get(name), str) for name in ("text", "blob")
    )


def _note(what: str, size: int) -> object:
    return {"type": "text", "text": f"[left out: {what}, {size} characters]"}
