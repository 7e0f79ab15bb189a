"""The page on MCP: its config loads, and its workflow compiles against servers that have its tools."""

import re
import sys
from pathlib import Path

import pytest

from jackline_server.config import load_config
from jackline_server.core import json_text
from jackline_server.core.facts import ToolReply
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.tools import ToolEnding
from tests.definitions.workflows import Shelves, compiler, described
from tests.tools.mcp.scene import NAME, connection, process, reached

PAGE = (Path(__file__).parents[2] / "docs" / "mcp.md").read_text("utf-8")
TAKES = '{"type":"object","properties":{"customer":{},"channel":{},"text":{}}}'


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


def test_its_config_loads_and_its_workflow_compiles(tmp_path: Path) -> None:
    file = tmp_path / "jackline.toml"
    file.write_text(block("toml"), encoding="utf-8")
    connections = load_config(file=file, environ={"RECORDS_TOKEN": "r", "TICKETS_TOKEN": "t"}).mcp_connections
    tools = {
        name: described(name, annotations='{"readOnlyHint":true}', schema=TAKES)
        for name in ("lookup_invoice", "lookup_subscription", "post_message")
    }
    known = Shelves(tools, connections=connections)

    done = compiler(known).compile(Source(yaml=block("yaml"), files={}, file="support.yaml"))

    assert done.plan is not None, done.findings
    assert sorted(done.plan.steps) == ["look", "lookup_invoice", "lookup_subscription", "tell"]


def test_its_table_names_every_key() -> None:
    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))))
    source = Path(load_config.__code__.co_filename).with_name("mcp_connections.py").read_text("utf-8")
    keys = set(re.findall(r'table\.(?:text|texts|path|span|integer|boolean|table|command)\("(\w+)"', source))
    assert keys | {"url", "headers", "env", "calls_per_minute", "breaker"} == documented


@pytest.mark.parametrize(
    ("option", "ending", "told"),
    [
        ("accept", ToolEnding.COMPLETED, "Ann stays in room 7 for 2 nights"),
        ("decline", ToolEnding.FAILED, "declin"),
    ],
)
async def test_its_server_that_asks_gets_the_answer_that_its_command_gives(
    tmp_path: Path, option: str, ending: ToolEnding, told: str
) -> None:
    program = tmp_path / "hotel.py"
    program.write_text(block("python"), encoding="utf-8")
    (given,) = re.findall(r"^jackline answer RUN INTERRUPT accept --text '(.*)'$", PAGE, re.MULTILINE)
    async with reached(connection(process(sys.executable, str(program))), tmp_path) as scene:
        asking = await scene.call("book", {"room": "7"}, effect=Effect.WRITE)
        assert asking.ask is not None, asking
        assert "Who stays in room 7?" in asking.ask.text
        assert json_text.parse_object(asking.ask.schema_json)["required"] == ["name", "nights"]
        catalog = scene.servers.catalog(NAME)
        assert not isinstance(catalog, str)
        assert json_text.parse_object(catalog["book"].input_schema_json)["required"] == ["room"]
        said = given if option == "accept" else ""
        reply = ToolReply(option=option, text=said, state_json=asking.ask.state_json)
        done = await scene.call("book", {"room": "7"}, effect=Effect.WRITE, reply=reply)
    assert done.ending is ending
    assert told in (done.output_json or done.error)
