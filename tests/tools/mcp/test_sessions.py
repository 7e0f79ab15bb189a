"""The life of a session: whose task it is, what it is told, and that a forgotten one is begun anew."""

import asyncio
from pathlib import Path

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.tools import ToolEnding
from tests.tools.mcp.remote_server import EMPTY_404, NO_SESSION, NOT_FOUND, remote, until
from tests.tools.mcp.scene import NAME, Scene, at, hostile, reached

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


async def test_a_session_that_one_task_began_is_used_by_others_and_closed_by_another(tmp_path: Path) -> None:
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    async with hostile(tmp_path, "plain") as scene:
        digest = await asyncio.create_task(_digest_of_echo(scene))
        calls = [asyncio.create_task(scene.call("echo", digest=digest)) for _ in range(2)]
        assert [(await call).ending for call in calls] == [COMPLETED] * 2
        bystander = asyncio.create_task(asyncio.Event().wait())
        link = scene.servers.link(NAME)
        assert link is not None
        await asyncio.create_task(link.close())
        assert not bystander.done()
        bystander.cancel()
        (pid,) = scene.noted("started")
        await until(lambda: not Path(f"/proc/{pid}").exists())
    assert said == []


async def test_news_of_a_changed_list_are_taken_and_the_list_is_read_with_the_next_call(
    tmp_path: Path,
) -> None:
    async with hostile(tmp_path, "announces") as scene:
        digest = await _digest_of_echo(scene)
        for listed in (1, 2):
            assert (await scene.call("echo", digest=digest)).ending is COMPLETED
            assert scene.noted("method").count("tools/list") == listed


async def _digest_of_echo(scene: Scene) -> str:
    await scene.servers.refresh([NAME])
    catalog = scene.servers.catalog(NAME)
    assert not isinstance(catalog, str), catalog
    return catalog["echo"].digest
