"""Where the tools of a workflow come from, as far as its text says, and what stands in for the rest."""

from dataclasses import replace

import pytest

from jackline_server.definitions.tool_origins import standing_in, tool_origins
from jackline_server.runtime.ports.definitions import Source
from tests.definitions.workflows import Shelves, compiler
from tests.tools.mcp.scene import connection, process

TEXT = """\
name: several
model: fast
flow: [ask, last]
steps:
  ask:
    kind: agent
    tools:
      - {ref: find}
      - {ref: say, bind: {words: /input/text}}
      - {from: till, allow: [Echo], bind: {text: /input/text}}
    answer: text
  last: {kind: agent, tools: [{from: wide}], answer: text}
  unused: {kind: mcp, effect: read, description: None., connection: depot, tool: none}
  say: {kind: mcp, effect: read, description: Says., connection: other, tool: speak, arguments: {loud: true}}
  find: {kind: http, effect: read, description: Finds., connection: orders, path: /orders}
"""
SOURCE = Source(yaml=TEXT, files={}, file="several.yaml")


@pytest.mark.parametrize(
    ("tool", "is_named", "connections"),
    [
        ("find", True, set[str]()),
        ("say", True, {"other"}),
        ("speak", True, {"other"}),
        ("echo", True, {"till"}),
        ("Echo", True, {"till"}),
        ("unused", True, {"depot"}),
        ("anything", False, {"wide"}),
    ],
)
def test_only_the_connections_of_a_tool_have_to_be_known(
    tool: str, *, is_named: bool, connections: set[str]
) -> None:
    found = tool_origins(SOURCE, tool=tool, step_id=None)
    assert found is not None
    assert (found.is_named, found.is_possible, found.connections) == (is_named, True, connections)
    assert found.names == {"find", "say", "speak", "Echo", "unused"}


@pytest.mark.parametrize(
    ("step_id", "tool", "connections"),
    [
        ("ask", None, {"till", "other"}),
        ("ask", "find", set[str]()),
        ("ask", "anything", set[str]()),
        ("last", None, {"wide"}),
        ("unused", None, {"depot"}),
        ("none", None, set[str]()),
    ],
)
def test_of_a_step_only_its_own_tools_count(step_id: str, tool: str | None, connections: set[str]) -> None:
    found = tool_origins(SOURCE, tool=tool, step_id=step_id)
    assert found is not None
    assert found.connections == connections


def test_a_text_that_can_not_be_read_says_nothing() -> None:
    assert tool_origins(replace(SOURCE, yaml="steps: ["), tool="find", step_id=None) is None


@pytest.mark.parametrize("needed", [set[str](), {"depot"}], ids=["none", "one"])
def test_a_workflow_compiles_with_what_stands_in_for_servers_that_nobody_asks(needed: set[str]) -> None:
    connections = {
        name: replace(connection(process("/bin/false")), name=name)
        for name in ("till", "wide", "depot", "other")
    }
    known = Shelves({}, connections=connections)
    part = standing_in(SOURCE, needed)

    done = compiler(known).compile(part)

    errors = {finding.code for finding in done.findings if finding.severity.value == "error"}
    assert errors == ({"tool_unknown"} if needed else set())
    assert set(part.files) == {f"connections/{name}.lock" for name in connections.keys() - needed}


def test_what_is_pinned_beside_a_workflow_stays_as_it_is() -> None:
    pinned = replace(SOURCE, files={"connections/till.lock": b"theirs"})
    assert standing_in(pinned, set()).files["connections/till.lock"] == b"theirs"
