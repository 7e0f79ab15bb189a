"""The reference server that keeps a graph in a file, killed in its calls: its file says what was done."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline_server.core import json_text
from jackline_server.core.plan import Effect, JsonValue
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from tests.support.mcp_servers import HELD_SERVER, graph, installed_npm_server
from tests.tools.mcp.remote_server import until
from tests.tools.mcp.scene import NAME, Scene, connection, process, reached

COMPLETED, FAILED, UNCERTAIN = ToolEnding.COMPLETED, ToolEnding.FAILED, ToolEnding.UNCERTAIN
KETTLE: dict[str, JsonValue] = {
    "entities": [{"name": "kettle", "entityType": "thing", "observations": ["whistles"]}]
}


@asynccontextmanager
async def memory(folder: Path) -> AsyncGenerator[Scene]:
    """The server behind a door, with its file in the folder."""
    script = await asyncio.to_thread(installed_npm_server, "memory")
    node = ("/usr/bin/env", "node", str(script))
    server = process(
        *(sys.executable, "-I", "-S", str(HELD_SERVER), str(folder), *node),
        MEMORY_FILE_PATH=str(folder / "graph.jsonl"),
    )
    async with reached(connection(server), folder) as scene:
        await scene.servers.refresh([NAME])
        yield scene


def pid(folder: Path) -> int:
    return int((folder / "pid").read_text("utf-8"))


async def killed_in(call: asyncio.Task[ToolResult], folder: Path, *, when: Callable[[], bool]) -> ToolResult:
    """What comes of a call in which the server is killed, once that is so."""
    await until(when)
    os.kill(pid(folder), signal.SIGKILL)
    return await call


async def test_what_it_is_told_is_in_its_file_and_read_again(tmp_path: Path) -> None:
    async with memory(tmp_path) as scene:
        made = await scene.call("create_entities", KETTLE, effect=Effect.WRITE)
        assert made.ending is COMPLETED
        assert graph(tmp_path / "graph.jsonl") == ["kettle"]
        read = json_text.parse_object((await scene.call("read_graph")).output_json or "")
        assert read["entities"] == KETTLE["entities"]


async def test_a_write_whose_answer_was_lost_is_uncertain_and_was_done(tmp_path: Path) -> None:
    async with memory(tmp_path) as scene:
        (tmp_path / "shut").touch()
        call = asyncio.create_task(scene.call("create_entities", KETTLE, effect=Effect.WRITE))
        result = await killed_in(call, tmp_path, when=(tmp_path / "kept").exists)
        assert (result.ending, result.timed_out) == (UNCERTAIN, False)
        assert graph(tmp_path / "graph.jsonl") == ["kettle"]
        assert (tmp_path / "calls").read_text("utf-8").split() == ["create_entities"]


async def test_a_write_that_never_began_is_uncertain_too(tmp_path: Path) -> None:
    """Nobody can tell it from the one that was done."""
    async with memory(tmp_path) as scene:
        os.kill(pid(tmp_path), signal.SIGSTOP)
        call = asyncio.create_task(scene.call("create_entities", KETTLE, effect=Effect.WRITE))
        result = await killed_in(call, tmp_path, when=(tmp_path / "calls").exists)
        assert (result.ending, result.timed_out) == (UNCERTAIN, False)
        assert graph(tmp_path / "graph.jsonl") == []


@pytest.mark.parametrize("effect", [Effect.READ, Effect.IDEMPOTENT])
async def test_a_call_that_may_be_repeated_fails_and_can_be_made_again_at_the_next_server(
    tmp_path: Path, effect: Effect
) -> None:
    async with memory(tmp_path) as scene:
        await scene.call("create_entities", KETTLE, effect=Effect.WRITE)
        (tmp_path / "shut").touch()
        call = asyncio.create_task(scene.call("read_graph", effect=effect))
        before = pid(tmp_path)
        result = await killed_in(call, tmp_path, when=(tmp_path / "kept").exists)
        assert (result.ending, result.may_pass, result.timed_out) == (FAILED, True, False)
        (tmp_path / "shut").unlink()
        again = await scene.call("read_graph", effect=effect)
        assert again.ending is COMPLETED
        assert "kettle" in (again.output_json or "")
        assert pid(tmp_path) != before
