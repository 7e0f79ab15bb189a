"""What MCP servers say of how far a call is, whatever they say of it."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.tool_reports import MOST_TEXT, ToolReport
from jackline_server.runtime.ports.tools import ToolEnding
from jackline_server.tools.mcp.lines import TooLong
from jackline_server.tools.mcp.progress import newest_only
from tests.support.mcp_servers import served_over_http
from tests.tools.mcp.scene import HOSTILE, Scene, at, connection, process, reached


@asynccontextmanager
async def telling(folder: Path, steps: str) -> AsyncGenerator[Scene]:
    ledger = folder / "ledger.jsonl"
    command = process(sys.executable, "-I", "-S", str(HOSTILE), "steps", str(ledger), STEPS=steps)
    async with reached(connection(command), ledger) as scene:
        yield scene


async def test_a_server_is_given_a_token_and_what_it_says_under_it_is_that_of_the_call(
    tmp_path: Path,
) -> None:
    heard: list[ToolReport] = []
    async with telling(tmp_path, "plain") as scene:
        done = await scene.call("echo", report=heard.append)
    assert done.ending is ToolEnding.COMPLETED
    assert heard[-1] == ToolReport(text="page 3", done=3, total=3)


@pytest.mark.parametrize("stateless", [True, False], ids=["stateless", "with sessions"])
async def test_a_server_over_http_says_how_far_it_is_on_the_stream_of_the_call(
    tmp_path: Path, *, stateless: bool
) -> None:
    heard: list[ToolReport] = []
    async with served_over_http(stateless=stateless) as (port, _), reached(at(port), tmp_path) as scene:
        done = await scene.call("count", {"to": 3}, report=heard.append)
    assert done.output_json is not None
    assert "counted" in done.output_json
    assert [(one.text, one.done, one.total) for one in heard] == [(f"at {n}", n, 3) for n in (1, 2, 3)]


async def test_a_server_of_2024_says_how_far_it_is(tmp_path: Path) -> None:
    heard: list[ToolReport] = []
    async with served_over_http(old=True) as (port, _), reached(at(port, old=True), tmp_path) as scene:
        await scene.call("count", {"to": 2}, report=heard.append)
    assert [one.done for one in heard] == [1, 2]


async def test_a_call_that_nobody_watches_is_made_all_the_same(tmp_path: Path) -> None:
    async with telling(tmp_path, "plain") as scene:
        assert (await scene.call("echo")).ending is ToolEnding.COMPLETED


async def test_progress_that_is_none_harms_neither_the_call_nor_the_session(tmp_path: Path) -> None:
    heard: list[ToolReport] = []
    async with telling(tmp_path, "odd") as scene:
        for _ in range(2):
            assert (await scene.call("echo", report=heard.append)).ending is ToolEnding.COMPLETED
        assert len(scene.noted("started")) == 1
    assert all(len(one.text) <= MOST_TEXT + 1 for one in heard)
    assert heard[-1] == ToolReport(text="the last", done=3, total=3)


async def test_a_server_that_says_it_in_a_tight_loop_is_read_as_fast_as_it_writes(tmp_path: Path) -> None:
    heard: list[ToolReport] = []
    async with telling(tmp_path, "many") as scene:
        done = await scene.call("echo", report=heard.append)
    assert done.output_json == '"50000"'
    assert heard[-1].done == 50_000
    assert len(heard) < 5_000


def line(token: str, number: int, **more: JsonValue) -> bytes:
    params: JsonValue = {"progressToken": token, "progress": number, **more}
    return json_text.write({"method": "notifications/progress", "params": params}).encode()


ANSWER = json_text.write(
    {"id": 1, "result": {"method": "notifications/progress", "progressToken": "a"}}
).encode()


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([line("a", 1), line("b", 1), line("a", 2), line("b", 2)], [2, 3]),
        ([line("a", 1), ANSWER, line("a", 2)], [1, 2]),
        ([ANSWER, ANSWER], [0, 1]),
        ([line("a", 1), b'{"method":"notifications/message"}', TooLong(b"{"), b""], [0, 1, 2, 3]),
        ([line("a", 1, message='"id": 1'), line("a", 2, message="y")], [1]),
        ([line("a", 1, message="x" * 10_000), line("a", 2)], [0, 1]),
    ],
)
def test_of_one_read_the_newest_progress_of_each_token_is_kept_and_all_else(
    lines: list[bytes | TooLong], kept: list[int]
) -> None:
    assert newest_only(lines) == [lines[index] for index in kept]
