"""The results of tools that are too long for the log, or no text: kept in blobs, and read on in.

Owns when a result is kept, what one run may keep, and what a page or a search of one holds. Bytes are put
before the fact that names them: a worker that dies in between leaves a blob that nothing names. Does not own
who may read (`core.result_tool` for the model, the doors for people).
"""

import asyncio
from collections.abc import Mapping, Sequence

from jackline_server import failpoints
from jackline_server.core import json_text
from jackline_server.core.facts import NoticeCode, Noticed
from jackline_server.core.frozen import frozen
from jackline_server.core.media import ResultMedia
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.core.reading import result_tool
from jackline_server.core.state import RunState, ToolCall
from jackline_server.runtime.driving.committing import RETRY_MS
from jackline_server.runtime.driving.result_pages import lines_from, matches_from, page_from
from jackline_server.runtime.ports.blobs import BLOB_BYTES, Blobs
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.store_errors import StoreFull, StoreUnavailable
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.runtime.use_cases import ResultPart

RUN_BYTES = 256 << 20
"""What the results of one run that are kept outside its log come to at most, unless the config says else."""

_TEXT, _JSON = "text/plain", "application/json"

_AT_ONCE = 2
"""Whole results that are searched at the same time: each is held in memory."""

_BYTES_PER_CHAR = 4
_SHOWN_HANDLES = 20


@frozen
class Kept:
    """What became of a result beside its log: the digest of its text, its parts, what is to be recorded."""

    blob: str = ""
    media: tuple[ResultMedia, ...] = ()
    notices: tuple[Noticed, ...] = ()


NOTHING_KEPT = Kept()


class Results:
    """Keeps and reads results. One for all runs of a process."""

    def __init__(self, *, blobs: Blobs, clock: Clock, run_bytes: int = RUN_BYTES) -> None:
        self._blobs = blobs
        self._clock = clock
        self._run_bytes = run_bytes
        self._searching = asyncio.Semaphore(_AT_ONCE)

    async def keep(self, result: ToolResult, tool: str, state: RunState, tenant: Tenant) -> Kept:
        """Store what of a result is too long for the log, or no text, as far as it can be kept."""
        used, notices = state.stored_bytes, list[Noticed]()
        digest = None
        if result.whole is not None:
            digest = await self._keep(result.whole.encode(), used, tenant)
            used += 0 if digest is None else result.cut_from_bytes
            notices.append(self._notice(tool, result.cut_from_bytes, kept=digest is not None))
        media: list[ResultMedia] = []
        for part in result.media:
            blob = None if part.data is None else await self._keep(part.data, used, tenant)
            used += 0 if blob is None else part.bytes
            media.append(
                ResultMedia(media_type=part.media_type, size=part.bytes, name=part.name, blob=blob or "")
            )
        if media:
            notices.append(_media_notice(tool, media))
        return Kept(blob=digest or "", media=tuple(media), notices=tuple(notices))

    async def _keep(self, data: bytes, used: int, tenant: Tenant) -> str | None:
        """Store bytes and return their digest, or None if they can't be kept.

        That is: the run has used up what it may keep, they are too many for a blob, or the store is full.
        Waits while the store can't be reached.
        """
        if len(data) > BLOB_BYTES or used + len(data) > self._run_bytes:
            return None
        while True:
            try:
                digest = await self._blobs.put(tenant, data)
            except StoreUnavailable:
                await self._clock.sleep(RETRY_MS)
                continue
            except StoreFull:
                return None
            await failpoints.hit_async("result.after_put_before_commit")
            return digest

    def _notice(self, tool: str, size: int, *, kept: bool) -> Noticed:
        """What is recorded of a result that is too long for the log."""
        text = f"the result of {tool} has {size} bytes and is kept outside the log"
        if not kept:
            text = (
                f"the result of {tool} has {size} bytes; only its beginning and its end are kept: a run "
                f"keeps {self._run_bytes} bytes of results outside its log at most, {BLOB_BYTES} of one"
            )
        return Noticed(code=NoticeCode.RESULT_STORED, text=text)

    async def read(self, arguments: Mapping[str, JsonValue], state: RunState, tenant: Tenant) -> ToolResult:
        """What a call of `read_result` returns. `arguments` fit its schema."""
        visit, handle = state.visit, str(arguments["result"])
        call = None if visit is None else result_tool.named(state, visit, handle)
        if visit is None or call is None:
            known = [] if visit is None else result_tool.readable(state, visit)
            names = ", ".join(result_tool.handle_of(one) for one in known[-_SHOWN_HANDLES:])
            earlier = " What an earlier run was told can't be read on in." if state.in_thread else ""
            return _failed(f"There is no result {handle[:100]!r} here; there are: {names}.{earlier}")
        if "search" in arguments or "line" in arguments:
            async with self._searching:
                data = await self._bytes(call, tenant, offset=0, limit=BLOB_BYTES)
                return await asyncio.to_thread(_looked_up, data, arguments, _most(state, call, arguments))
        offset, most = _integer(arguments, "offset", 0), _most(state, call, arguments)
        data = await self._bytes(call, tenant, offset=offset, limit=most * _BYTES_PER_CHAR + _BYTES_PER_CHAR)
        total = len(_kept(call)) if not call.blob else call.cut_from_bytes
        return _completed({**page_from(data, offset=offset, total=total, most=most), **_fate(call)})

    async def media(self, part: ResultMedia, tenant: Tenant, *, offset: int, limit: int) -> ResultPart:
        """A piece of what of a result is no text. The store's own errors pass through."""
        data = b""
        if part.blob:
            data = await self._blobs.read(tenant, part.blob, offset=offset, limit=limit) or b""
        kept = part.size if part.blob else 0
        return ResultPart(data=data, total_bytes=part.size, kept_bytes=kept, media_type=part.media_type)

    async def part(self, call: ToolCall, tenant: Tenant, *, offset: int, limit: int) -> ResultPart:
        """A piece of a call's result, or of its error, for people. The store's own errors pass through."""
        if call.blob:
            data = await self._blobs.read(tenant, call.blob, offset=offset, limit=limit) or b""
            kept, kind = call.cut_from_bytes, _TEXT
        else:
            is_error = call.output_json is None
            text = call.error.encode() if is_error else _kept(call)
            data, kept = text[offset : offset + limit], len(text)
            kind = _TEXT if is_error or (call.output_json or "").startswith('"') else _JSON
        total = call.cut_from_bytes or kept
        return ResultPart(data=data, total_bytes=total, kept_bytes=kept, media_type=kind)

    async def _bytes(self, call: ToolCall, tenant: Tenant, *, offset: int, limit: int) -> bytes:
        """So much of a result's text; waits while the store can't be reached."""
        if not call.blob:
            return _kept(call)[offset : offset + limit]
        while True:
            try:
                data = await self._blobs.read(tenant, call.blob, offset=offset, limit=limit)
            except StoreUnavailable:
                await self._clock.sleep(RETRY_MS)
            else:
                return data or b""


def _media_notice(tool: str, parts: Sequence[ResultMedia]) -> Noticed:
    """What is recorded of a result that holds more than text."""
    kept, size = sum(bool(part.blob) for part in parts), sum(part.size for part in parts)
    told = "1 part that is" if len(parts) == 1 else f"{len(parts)} parts that are"
    text = f"the result of {tool} has {told} no text, {size} bytes in all"
    text += "; they are kept outside the log" if kept == len(parts) else f"; {kept} of them are kept"
    return Noticed(code=NoticeCode.RESULT_STORED, text=text)


def _kept(call: ToolCall) -> bytes:
    """What the log itself holds of a result: all of it, or its beginning."""
    return result_tool.text_of(call.output_json or "null").encode()


def _fate(call: ToolCall) -> JsonObject:
    if call.cut_from_bytes and not call.blob:
        return {"note": f"only the beginning of {call.cut_from_bytes} bytes was kept"}
    return {}


def _most(state: RunState, call: ToolCall, arguments: Mapping[str, JsonValue]) -> int:
    page = result_tool.page_chars(state.plan, call)
    return min(_integer(arguments, "limit", page), page)


def _integer(arguments: Mapping[str, JsonValue], name: str, default: int) -> int:
    value = arguments.get(name, default)
    return int(value) if isinstance(value, (int, float)) else default


def _looked_up(data: bytes, arguments: Mapping[str, JsonValue], most: int) -> ToolResult:
    """A page from a line on, or what a search finds. Linear in the data."""
    line = _integer(arguments, "line", 1)
    if "search" not in arguments:
        return _completed(lines_from(data, line=line, most=most))
    wanted, offset = str(arguments["search"]), _integer(arguments, "offset", 0)
    return _completed(matches_from(data, wanted, line=line, offset=offset, most=most))


def _completed(value: JsonObject) -> ToolResult:
    return ToolResult(ending=ToolEnding.COMPLETED, output_json=json_text.write(value))


def _failed(message: str) -> ToolResult:
    return ToolResult(ending=ToolEnding.FAILED, error=message)
