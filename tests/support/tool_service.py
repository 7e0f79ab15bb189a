"""An HTTP service that workflows call as tools, and whose ledger judges what really happened.

Owns the ledger: an entry for each request that came, before anything is answered. A tool can be held, so that
its calls stay in flight until the test lets them go; it can be told to answer with an error.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.web_server import serving


@dataclass(slots=True, kw_only=True)
class Entry:
    """One request. `key` is its Idempotency-Key; `answered` is false while it is held or was cut off."""

    tool: str
    key: str
    method: str
    body: Any
    at: float
    answered: bool = False


@dataclass(slots=True)
class ToolService:
    """A running service: `/NAME` is the tool NAME, whatever the method."""

    entries: list[Entry] = field(default_factory=list[Entry])
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a tool answers, by name; otherwise an object that names it."""
    statuses: dict[str, int] = field(default_factory=dict[str, int])
    port: int = 0
    _held: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def base_url(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    def of(self, tool: str) -> list[Entry]:
        """The requests that a tool got."""
        return [entry for entry in self.entries if entry.tool == tool]

    def once(self, tool: str) -> set[str]:
        """What a tool counts that knows idempotency keys: each key once."""
        return {entry.key for entry in self.of(tool)}

    def hold(self, tool: str) -> None:
        """Leave the tool's requests unanswered until `release`."""
        self._held.setdefault(tool, asyncio.Event())

    def release(self, tool: str) -> None:
        """Answer what is held, and what comes."""
        held = self._held.pop(tool, None)
        if held is not None:
            held.set()

    async def arrived(self, tool: str, count: int = 1) -> list[Entry]:
        """Wait until the tool got that many requests."""
        async with self._changed, asyncio.timeout(30):
            await self._changed.wait_for(lambda: len(self.of(tool)) >= count)
        return self.of(tool)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Note one request, then answer it."""
        tool = request.match_info["tool"]
        data = await request.read()
        entry = Entry(
            tool=tool,
            key=request.headers.get("idempotency-key", ""),
            method=request.method,
            body=json.loads(data) if data else None,
            at=time.monotonic(),
        )
        async with self._changed:
            self.entries.append(entry)
            self._changed.notify_all()
        if tool in self._held:
            await self._held[tool].wait()
        entry.answered = True
        return web.json_response(self.answers.get(tool, {"tool": tool}), status=self.statuses.get(tool, 200))


@asynccontextmanager
async def tools_served() -> AsyncGenerator[ToolService]:
    """Serve on loopback for as long as the block runs."""
    service = ToolService()
    app = web.Application()
    app.router.add_route("*", "/{tool}", service.handle)
    async with serving(app) as service.port:
        yield service
