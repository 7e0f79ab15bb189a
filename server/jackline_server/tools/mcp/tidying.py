"""What of a server's messages the SDK would refuse or stumble over, made what it takes.

Owns two mends. A block of a result whose type nobody knows becomes a note, so that the rest of the result
is not lost with it. Structured content is held back from the SDK, which would walk through all of it on the
event loop, half a second for four megabytes: it is ours to check.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, cast

from mcp.client import Transport
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from jackline_server.core.plan import JsonValue


class Held(dict[str, Any]):
    """Structured content behind an empty object."""

    def __init__(self, content: JsonValue) -> None:
        super().__init__()
        self.content = content


_KNOWN = frozenset({"text", "image", "audio", "resource", "resource_link"})
_MAX_SHOWN = 40


class _TidyStream:
    """A read stream whose messages are tidied."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception]) -> None:
        self._inner = inner

    @property
    def last_context(self) -> object:
        """The SDK looks here for the sender's context."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return tidied(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> ReadStream[SessionMessage | Exception]:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return tidied(await self._inner.__anext__())

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
async def tidy(transport: Transport) -> AsyncGenerator[TransportStreams]:
    """The transport with tidied messages."""
    async with transport as (reads, writes):
        yield _TidyStream(reads), writes


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
    kind: object = None
    if isinstance(block, dict):
        fields = cast("dict[str, object]", block)
        kind = fields.get("type")
        if isinstance(kind, str) and kind in _KNOWN:
            return fields
    return {"type": "text", "text": f"[a block of the unknown type {str(kind)[:_MAX_SHOWN]!r} was left out]"}
