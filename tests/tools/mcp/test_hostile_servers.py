"""A server that dies, babbles, floods or lies costs the call that asked it, and nothing else."""

import asyncio
import os
from pathlib import Path

import pytest

from jackline_server.core import json_text
from jackline_server.core.plan import Effect
from jackline_server.runtime.pinned_tools import pins_text
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.tools import ToolEnding
from jackline_server.tools.pinned_calls import TOOL_CHANGED
from tests.tools.mcp.scene import NAME, hostile

COMPLETED, FAILED, UNCERTAIN = ToolEnding.COMPLETED, ToolEnding.FAILED, ToolEnding.UNCERTAIN


def runs(pid: int) -> bool:
    """False once the process has ended, reaped or not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return False


async def until_gone(pid: int) -> None:
    """Return once no process of that id runs any more."""
    async with asyncio.timeout(10):
        while runs(pid):
            await a_moment()


async def a_moment() -> None:
    """Let the loop look at everything else."""
    await asyncio.get_running_loop().run_in_executor(None, os.sched_yield)


async def test_a_server_that_behaves_answers(tmp_path: Path):
    async with hostile(tmp_path, "plain") as scene:
        result = await scene.call("echo", {"text": "hello"})
        assert (result.ending, result.output_json) == (COMPLETED, '"{\\"text\\": \\"hello\\"}"')
        assert len(scene.noted("started")) == 1


@pytest.mark.parametrize(("effect", "ending"), [(Effect.READ, FAILED), (Effect.WRITE, UNCERTAIN)])
async def test_a_server_that_dies_in_a_call_fails_it_and_is_started_again(
    tmp_path: Path, effect: Effect, ending: ToolEnding
):
    async with hostile(tmp_path, "die_mid_call") as scene:
        for _ in range(2):
            found = await scene.call("charge", effect=effect)
            assert (found.ending, found.timed_out) == (ending, False)
        assert len(scene.noted("started")) == 2
        assert len(scene.noted("called")) == 2


async def test_a_server_that_keeps_dying_is_left_alone(tmp_path: Path):
    async with hostile(tmp_path, "die_mid_call", breaker=Breaker(failures=2)) as scene:
        await scene.servers.refresh([NAME])
        catalog = scene.servers.catalog(NAME)
        assert not isinstance(catalog, str)
        digest = catalog["charge"].digest
        results = [await scene.call("charge", effect=Effect.WRITE, digest=digest) for _ in range(4)]
        assert [result.ending for result in results] == [UNCERTAIN] * 2 + [FAILED] * 2
        assert len(scene.noted("started")) == 2


async def test_a_server_that_keeps_dying_is_started_six_times_a_minute_at_most(tmp_path: Path):
    async with hostile(tmp_path, "die_mid_call", breaker=Breaker(failures=0)) as scene:
        await scene.servers.refresh([NAME])
        catalog = scene.servers.catalog(NAME)
        assert not isinstance(catalog, str)
        results = [
            await scene.call("charge", effect=Effect.WRITE, digest=catalog["charge"].digest) for _ in range(9)
        ]
        assert [result.ending for result in results] == [UNCERTAIN] * 6 + [FAILED] * 3
        assert len(scene.noted("started")) == 6


async def test_a_server_that_dies_at_its_start_is_not_asked_in_a_loop(tmp_path: Path):
    async with hostile(tmp_path, "die_at_start") as scene:
        for _ in range(5):
            assert await scene.servers.refresh([NAME]) == {NAME: None}
        assert len(scene.noted("started")) == 1
        assert isinstance(scene.servers.catalog(NAME), str)
        assert (await scene.call("charge", digest="x", effect=Effect.WRITE)).ending is FAILED


async def test_a_server_that_never_answers_its_start_costs_the_time_for_it_and_is_ended(tmp_path: Path):
    async with hostile(tmp_path, "mute", start_timeout_ms=300) as scene:
        assert await scene.servers.refresh([NAME]) == {NAME: None}
        (pid,) = scene.noted("started")
        await until_gone(pid)


@pytest.mark.parametrize("mode", ["garbage", "twice", "bad_utf8"])
async def test_noise_around_an_answer_changes_nothing(tmp_path: Path, mode: str):
    async with hostile(tmp_path, mode) as scene:
        for _ in range(2):
            assert (await scene.call("echo", {"text": "a"})).ending is COMPLETED
        assert len(scene.noted("started")) == 1


async def test_bytes_that_are_no_text_are_replaced(tmp_path: Path):
    async with hostile(tmp_path, "bad_utf8") as scene:
        result = await scene.call("echo")
        assert json_text.parse(result.output_json or "") == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("tool", "effect", "ending"),
    [("echo", Effect.READ, FAILED), ("charge", Effect.WRITE, UNCERTAIN)],
    ids=["its id first", "its id last"],
)
async def test_a_line_without_end_fails_its_call_and_never_stalls_the_loop(
    tmp_path: Path, tool: str, effect: Effect, ending: ToolEnding
):
    async with hostile(tmp_path, "long_line") as scene:
        await scene.servers.refresh([NAME])
        loop = asyncio.get_running_loop()
        longest, done = 0.0, asyncio.Event()

        async def watch() -> None:
            nonlocal longest
            while not done.is_set():
                before = loop.time()
                await a_moment()
                longest = max(longest, loop.time() - before)

        watching = asyncio.create_task(watch())
        result = await scene.call(tool, effect=effect)
        done.set()
        await watching
        assert result.ending is ending
        assert longest < 0.5
        assert (await scene.call("odd")).ending is COMPLETED
        assert len(scene.noted("started")) == 1


@pytest.mark.parametrize(("effect", "ending"), [(Effect.READ, FAILED), (Effect.WRITE, UNCERTAIN)])
async def test_a_call_without_an_answer_ends_with_its_time_and_the_server_is_told(
    tmp_path: Path, effect: Effect, ending: ToolEnding
):
    async with hostile(tmp_path, "silent_call") as scene:
        assert (await scene.call("echo", effect=effect, timeout_ms=500)).ending is ending
        link = scene.servers.link(NAME)
        assert link is not None
        await link.catalog(max_age_s=0)  # it reads in order: it has read what came before
        assert "notifications/cancelled" in scene.noted("method")


async def test_an_image_of_fifty_megabytes_fails_its_call_and_no_other(tmp_path: Path):
    async with hostile(tmp_path, "huge_image") as scene:
        result = await scene.call("echo")
        assert (result.ending, result.media) == (FAILED, ())
        assert len(result.error) < 1_000
        assert (await scene.call("odd")).ending is COMPLETED
        assert len(scene.noted("started")) == 1


async def test_a_long_line_that_is_no_answer_fails_no_call(tmp_path: Path):
    async with hostile(tmp_path, "long_news") as scene:
        assert (await scene.call("charge", effect=Effect.WRITE)).ending is COMPLETED


async def test_an_answer_to_another_question_is_no_answer(tmp_path: Path):
    async with hostile(tmp_path, "wrong_id") as scene:
        assert (await scene.call("echo", timeout_ms=500)).ending is FAILED
        assert (await scene.call("odd")).ending is COMPLETED


async def test_a_cancelled_call_tells_the_server(tmp_path: Path):
    async with hostile(tmp_path, "silent_call") as scene:
        await scene.servers.refresh([NAME])
        call = asyncio.create_task(scene.call("echo"))
        async with asyncio.timeout(10):
            while not scene.noted("called"):
                await a_moment()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        link = scene.servers.link(NAME)
        assert link is not None
        await link.catalog(max_age_s=0)  # it reads in order: it has read what came before
        assert "notifications/cancelled" in scene.noted("method")


async def test_blocks_become_text_and_no_link_is_followed(tmp_path: Path):
    async with hostile(tmp_path, "plain") as scene:
        result = await scene.call("odd")
        text = json_text.parse(result.output_json or "")
        assert isinstance(text, str)
        lines = text.splitlines()
        assert (lines[0], lines[4]) == ("words", "inner words")
        assert len(lines) == 6
        assert all(line.startswith("[") for line in (lines[1], lines[2], lines[3], lines[5]))


async def test_an_error_of_a_tool_is_kept_short(tmp_path: Path):
    async with hostile(tmp_path, "plain") as scene:
        result = await scene.call("failing", effect=Effect.WRITE)
        assert result.ending is FAILED
        assert len(result.error) < 2_100


async def test_a_refused_call_was_not_made(tmp_path: Path):
    async with hostile(tmp_path, "plain") as scene:
        assert (await scene.call("refusing", effect=Effect.WRITE)).ending is FAILED


@pytest.mark.parametrize(("effect", "ending"), [(Effect.READ, FAILED), (Effect.WRITE, UNCERTAIN)])
async def test_structured_content_has_to_fit_the_tools_own_schema(
    tmp_path: Path, effect: Effect, ending: ToolEnding
):
    async with hostile(tmp_path, "plain") as scene:
        assert (await scene.call("promise", effect=effect)).ending is ending


async def test_a_tool_that_changed_is_not_called(tmp_path: Path):
    async with hostile(tmp_path, "drift") as scene:
        await scene.servers.refresh([NAME])
        before = scene.servers.catalog(NAME)
        assert not isinstance(before, str)
        link = scene.servers.link(NAME)
        assert link is not None
        await link.catalog(max_age_s=0)
        result = await scene.call("echo", digest=before["echo"].digest)
        assert result.ending is FAILED
        assert result.error.startswith(TOOL_CHANGED)
        assert (await scene.call("charge", digest=before["charge"].digest)).ending is COMPLETED
        assert scene.noted("called") == ["charge"]


@pytest.mark.parametrize("mode", ["duplicates", "endless", "circle", "crowd", "wordy"])
async def test_a_list_of_tools_that_is_none_gives_no_catalog(tmp_path: Path, mode: str):
    async with hostile(tmp_path, mode) as scene:
        assert await scene.servers.refresh([NAME]) == {NAME: None}
        assert isinstance(scene.servers.catalog(NAME), str)


async def test_a_list_that_leads_in_a_circle_is_left_at_the_first_page_that_comes_again(tmp_path: Path):
    async with hostile(tmp_path, "circle") as scene:
        await scene.servers.refresh([NAME])
        assert scene.noted("method").count("tools/list") == 2


async def test_a_server_that_lists_its_tools_in_another_order_has_the_same_tools(tmp_path: Path):
    async with hostile(tmp_path, "shuffled") as scene:
        link = scene.servers.link(NAME)
        assert link is not None
        first = await link.catalog(max_age_s=0)
        second = await link.catalog(max_age_s=0)
        assert list(first) == list(second) == sorted(first)
        assert pins_text(first) == pins_text(second)


async def test_a_list_of_several_pages_is_read_whole(tmp_path: Path):
    async with hostile(tmp_path, "pages") as scene:
        await scene.servers.refresh([NAME])
        catalog = scene.servers.catalog(NAME)
        assert sorted(catalog) == ["asking", "charge", "echo", "failing", "odd", "promise", "refusing"]


async def test_what_a_server_started_ends_with_it(tmp_path: Path):
    async with hostile(tmp_path, "stubborn") as scene:
        assert (await scene.call("echo")).ending is COMPLETED
        (pid,), (child,) = scene.noted("started"), scene.noted("child")
    await until_gone(pid)
    await until_gone(child)


async def test_the_caller_decides_the_arguments_below_the_fixed_ones(tmp_path: Path):
    async with hostile(tmp_path, "plain") as scene:
        await scene.call(
            "echo",
            {"text": "chosen", "who": "ann"},
            fixed='{"text": "fixed for {{ who }}", "extra": ["{{ who }}"]}',
            step_input={"text": "given", "unknown": 1},
        )
        assert scene.noted("arguments") == [{"text": "fixed for ann", "extra": ["ann"]}]
