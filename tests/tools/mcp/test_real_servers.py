"""Servers that others wrote, of both eras of the protocol."""

from pathlib import Path

import pytest

from jackline_server.core import json_text
from jackline_server.core.plan import Effect
from jackline_server.runtime.pinned_tools import ToolHint, pins_text
from jackline_server.runtime.ports.tools import ToolEnding
from tests.support.mcp_servers import beside_python, installed_filesystem_server, repository
from tests.tools.mcp.scene import NAME, Scene, connection, process, reached

COMPLETED, FAILED = ToolEnding.COMPLETED, ToolEnding.FAILED


def hints(scene: Scene) -> dict[str, ToolHint]:
    catalog = scene.servers.catalog(NAME)
    assert not isinstance(catalog, str), catalog
    return {name: tool.hint for name, tool in catalog.items()}


async def test_the_time_server_answers_with_structure(tmp_path: Path):
    async with reached(connection(process(beside_python("mcp-server-time"))), tmp_path) as scene:
        result = await scene.call("get_current_time", {"timezone": "Europe/London"})
        assert result.ending is COMPLETED
        assert json_text.parse_object(result.output_json or "")["timezone"] == "Europe/London"
        wrong = await scene.call("get_current_time", {"timezone": "Nowhere/Never"})
        assert wrong.ending is FAILED
        assert hints(scene)["get_current_time"] is ToolHint.READ


async def test_the_git_server_reads_and_writes(tmp_path: Path):
    there = repository(tmp_path / "repository")
    server = process(beside_python("mcp-server-git"), "--repository", str(there))
    async with reached(connection(server), tmp_path) as scene:
        log = await scene.call("git_log", {"repo_path": str(there)})
        assert log.ending is COMPLETED
        assert "The kettle whistles" in (log.output_json or "")
        made = await scene.call(
            "git_create_branch",
            {"branch_name": "release/1.0"},
            effect=Effect.WRITE,
            bound={"repo_path": str(there)},
        )
        assert made.ending is COMPLETED, made
        assert (there / ".git/refs/heads/release/1.0").exists()
        found = hints(scene)
        assert (found["git_log"], found["git_reset"]) == (ToolHint.READ, ToolHint.DESTRUCTIVE)


async def test_the_file_system_server_stays_in_its_folder(tmp_path: Path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "note.txt").write_text("within")
    (tmp_path / "secret.txt").write_text("without")
    server = process("/usr/bin/env", "node", str(installed_filesystem_server()), str(inside))
    async with reached(connection(server), tmp_path) as scene:
        read = await scene.call("read_text_file", {"path": str(inside / "note.txt")})
        assert (read.ending, json_text.parse(read.output_json or "")) == (COMPLETED, {"content": "within"})
        outside = await scene.call("read_text_file", {"path": str(tmp_path / "secret.txt")})
        assert outside.ending is FAILED
        assert "without" not in outside.error
        written = await scene.call(
            "write_file",
            fixed='{"path": "{{ where }}", "content": "new"}',
            effect=Effect.IDEMPOTENT,
            bound={"where": str(inside / "new.txt")},
        )
        assert written.ending is COMPLETED
        assert (inside / "new.txt").read_text() == "new"


@pytest.mark.parametrize("allowed", [frozenset({"convert_time"}), frozenset[str]()])
async def test_what_the_operator_does_not_allow_is_not_called(tmp_path: Path, allowed: frozenset[str]):
    one = connection(process(beside_python("mcp-server-time")), allow=allowed)
    async with reached(one, tmp_path) as scene:
        result = await scene.call("get_current_time", {"timezone": "Europe/London"}, digest="any")
        assert result.ending is FAILED


async def test_a_lock_file_pins_whatever_the_server_says(tmp_path: Path):
    lock = tmp_path / "time.lock"
    server = process(beside_python("mcp-server-time"))
    async with reached(connection(server, lock=lock), tmp_path) as scene:
        assert await scene.servers.refresh([NAME]) == {NAME: None}
        lock.write_text(await scene.servers.lock_text(NAME), encoding="utf-8")
        assert await scene.servers.refresh([NAME]) != {NAME: None}
        catalog = scene.servers.catalog(NAME)
        assert not isinstance(catalog, str)
        assert lock.read_text("utf-8") == pins_text(catalog)
