"""The page on MCP: its config loads, and its workflow compiles against servers that have its tools."""

import re
from pathlib import Path

from jackline_server.config import load_config
from jackline_server.runtime.ports import Source
from tests.definitions.workflows import Shelves, compiler, described

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
