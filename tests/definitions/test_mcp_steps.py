"""What `from` stands for, and what an MCP step takes, does and pins."""

import dataclasses
import json
from pathlib import Path

from jackline_server.core.plan import Effect, McpAction, ModelStep, ToolStep
from jackline_server.runtime import pinned_tools
from jackline_server.runtime.pinned_tools import pins_path, pins_text, read_pins
from jackline_server.runtime.ports.definitions import Compilation, Source
from tests.definitions.workflows import SHELF, Shelves, compile_text, compiler, mcp

READ = SHELF[0]


def agent(done: Compilation) -> ModelStep:
    assert done.plan is not None, done.findings
    step = done.plan.steps["x"]
    assert isinstance(step, ModelStep)
    return step


def tool(done: Compilation, name: str) -> ToolStep:
    assert done.plan is not None, done.findings
    step = done.plan.steps[name]
    assert isinstance(step, ToolStep)
    return step


def test_each_allowed_tool_becomes_a_step_and_an_entry():
    done = compile_text(mcp("from: shelf, allow: [read, list-all, tidy], max_calls: 2"), {})

    assert [(one.ref, one.max_calls) for one in agent(done).tools] == [
        ("read", 2),
        ("list_all", 2),
        ("tidy", 2),
    ]
    assert tool(done, "list_all").action == McpAction(
        connection="shelf", tool="list-all", arguments_json="{}", tool_digest=SHELF[2].digest
    )
    assert json.loads(agent(done).tools[0].parameters_json) == json.loads(READ.input_schema_json)
    assert agent(done).tools[0].description == READ.description


def test_a_trusted_server_is_believed_and_a_stranger_is_not():
    trusted = compile_text(mcp("from: shelf, allow: [read, tidy, write]"), {})
    stranger = compile_text(mcp("from: stranger, allow: [read, tidy, burn]"), {})

    effects = [tool(trusted, name).effect for name in ("read", "tidy", "write")]
    assert effects == [Effect.READ, Effect.IDEMPOTENT, Effect.WRITE]
    assert {tool(stranger, name).effect for name in ("read", "tidy", "burn")} == {Effect.WRITE}


def test_a_step_of_its_own_may_say_what_a_destructive_tool_is():
    step = "y: {kind: mcp, effect: write, connection: shelf, tool: burn}"
    assert tool(compile_text(mcp("ref: y", step), {}), "y").effect is Effect.WRITE


def test_fixed_arguments_are_hidden_and_their_templates_are_asked_for():
    step = 'y: {kind: mcp, effect: read, connection: shelf, tool: read, arguments: {path: "/srv/{{ file }}"}}'
    done = compile_text(mcp("ref: y", step), {})

    assert json.loads(agent(done).tools[0].parameters_json) == {
        "type": "object",
        "properties": {"file": {"type": "string"}},
        "required": ["file"],
    }


def test_a_bound_parameter_is_hidden_from_every_tool_that_has_it():
    done = compile_text(mcp("from: shelf, allow: [read], bind: {path: /input/path}"), {})

    (entry,) = agent(done).tools
    assert json.loads(entry.parameters_json)["properties"] == {}
    assert entry.bind == {"path": "/input/path"}


def test_a_pointer_of_from_is_found_wanting_once_and_where_it_stands():
    first = "from: shelf, allow: [read, tidy], bind: {path: /nowhere}"
    second = "from: stranger, allow: [list-all], bind: {path: /inputs}"
    done = compile_text(mcp(f"{first}}}, {{{second}"), {})

    found = [(one.path, one.line) for one in done.findings if one.code == "pointer_unknown"]
    assert found == [("steps.x.tools[0].bind.path", 5), ("steps.x.tools[1].bind.path", 5)]


def test_the_tools_in_use_are_pinned_and_a_pinned_source_compiles_to_the_same_plan_without_a_server():
    text = mcp("from: shelf, allow: [read]")
    first = compile_text(text, {})
    assert first.catalogs == {"shelf": pinned_tools.version_of({one.name: one for one in SHELF})}
    assert read_pins(first.pins[pins_path("shelf")]) == {"read": READ}

    nobody = Shelves({"read": dataclasses.replace(READ, description="Does something else now.")})
    again = compiler(nobody).compile(Source(yaml=text, files=dict(first.pins), file="refunds.yaml"))

    assert again.catalogs == {}
    assert (again.plan, again.revision) == (first.plan, first.revision)


def test_a_changed_tool_makes_another_revision():
    text = mcp("from: shelf, allow: [read]")
    other = Shelves({"read": dataclasses.replace(READ, description="Does something else now.")})
    changed = compiler(other).compile(Source(yaml=text, files={}, file="refunds.yaml"))

    assert changed.plan is not None
    assert changed.revision != compile_text(text, {}).revision


def test_pins_that_were_tampered_with_pin_nothing():
    text = pins_text({"read": READ}).replace("Does read.", "Does anything.")
    done = compile_text(mcp("from: shelf, allow: [read]"), {pins_path("shelf"): text.encode()})

    (found,) = [one for one in done.findings if one.code == "bad_pins"]
    assert found.file == pins_path("shelf")


def test_a_tool_that_the_operator_does_not_allow_is_not_among_all_tools():
    shelves = Shelves({name: one for name, one in Shelves().tools.items() if name in ("read", "hidden")})
    done = compiler(shelves).compile(Source(yaml=mcp("from: shelf"), files={}, file="refunds.yaml"))

    assert [entry.ref for entry in agent(done).tools] == ["read"]


def test_the_text_of_pins_is_the_same_for_equal_catalogs(tmp_path: Path):
    tools = {one.name: one for one in SHELF}
    text = pins_text(tools)
    assert pins_text(dict(reversed(tools.items()))) == text
    assert read_pins(text) == tools


def test_a_tool_that_runs_as_a_task_alone_is_refused_and_its_pins_say_so():
    study = next(one for one in SHELF if one.needs_task)
    done = compile_text(mcp("from: shelf, allow: [read, study]"), {})

    assert done.plan is None
    assert "tool_needs_task" in {finding.code for finding in done.findings}
    assert read_pins(pins_text({study.name: study})) == {study.name: study}
    assert dataclasses.replace(study, needs_task=False).digest != study.digest
    assert b"needsTask" not in pins_text({READ.name: READ}).encode()
