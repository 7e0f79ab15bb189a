"""`jackline tools test` and `jackline tools lock`: tools as a model sees them, one call, and their pins."""

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jackline_server.runtime.pinned_tools import BadPins, read_pins
from tests.cli.projects import WORKFLOW, Project
from tests.support.tool_service import tools_served
from tests.tools.grpc.scene import PROTO, odd

ORDERS = """\
name: orders
model: fast
flow: [ask]
steps:
  ask:
    kind: agent
    tools: [{ref: refund, bind: {shop: /input/shop}}]
    answer: text
    routes: {error: end}
  refund:
    kind: http
    description: Refunds an order.
    effect: write
    connection: orders
    method: POST
    path: /refunds
    body: {order: "{{ order }}", shop: "{{ shop }}"}
"""
STATEMENT = """\
name: orders
model: fast
flow: [ask]
steps:
  ask: {kind: agent, tools: [{ref: find}], answer: text, routes: {error: end}}
  find:
    kind: sql
    description: Finds orders.
    connection: shop
    statement: SELECT id FROM orders WHERE id >= {{ least }}
"""
METHOD = """\
name: payer
model: fast
flow: [ask]
steps:
  ask: {kind: agent, tools: [{ref: order}], answer: text, routes: {error: end}}
  order: {kind: grpc, effect: read, description: Reads one., connection: till, method: till.v1.Till/GetOrder}
"""
LOCK = "flows/connections/till.lock"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(folder=tmp_path)
    project.write("flows/payer.yaml", WORKFLOW)
    project.config(project.till(more="trusted = true\n"))
    return project


async def tools(project: Project, *words: str) -> tuple[int, Any]:
    done = await project.run("tools", *words, "--config", "jackline.toml", "-o", "json")
    assert done.out, done.err
    return done.code, json.loads(done.out)


# --- test --------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("test",), ("lock", "--all")])
async def test_without_a_config_it_says_how_to_name_one(project: Project, words: tuple[str, ...]):
    without = await project.run("tools", *words)
    by_variable = await project.run("tools", *words, JACKLINE_CONFIG="jackline.toml")

    assert "--config" in without.err
    assert "--config" not in by_variable.err


async def test_without_a_tool_it_shows_what_a_model_would_see(project: Project):
    code, groups = await tools(project, "test")
    assert code == 0
    connection, workflow = groups
    assert connection["of"] == "connection till"
    assert {tool["name"]: tool["effect"] for tool in connection["tools"]}["echo"] == "read"
    assert {tool["name"]: tool["effect"] for tool in connection["tools"]}["charge"] == "write"
    echo, _ = workflow["tools"]
    assert workflow["of"] == "workflow flows/payer.yaml"
    assert (echo["name"], echo["description"], echo["bound"]) == ("echo", "Says it again.", ["text"])
    assert echo["parameters"]["properties"] == {}
    assert echo["from"] == "mcp till: echo"


async def test_the_list_for_people_names_effect_source_and_pin(project: Project):
    done = await project.run("tools", "test", "--config", "jackline.toml", "--connection", "till")
    assert done.code == 0, done.err
    for words in ("echo  [read]", "Says it again.", "from mcp till: echo; not pinned", '"text"'):
        assert words in done.out


async def test_a_read_only_tool_is_called_once_and_its_result_shown(project: Project):
    code, result = await tools(project, "test", "--connection", "till", "echo", "--args", '{"text": "hi"}')
    assert (code, result["status"]) == (0, "completed")
    assert result["output"] is not None
    assert result["duration_ms"] >= 0
    assert project.calls() == [{"text": "hi"}]


async def test_what_is_printed_of_a_call_is_the_very_text_that_a_model_is_told(tmp_path: Path):
    project = Project(folder=tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.executemany("INSERT INTO orders VALUES (?)", [(one,) for one in range(200)])
    project.write("orders.yaml", f"{STATEMENT}    result_chars: 100\n    effect: read\n")
    project.config("[data_sources.shop]\nfile = 'shop.db'\n")
    words = ("test", "--workflow", "orders.yaml", "find", "--args")

    code, done = await tools(project, *words, '{"least": "0"}')
    head, mark, tail = done["seen_by_model"].split("\n")
    whole = json.dumps(done["output"], separators=(",", ":"))
    assert (code, head, tail) == (0, whole[:40], whole[-60:])
    assert mark.startswith("[cut: ")
    assert '{"result":"result-1","offset":40}' in mark
    assert len(done["notes"]) == 1

    plain = await project.run("tools", *words, '{"least": "0"}', "--config", "jackline.toml")
    assert done["seen_by_model"] in plain.out
    _, few = await tools(project, *words, '{"least": "199"}')
    assert (few["seen_by_model"], few["notes"]) == ('{"rows":[{"id":199}]}', [])


async def test_a_tool_that_may_change_something_needs_a_yes(project: Project):
    words = ("tools", "test", "--config", "jackline.toml", "charge", "--args", '{"text": "5"}')
    refused = await project.run(*words)
    assert (refused.code, project.calls()) == (2, [])
    done = await project.run(*words, "--yes")
    assert (done.code, project.calls()) == (0, [{"text": "5"}]), done.err


async def test_a_tool_that_fails_ends_with_one(project: Project):
    code, result = await tools(project, "test", "--connection", "till", "failing", "--yes")
    assert (code, result["status"]) == (1, "failed")
    assert result["seen_by_model"] == f"Error: {result['error']}"


async def test_an_http_tool_of_a_workflow_takes_its_bound_values_from_the_arguments(project: Project):
    async with tools_served() as service:
        project.config(f'[connections.orders]\nkind = "http"\nbase_url = "{service.base_url}"\n')
        project.write("orders.yaml", ORDERS)
        words = ("test", "--workflow", "orders.yaml", "--step", "ask")
        code, (listed,) = await tools(project, *words)
        (refund,) = listed["tools"]
        assert (code, refund["effect"], refund["bound"]) == (0, "write", ["shop"])
        assert list(refund["parameters"]["properties"]) == ["order"]
        code, result = await tools(
            project, *words, "refund", "--yes", "--args", '{"order": "A-1", "shop": "eu"}'
        )
        assert (code, result["output"]) == (0, {"tool": "refunds"})
        assert [entry.body for entry in service.entries] == [{"order": "A-1", "shop": "eu"}]


async def test_the_methods_of_a_grpc_service_are_shown_locked_and_called(project: Project):
    async def order(request: bytes, _: object) -> bytes:
        return request

    async with odd({"GetOrder": order}) as service:
        project.write("flows/payer.yaml", METHOD)
        head = f'[connections.till]\nkind = "grpc"\ntarget = "{service.address}"\ntrusted = true\n'
        project.config(head + 'lock = "till.lock"\n')
        code, _ = await tools(project, "lock", "till")
        assert code == 0
        code, groups = await tools(project, "test", "--connection", "till")
        shown = {tool["name"]: tool for tool in groups[0]["tools"]}
        assert shown["till.v1.Till/GetOrder"]["effect"] == "read"
        assert shown["till.v1.Till/GetOrder"]["pin"].startswith("pinned in")
        assert "streams" in shown["till.v1.Till/Watch"]["refusal"]
        assert "holds itself" in shown["till.v1.Till/Plant"]["refusal"]
        code, done = await tools(
            project, "test", "order", "--workflow", "flows/payer.yaml", "--args", '{"order_id": "7"}'
        )
        assert (code, done["output"]["order_id"]) == (0, "7")
    changed = PROTO.read_text("utf-8").replace("int64 total_cents = 2;", "string total_cents = 2;")
    async with odd({"GetOrder": order}, proto=changed) as service:
        project.config(
            f'[connections.till]\nkind = "grpc"\ntarget = "{service.address}"\nlock = "till.lock"\n'
        )
        code, (found,) = await tools(project, "lock", "till", "--check")
        assert (code, "till.v1.Till/GetOrder" in found["changed"]) == (1, True)
        code, done = await tools(
            project, "test", "order", "--workflow", "flows/payer.yaml", "--args", '{"order_id": "7"}'
        )
        assert (code, done["error"].partition(":")[0]) == (1, "tool_changed")
        assert service.calls == []


async def test_a_statement_of_a_workflow_is_shown_and_run_like_any_tool(project: Project):
    with closing(sqlite3.connect(project.folder / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
        connection.execute("INSERT INTO orders VALUES (7)")
        connection.commit()
    project.write("orders.yaml", STATEMENT)
    project.config('[data_sources.shop]\nfile = "shop.db"\n')
    code, (group,) = await tools(project, "test", "--workflow", "orders.yaml")
    assert (code, group["tools"][0]["from"], group["tools"][0]["effect"]) == (0, "sql shop", "read")
    assert list(group["tools"][0]["parameters"]["properties"]) == ["least"]
    code, done = await tools(project, "test", "find", "--workflow", "orders.yaml", "--args", '{"least": "5"}')
    assert (code, done["output"]) == (0, {"rows": [{"id": 7}]})


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("test", "bogus"), 2),
        (("test", "echo", "--args", "no json"), 2),
        (("test", "echo", "--args", "[]"), 2),
        (("test", "--connection", "tilll"), 2),
        (("test", "--connection", "till", "--workflow", "flows/payer.yaml"), 2),
        (("test", "--step", "pay"), 2),
        (("test", "--workflow", "missing.yaml"), 65),
        (("test", "--workflow", "flows/payer.yaml", "--step", "none"), 65),
        (("lock",), 2),
        (("lock", "till", "--all"), 2),
        (("lock", "tilll"), 2),
    ],
    ids=str,
)
async def test_what_can_not_be_done_is_refused_before_anything_is_called(
    project: Project, words: tuple[str, ...], code: int
):
    done = await project.run("tools", *words, "--config", "jackline.toml")
    assert (done.code, project.calls()) == (code, []), done.err
    assert done.err.startswith(("jackline tools", "Usage"))


WHERE_RUNS_ARE = """\
name: parent
model: fast
flow: [ask]
steps:
  ask: {kind: agent, tools: [{ref: child}, {ref: track}], answer: text, routes: {error: end}}
  child: {kind: workflow, description: Runs another., workflow: payer}
  track:
    kind: worker
    effect: read
    description: Tracks one.
    connection: depot
    tool: track
    parameters: {type: object, properties: {}}
"""


@pytest.mark.parametrize(
    "words",
    [
        ("child", "--workflow", "parent.yaml"),
        ("track", "--workflow", "parent.yaml"),
        ("--connection", "depot"),
    ],
    ids=str,
)
async def test_what_only_a_server_can_call_is_refused_at_once(project: Project, words: tuple[str, ...]):
    project.write("parent.yaml", WHERE_RUNS_ARE)
    project.config('[connections.depot]\nkind = "worker"\n')
    done = await project.run("tools", "test", *words, "--yes", "--config", "jackline.toml")
    assert (done.code, "server" in done.err) == (2, True), done.err


async def test_a_name_that_stands_for_different_tools_is_refused_until_a_workflow_is_named(project: Project):
    async with tools_served() as service:
        project.config(f'[connections.orders]\nkind = "http"\nbase_url = "{service.base_url}"\n')
        (project.folder / "flows/payer.yaml").unlink()
        one = ORDERS.replace("name: orders", "name: a")
        project.write("flows/a.yaml", one.replace("effect: write", "effect: read"))
        project.write("flows/b.yaml", ORDERS.replace("name: orders", "name: b"))
        words = (
            "tools",
            "test",
            "refund",
            "--config",
            "jackline.toml",
            "--args",
            '{"order": "A-1", "shop": "eu"}',
        )
        refused = await project.run(*words, "--yes")
        assert (refused.code, service.entries) == (2, [])
        assert "flows/a.yaml" in refused.err
        assert "flows/b.yaml" in refused.err
        project.write("flows/a.yaml", one.replace("/refunds", "/others"))
        assert (await project.run(*words, "--yes")).code == 2
        project.write("flows/a.yaml", one.replace("{{ shop }}", "{{ shop }}!"))
        assert (await project.run(*words, "--yes")).code == 2
        assert service.entries == []
        named = await project.run(*words, "--yes", "--workflow", "flows/a.yaml")
        assert (named.code, len(service.entries)) == (0, 1), named.err


async def test_a_name_that_stands_for_the_same_tool_in_two_workflows_is_called(project: Project):
    async with tools_served() as service:
        project.config(f'[connections.orders]\nkind = "http"\nbase_url = "{service.base_url}"\n')
        (project.folder / "flows/payer.yaml").unlink()
        for name in ("a", "b"):
            project.write(f"flows/{name}.yaml", ORDERS.replace("name: orders", f"name: {name}"))
        words = ("test", "refund", "--yes", "--args", '{"order": "A-1", "shop": "eu"}')
        code, result = await tools(project, *words)
        assert (code, result["status"], len(service.entries)) == (0, "completed", 1)


async def test_a_server_that_is_down_leaves_the_tools_of_the_others(project: Project):
    project.config(
        project.till() + '[connections.down]\nkind = "mcp"\ntransport = "stdio"\ncommand = ["/bin/false"]\n'
    )
    code, groups = await tools(project, "test")
    assert code == 69
    assert {group["of"]: bool(group["tools"]) for group in groups} == {
        "connection till": True,
        "connection down": False,
        "workflow flows/payer.yaml": True,
    }


MIXED = """\
name: mixed
model: fast
flow: [ask, last]
steps:
  ask:
    kind: agent
    tools:
      - {ref: find}
      - {ref: say, bind: {text: /input/text}}
      - {from: till, allow: [echo], bind: {text: /input/text}}
    answer: text
    routes: {error: end}
  last: {kind: agent, tools: [{from: other}], answer: text, routes: {error: end}}
  say: {kind: mcp, effect: read, description: Says., connection: other, tool: speak, arguments: {loud: true}}
  find:
    kind: sql
    effect: read
    description: Finds orders.
    connection: shop
    statement: SELECT id FROM orders WHERE id >= {{ least }}
"""


def other(project: Project, *, more: str = "") -> str:
    """A connection to a server that is no server, and leaves a file if it is started."""
    command = [sys.executable, "-c", f"open({str(project.folder / 'started')!r}, 'w')"]
    return f'[connections.other]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n{more}'


def was_started(project: Project) -> bool:
    return (project.folder / "started").exists()


@pytest.fixture
def mixed(tmp_path: Path) -> Project:
    """A workflow with a statement, a tool of a server that answers, and more of one that does not."""
    project = Project(folder=tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    project.write("flows/mixed.yaml", MIXED)
    project.config(
        '[data_sources.shop]\nfile = "shop.db"\n' + project.till(more="trusted = true\n") + other(project)
    )
    return project


@pytest.mark.parametrize("where", [(), ("--workflow", "flows/mixed.yaml")], ids=["anywhere", "there"])
@pytest.mark.parametrize(
    ("tool", "arguments", "asks_till"), [("find", '{"least": "0"}', False), ("echo", '{"text": "hi"}', True)]
)
async def test_a_tool_is_called_without_the_servers_that_it_does_not_come_from(
    mixed: Project, where: tuple[str, ...], tool: str, arguments: str, *, asks_till: bool
):
    code, done = await tools(mixed, "test", tool, *where, "--args", arguments)
    assert (code, done["status"]) == (0, "completed")
    assert (was_started(mixed), (mixed.folder / "ledger.jsonl").exists()) == (False, asks_till)


async def test_a_tool_of_the_server_that_is_down_says_why_it_can_not_be_had(mixed: Project):
    done = await mixed.run("tools", "test", "say", "--config", "jackline.toml")
    assert (done.code, was_started(mixed)) == (65, True)
    assert "mcp_unavailable" in done.err


async def test_the_tools_of_a_step_are_shown_without_the_servers_of_the_others(mixed: Project):
    mixed.write("flows/mixed.yaml", MIXED.replace("      - {ref: say, bind: {text: /input/text}}\n", ""))
    code, (group,) = await tools(mixed, "test", "--workflow", "flows/mixed.yaml", "--step", "ask")
    assert (code, [one["name"] for one in group["tools"]]) == (0, ["find", "echo"])
    assert not was_started(mixed)


async def test_a_tool_that_only_a_server_can_know_of_is_looked_for_at_each_that_may_have_it(project: Project):
    (project.folder / "flows/payer.yaml").unlink()
    project.config(project.till(more="trusted = true\n") + other(project, more='allow = ["else"]\n'))
    words = ("test", "echo", "--args", '{"text": "hi"}')
    assert ((await tools(project, *words))[0], was_started(project)) == (0, False)
    project.config(project.till(more="trusted = true\n") + other(project))
    assert ((await tools(project, *words))[0], was_started(project)) == (0, True)


async def test_a_server_whose_lock_file_has_no_such_tool_is_not_asked_for_it(project: Project):
    (project.folder / "flows/payer.yaml").unlink()
    project.config(project.till(more='trusted = true\nlock = "till.lock"\n'))
    await tools(project, "lock", "till")
    (project.folder / "ledger.jsonl").unlink()
    for tool, code, is_asked in (("bogus", 2, False), ("echo", 0, True)):
        words = ("tools", "test", tool, "--args", '{"text": "hi"}', "--config", "jackline.toml")
        assert (await project.run(*words)).code == code
        assert (project.folder / "ledger.jsonl").exists() == is_asked


@pytest.mark.parametrize("where", [(), ("--workflow", "flows/payer.yaml")], ids=["anywhere", "there"])
async def test_a_name_that_is_nearly_one_is_met_with_that_one_and_nobody_is_asked(
    project: Project, where: tuple[str, ...]
):
    project.config(project.till(more='allow = ["echo", "charge"]\n'))
    done = await project.run("tools", "test", "chagre", *where, "--config", "jackline.toml")
    assert (done.code, "`charge`" in done.err) == (2, True), done.err
    assert not (project.folder / "ledger.jsonl").exists()


BY_FLOW = """\
name: by_flow
model: fast
flow: [find, refund, fetch, speak, who]
steps:
  find:
    kind: sql
    connection: shop
    statement: SELECT id FROM orders WHERE id >= {{ least }}
    input: {least: /input/least}
  refund:
    kind: http
    connection: orders
    method: POST
    path: /refunds
    body: {order: "{{ order }}"}
    input: {order: /input/order}
  fetch: {kind: grpc, effect: read, connection: till_grpc, method: till.v1.Till/GetOrder}
  speak: {kind: mcp, effect: read, connection: till, tool: echo}
  track: {kind: worker, connection: depot, tool: track}
  who: {kind: human, question: Who?, options: [me, you], routes: {me: end, you: end}}
"""
AWAY = """\
name: away
model: fast
flow: [track]
steps:
  track: {kind: worker, connection: depot, tool: track}
"""


@pytest.mark.parametrize("where", [(), ("--workflow", "flows/by_flow.yaml")], ids=["anywhere", "there"])
async def test_a_step_of_the_flow_is_called_by_its_name_whatever_other_steps_and_files_need(
    project: Project, where: tuple[str, ...]
):
    async def order(request: bytes, _: object) -> bytes:
        return request

    (project.folder / "flows/payer.yaml").unlink()
    project.write("flows/by_flow.yaml", BY_FLOW)
    project.write("flows/away.yaml", AWAY)
    with closing(sqlite3.connect(project.folder / "shop.db")) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    async with tools_served() as service, odd({"GetOrder": order}) as methods:
        project.config(
            project.till(more="trusted = true\n")
            + '[data_sources.shop]\nfile = "shop.db"\n[connections.depot]\nkind = "worker"\n'
            + f'[connections.orders]\nkind = "http"\nbase_url = "{service.base_url}"\n'
            + f'[connections.till_grpc]\nkind = "grpc"\ntarget = "{methods.address}"\n'
        )
        for tool, arguments in (
            ("find", {"least": "0"}),
            ("refund", {"order": "A-1"}),
            ("fetch", {"order_id": "7"}),
            ("speak", {"text": "hi"}),
        ):
            code, done = await tools(project, "test", tool, *where, "--yes", "--args", json.dumps(arguments))
            assert (code, done["status"]) == (0, "completed"), (tool, done)
        assert [entry.body for entry in service.entries] == [{"order": "A-1"}]
    assert project.calls() == [{"text": "hi"}]
    person = await project.run("tools", "test", "who", *where, "--yes", "--config", "jackline.toml")
    assert (person.code, "server" in person.err) == (2, True), person.err


@pytest.mark.parametrize("where", [(), ("--workflow", "flows/by_flow.yaml")], ids=["anywhere", "there"])
async def test_a_name_that_is_none_is_met_with_those_that_there_are(project: Project, where: tuple[str, ...]):
    project.write("flows/by_flow.yaml", BY_FLOW)
    project.config(project.till(more='allow = ["echo"]\n'))
    done = await project.run("tools", "test", "xyzzy", *where, "--config", "jackline.toml")
    assert done.code == 2, done.err
    assert all(name in done.err for name in ("find", "refund", "fetch", "speak", "track"))
    assert not (project.folder / "ledger.jsonl").exists()


# --- lock --------------------------------------------------------------------------------------


async def test_lock_writes_beside_the_workflows_and_check_sees_each_change(project: Project):
    missing = await project.run("tools", "lock", "till", "--config", "jackline.toml", "--check")
    assert (missing.code, (project.folder / LOCK).exists()) == (1, False)

    code, (written,) = await tools(project, "lock", "till")
    assert (code, written["path"]) == (0, LOCK)
    text = (project.folder / LOCK).read_text("utf-8")
    assert {"echo", "charge"} < set(read_pins(text))

    code, (current,) = await tools(project, "lock", "--all", "--check")
    assert (code, current["up_to_date"]) == (0, True)

    pinned = json.loads(text)
    pinned["tools"].pop("charge")
    (project.folder / LOCK).write_text(json.dumps(pinned), "utf-8")
    code, (drifted,) = await tools(project, "lock", "--all", "--check")
    assert (code, drifted["added"], drifted["changed"]) == (1, ["charge"], [])

    done = await project.run("tools", "lock", "--all", "--config", "jackline.toml")
    assert (done.code, "+ charge: Charges." in done.out) == (0, True)
    assert (project.folder / LOCK).read_text("utf-8") == text
    assert list((project.folder / "flows/connections").iterdir()) == [project.folder / LOCK]


async def test_a_changed_tool_is_shown_line_by_line(project: Project):
    more = 'trusted = true\nlock = "pins/till.lock"\n'
    project.config(project.till(more=more))
    await tools(project, "lock", "till")
    before = (project.folder / "pins/till.lock").read_bytes()
    project.config(project.till("drift", more=more))
    code, (drifted,) = await tools(project, "lock", "till", "--check")
    assert (code, drifted["changed"]) == (1, ["echo"])
    assert (project.folder / "pins/till.lock").read_bytes() == before
    done = await project.run("tools", "lock", "till", "--config", "jackline.toml")
    shown = [line.strip() for line in done.out.splitlines()]
    assert (done.code, "~ echo" in shown) == (0, True)
    assert '- "description": "Says it again.",' in [" ".join(line.split()) for line in shown]


async def test_only_the_tools_that_the_operator_allows_are_pinned(project: Project):
    project.config(project.till(more='allow = ["echo"]\nlock = "till.lock"\n'))
    code, _ = await tools(project, "lock", "--all")
    assert code == 0
    assert list(read_pins((project.folder / "till.lock").read_bytes())) == ["echo"]


async def test_a_server_that_is_down_writes_nothing(project: Project):
    project.config(project.till("die_at_start"))
    done = await project.run("tools", "lock", "till", "--config", "jackline.toml")
    assert (done.code, (project.folder / LOCK).exists()) == (69, False)


async def test_a_connection_that_nothing_gives_a_place_to_is_refused_by_name_and_skipped_by_all(
    project: Project,
):
    (project.folder / "flows/payer.yaml").unlink()
    named = await project.run("tools", "lock", "till", "--config", "jackline.toml")
    assert named.code == 65
    every = await project.run("tools", "lock", "--all", "--config", "jackline.toml")
    assert (every.code, "skipped: till" in every.out) == (0, True)


@pytest.mark.parametrize(
    "tool", [{}, {"description": "d", "inputSchema": {}, "annotations": {}, "digest": "x"}]
)
def test_what_is_said_of_a_bad_lock_file_is_short_whatever_is_in_it(tool: dict[str, Any]):
    with pytest.raises(BadPins) as caught:
        read_pins(json.dumps({"version": 1, "tools": {"a" * 100_000: tool}}))
    assert len(str(caught.value)) < 250
