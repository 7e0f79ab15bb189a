"""A server over HTTP that forgets its sessions: a new one is begun, and nothing is done twice."""

import asyncio
from pathlib import Path

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports import ToolEnding
from tests.tools.mcp.remote_server import EMPTY_404, NO_SESSION, NOT_FOUND, remote, until
from tests.tools.mcp.scene import NAME, at, reached

COMPLETED, FAILED = ToolEnding.COMPLETED, ToolEnding.FAILED


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
@pytest.mark.parametrize(
    "unknown", [NOT_FOUND, NO_SESSION, EMPTY_404], ids=["404", "400", "404 without words"]
)
async def test_a_session_that_the_server_forgot_is_renewed_and_the_call_is_made_once(
    tmp_path: Path, effect: Effect, unknown: bytes
) -> None:
    async with remote(unknown) as (port, there), reached(at(port), tmp_path) as scene:
        await scene.servers.refresh([NAME])
        there.forget()
        assert (await scene.call("say", effect=effect)).ending is COMPLETED
        assert (there.sessions, there.calls) == (2, 1)


async def test_a_list_that_is_asked_for_in_a_forgotten_session_is_had_in_a_new_one(tmp_path: Path) -> None:
    async with remote() as (port, there), reached(at(port), tmp_path) as scene:
        link = scene.servers.link(NAME)
        assert link is not None
        await link.catalog(max_age_s=0)
        there.forget()
        assert list(await link.catalog(max_age_s=0)) == ["say"]
        assert there.sessions == 2


async def test_a_server_that_forgets_every_session_is_not_asked_in_a_loop(tmp_path: Path) -> None:
    async with remote() as (port, there), reached(at(port), tmp_path) as scene:
        await scene.servers.refresh([NAME])
        catalog = scene.servers.catalog(NAME)
        assert not isinstance(catalog, str)
        there.forgets_calls = True
        found = await scene.call("say", effect=Effect.WRITE, digest=catalog["say"].digest)
        assert (found.ending, found.may_pass) == (FAILED, True)
        assert there.methods.count("tools/call") == 2
        assert there.calls == 0


async def test_a_server_of_the_older_generation_is_told_to_stop_in_words_and_nobody_waits_on(
    tmp_path: Path,
) -> None:
    async with remote() as (port, there), reached(at(port), tmp_path) as scene:
        await scene.servers.refresh([NAME])
        there.is_silent = True
        found = await scene.call("say", effect=Effect.WRITE, timeout_ms=500)
        assert (found.ending, found.timed_out) == (ToolEnding.UNCERTAIN, True)
        await until(lambda: "notifications/cancelled" in there.methods)


async def test_a_call_over_http_that_is_cancelled_tells_the_server(tmp_path: Path) -> None:
    async with remote() as (port, there), reached(at(port), tmp_path) as scene:
        await scene.servers.refresh([NAME])
        there.is_silent = True
        call = asyncio.create_task(scene.call("say", effect=Effect.WRITE))
        await until(lambda: there.calls == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: "notifications/cancelled" in there.methods)
