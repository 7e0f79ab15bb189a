"""How the connections to MCP servers are closed: one that fails is told of, and holds up no other."""

import asyncio
import logging

import pytest

from jackline_server.tools.mcp.servers import close_all


class Closing:
    """Something that closes as a test says."""

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.error = error
        self.hangs = hangs
        self.closed = False

    async def close(self) -> None:
        if self.error is not None:
            raise self.error
        if self.hangs:
            await asyncio.Event().wait()
        self.closed = True


async def test_what_goes_wrong_in_closing_is_logged_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    links = {"broken": Closing(OSError("no")), "stuck": Closing(hangs=True), "sound": Closing()}
    async with asyncio.timeout(20):
        await close_all(links, most_s=0.05)
    assert links["sound"].closed
    told = {(record.levelno, record.args[0]) for record in caplog.records if isinstance(record.args, tuple)}
    assert told == {(logging.ERROR, "broken"), (logging.WARNING, "stuck")}


async def test_nothing_to_close_is_closed_at_once() -> None:
    await close_all({})
