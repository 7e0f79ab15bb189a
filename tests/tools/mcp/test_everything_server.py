"""The reference server that has all that the older generation of the protocol knows, over stdio."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jackline_server.core import json_text
from jackline_server.core.facts import ToolAsk, ToolReply
from jackline_server.core.plan import Effect, JsonValue
from jackline_server.runtime.pinned_tools import ToolHint
from jackline_server.runtime.ports.tool_reports import ToolReport
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from tests.support.mcp_servers import HELD_SERVER, installed_npm_server
from tests.tools.mcp.remote_server import until
from tests.tools.mcp.scene import NAME, Scene, connection, process, reached

COMPLETED, FAILED, UNCERTAIN = ToolEnding.COMPLETED, ToolEnding.FAILED, ToolEnding.UNCERTAIN
PNG = b"\x89PNG\r\n\x1a\n"


@asynccontextmanager
async def everything(folder: Path) -> AsyncGenerator[Scene]:
    """The server, behind a door that stands open: `folder/pid` is its process."""
    script = await asyncio.to_thread(installed_npm_server, "everything")
    node = ("/usr/bin/env", "node", str(script))
    server = process(sys.executable, "-I", "-S", str(HELD_SERVER), str(folder), *node)
    async with reached(connection(server), folder) as scene:
        await scene.servers.refresh([NAME])
        yield scene


def calls(folder: Path) -> list[str]:
    """The calls that the server was sent."""
    there = folder / "calls"
    return there.read_text("utf-8").splitlines() if there.exists() else []


def words(result: ToolResult) -> str:
    """The text of a result."""
    assert result.ending is COMPLETED, result
    value = json_text.parse(result.output_json or "")
    assert isinstance(value, str)
    return value


def asked(result: ToolResult) -> ToolAsk:
    assert result.ending is ToolEnding.ASKING, result
    assert result.ask is not None
    return result.ask


async def test_what_it_offers_is_what_may_be_asked_of_us(tmp_path: Path) -> None:
    async with everything(tmp_path) as scene:
        catalog = scene.servers.catalog(NAME)
        assert not isinstance(catalog, str), catalog
        assert {"trigger-elicitation-request", "trigger-url-elicitation"} <= catalog.keys()
        assert not {"trigger-sampling-request", "get-roots-list"} & catalog.keys()
        assert catalog["get-sum"].hint is ToolHint.READ
        assert [name for name, tool in catalog.items() if tool.needs_task] == ["simulate-research-query"]
        assert catalog["gzip-file-as-resource"].hint is ToolHint.IDEMPOTENT
        assert catalog["trigger-elicitation-request"].hint is ToolHint.NONE


async def test_structure_comes_as_its_schema_says(tmp_path: Path) -> None:
    async with everything(tmp_path) as scene:
        result = await scene.call("get-structured-content", {"location": "Chicago"})
        assert result.ending is COMPLETED
        assert json_text.parse_object(result.output_json or "").keys() == {
            "temperature",
            "conditions",
            "humidity",
        }


@pytest.mark.parametrize(
    ("tool", "arguments", "type_", "begins"),
    [
        ("get-tiny-image", {}, "image/png", PNG),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}, "image/png", PNG),
        ("get-resource-reference", {"resourceType": "Blob"}, "text/plain", b"Resource 1"),
        (
            "gzip-file-as-resource",
            {"data": "data:,whistles", "outputType": "resource"},
            "application/gzip",
            b"\x1f\x8b",
        ),
    ],
)
async def test_bytes_are_parts_whose_places_are_named(
    tmp_path: Path, tool: str, arguments: dict[str, JsonValue], type_: str, begins: bytes
) -> None:
    async with everything(tmp_path) as scene:
        result = await scene.call(tool, arguments, effect=Effect.WRITE)
        assert "[part 1]" in words(result)
        (part,) = result.media
        assert part.media_type == type_
        assert part.data is not None
        assert part.data.startswith(begins)


async def test_links_are_named_and_text_in_a_resource_is_text(tmp_path: Path) -> None:
    async with everything(tmp_path) as scene:
        links = await scene.call("get-resource-links", {"count": 3})
        assert words(links).count("not followed") == 3
        text = await scene.call("get-resource-reference", {"resourceType": "Text"})
        assert "plaintext" in words(text)
        assert (links.media, text.media) == ((), ())


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_what_it_refuses_was_not_done(tmp_path: Path, effect: Effect) -> None:
    async with everything(tmp_path) as scene:
        wrong = await scene.call("get-structured-content", {"location": "Nowhere"}, effect=effect)
        needs_a_task = await scene.call("simulate-research-query", {"topic": "tea"}, effect=effect)
        assert (wrong.ending, needs_a_task.ending) == (FAILED, FAILED)
        assert (wrong.may_pass, needs_a_task.may_pass) == (False, False)


async def test_an_operation_of_several_steps_is_waited_for(tmp_path: Path) -> None:
    async with everything(tmp_path) as scene:
        heard: list[ToolReport] = []
        steps: dict[str, JsonValue] = {"duration": 0.5, "steps": 3}
        result = await scene.call("trigger-long-running-operation", steps, report=heard.append)
        assert "completed" in words(result)
        assert (heard[0].done, heard[0].total, len(heard)) == (1, 3, 3)


@pytest.mark.parametrize(("effect", "ending"), [(Effect.READ, FAILED), (Effect.WRITE, UNCERTAIN)])
async def test_a_server_that_is_killed_in_a_long_operation_is_started_again_for_the_next(
    tmp_path: Path, effect: Effect, ending: ToolEnding
) -> None:
    async with everything(tmp_path) as scene:
        long: dict[str, JsonValue] = {"duration": 600, "steps": 2}
        call = asyncio.create_task(scene.call("trigger-long-running-operation", long, effect=effect))
        await until(lambda: calls(tmp_path) == ["trigger-long-running-operation"])
        killed = int((tmp_path / "pid").read_text("utf-8"))
        os.kill(killed, signal.SIGKILL)
        result = await call
        assert (result.ending, result.timed_out, result.may_pass) == (ending, False, True)
        assert "3" in words(await scene.call("get-sum", {"a": 1, "b": 2}))
        assert int((tmp_path / "pid").read_text("utf-8")) != killed


@pytest.mark.parametrize(
    ("option", "text", "shown"),
    [
        ("accept", '{"name": "Ann", "integer": 7}', "Name: Ann"),
        ("decline", "", "declined"),
        ("cancel", "", "cancelled"),
    ],
)
async def test_a_form_that_it_wants_filled_in_is_a_question(
    tmp_path: Path, option: str, text: str, shown: str
) -> None:
    async with everything(tmp_path) as scene:
        tool = "trigger-elicitation-request"
        ask = asked(await scene.call(tool, effect=Effect.WRITE))
        assert json_text.parse_object(ask.schema_json)["required"] == ["name"]
        reply = ToolReply(option=option, text=text, state_json=ask.state_json)
        assert shown in words(await scene.call(tool, effect=Effect.WRITE, reply=reply))
    assert calls(tmp_path) == [tool]


PAGE: dict[str, JsonValue] = {"url": "https://x.example/in"}
PAGE_FIRST: dict[str, JsonValue] = {**PAGE, "errorPath": True}


@pytest.mark.parametrize(("option", "shown"), [("accept", "completed"), ("decline", "declined")])
async def test_a_page_that_it_wants_opened_is_a_question(tmp_path: Path, option: str, shown: str) -> None:
    async with everything(tmp_path) as scene:
        ask = asked(await scene.call("trigger-url-elicitation", PAGE, effect=Effect.WRITE))
        assert "https://x.example/in" in ask.text
        reply = ToolReply(option=option, text="", state_json=ask.state_json)
        done = await scene.call("trigger-url-elicitation", PAGE, effect=Effect.WRITE, reply=reply)
        assert shown in words(done)


async def test_a_call_that_is_refused_until_a_page_was_opened_is_made_anew_after_it(tmp_path: Path) -> None:
    async with everything(tmp_path) as scene:
        first = asked(await scene.call("trigger-url-elicitation", PAGE_FIRST, effect=Effect.WRITE))
        assert "modelcontextprotocol.io" in first.text
        assert first.schema_json == ""
        opened = ToolReply(option="accept", text="", state_json=first.state_json)
        second = asked(
            await scene.call("trigger-url-elicitation", PAGE_FIRST, effect=Effect.WRITE, reply=opened)
        )
        assert "https://x.example/in" in second.text
    assert len(calls(tmp_path)) == 2


async def test_a_page_that_nobody_opens_is_the_end_of_a_call_that_did_nothing(tmp_path: Path) -> None:
    async with everything(tmp_path) as scene:
        ask = asked(await scene.call("trigger-url-elicitation", PAGE_FIRST, effect=Effect.WRITE))
        no = ToolReply(option="decline", text="", state_json=ask.state_json)
        done = await scene.call("trigger-url-elicitation", PAGE_FIRST, effect=Effect.WRITE, reply=no)
        assert (done.ending, done.may_pass) == (FAILED, False)
    assert len(calls(tmp_path)) == 1
