"""`jackline doctor`: what keeps a server from serving, said before it is started, and nothing touched."""

import asyncio
import base64
import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jackline.v1.policy_pb2 import CheckResponse
from jackline_server.runtime.ports.switches import Engaging
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.sqlite.store import open_sqlite
from tests.cli.console import Console, Done
from tests.cli.projects import WORKFLOW, Project
from tests.docs.pages import ROOT
from tests.policies.policy_double import DENY, served
from tests.support.mcp_servers import served_over_http
from tests.support.tool_service import tools_served
from tests.tools.grpc.scene import odd


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(folder=tmp_path)
    project.write("flows/payer.yaml", WORKFLOW)
    project.config(project.till(more="trusted = true\n"))
    return project


async def examined(project: Project, *words: str, **environ: str) -> tuple[int, list[dict[str, Any]]]:
    done = await project.run("doctor", "--config", "jackline.toml", "-o", "json", *words, **environ)
    return done.code, report(done)["checks"]


def report(done: Done) -> dict[str, Any]:
    assert done.out, done.err
    return json.loads(done.out)


def verdicts(checks: list[dict[str, Any]], subject: str) -> list[str]:
    return [one["verdict"] for one in checks if one["subject"].startswith(subject)]


async def test_what_would_serve_has_no_problem_and_nothing_on_disk_is_touched(project: Project):
    before = project.files()
    done = await project.run("doctor", "--config", "jackline.toml")
    assert done.code == 0, done.out + done.err
    for subject in ("python", "packages", "data folder data", "model fast", "connection till", "payer.yaml"):
        assert subject in done.out
    assert "problem " not in done.out
    assert project.files() == before


async def test_a_tool_without_a_declared_effect_is_a_warning_and_no_problem(project: Project):
    code, checks = await examined(project)
    assert code == 0
    assert verdicts(checks, "workflow") == ["warning"]


async def test_every_mistake_of_the_config_is_a_problem(project: Project):
    project.write("jackline.toml", '[server]\nlisten = "nowhere"\n[modles.fast]\n')
    code, checks = await examined(project)
    assert code == 1
    assert verdicts(checks, "config") == ["problem", "problem"]
    assert verdicts(checks, "python") == ["ok"]


OUT_OF_REACH = """\
[models.script]
script = "missing.yaml"
[models.key]
model = "openai/gpt"
[models.server]
model = "openai/gpt"
base_url = "http://127.0.0.1:9/v1"
[connections.service]
kind = "http"
base_url = "http://127.0.0.1:9"
[connections.process]
kind = "mcp"
transport = "stdio"
command = ["/bin/false"]
[connections.far]
kind = "mcp"
transport = "http"
url = "http://127.0.0.1:9/"
"""


async def test_what_can_not_be_reached_or_used_is_a_problem_with_advice(project: Project):
    project.config(OUT_OF_REACH, server='listen = "127.0.0.1:0"\n')
    code, checks = await examined(project)
    assert code == 1
    problems = [one for one in checks if one["verdict"] == "problem"]
    assert sorted(one["subject"] for one in problems) == [
        "connection far",
        "connection process",
        "connection service",
        "model key",
        "model script",
        "model server",
    ]
    assert all(one["advice"] for one in problems)
    (script,) = [one["what"] for one in problems if one["subject"] == "model script"]
    line = 1 + (project.folder / "jackline.toml").read_text("utf-8").splitlines().index(
        'script = "missing.yaml"'
    )
    assert script.startswith(f"jackline.toml:{line}: ")


GATES = """\
[hooks.audit]
class = "tests.policies.hook_classes:Audit"
[policies.guard]
target = "{target}"
"""


async def test_a_hook_that_loads_and_a_policy_that_answers_are_ok(project: Project):
    async with served(lambda _: DENY) as policy:
        project.config(GATES.format(target=policy.address), server='listen = "127.0.0.1:0"\n')
        code, checks = await examined(project, PYTHONPATH=str(ROOT))

    assert code == 0, checks
    assert verdicts(checks, "hook audit") == verdicts(checks, "policy guard") == ["ok"]
    assert [(one.tool, one.arguments_json) for one in policy.asked] == [("jackline_doctor", b"")]


BROKEN_HOOKS = """\
[hooks.missing]
class = "no.such.module:Hook"
[hooks.empty]
class = "collections:OrderedDict"
[hooks.refuses]
class = "tests.policies.hook_classes:Audit"
options = {nothing = 1}
"""


async def test_hooks_that_can_not_be_used_and_a_policy_that_is_away_or_wrong_are_problems(project: Project):
    def broken(_: object) -> CheckResponse:
        raise RuntimeError("broken")

    async with served(broken) as policy:
        away = f'[policies.wrong]\ntarget = "{policy.address}"\n[policies.away]\ntarget = "127.0.0.1:9"\n'
        project.config(BROKEN_HOOKS + away, server='listen = "127.0.0.1:0"\n')
        code, checks = await examined(project, "--timeout", "2s", PYTHONPATH=str(ROOT))

    assert code == 1
    for subject in ("hook missing", "hook empty", "hook refuses", "policy wrong", "policy away"):
        assert verdicts(checks, subject) == ["problem"], subject
        assert all(one["advice"] for one in checks if one["subject"] == subject)


async def test_servers_that_answer_are_ok_and_get_no_secret(project: Project):
    async with tools_served() as service, served_over_http(json_response=True, stateless=False) as (port, _):
        project.config(
            f'[connections.orders]\nkind = "http"\nbase_url = "{service.base_url}/orders"\n'
            'headers = {Authorization = "Bearer secret"}\n'
            f'[connections.talk]\nkind = "mcp"\ntransport = "http"\nurl = "http://127.0.0.1:{port}/mcp"\n'
            f'[models.own]\nmodel = "openai/own"\nbase_url = "{service.base_url}"\n',
            server='listen = "127.0.0.1:0"\n',
        )
        code, checks = await examined(project)
    assert code == 0, checks
    assert verdicts(checks, "connection orders") == ["ok"]
    assert verdicts(checks, "connection talk") == ["ok"]
    assert verdicts(checks, "model own") == ["ok"]
    assert [entry.method for entry in service.of("orders")] == ["HEAD"]
    assert [entry.method for entry in service.of("models")] == ["GET"]


async def test_an_endpoint_of_a_webhook_is_reached_without_a_message(project: Project):
    secret = base64.b64encode(bytes(24)).decode()
    async with tools_served() as service:
        ends = {"there": f"{service.base_url}/orders", "gone": "http://127.0.0.1:9/"}
        project.config(
            "".join(
                f'[webhooks.{name}]\nurl = "{url}"\nsecret = "whsec_{secret}"\nevents = ["run.finished"]\n'
                for name, url in ends.items()
            ),
            server='listen = "127.0.0.1:0"\n',
        )
        code, checks = await examined(project)
    assert code == 1
    assert {name: verdicts(checks, f"webhook {name}") for name in ends} == {
        "there": ["ok"],
        "gone": ["problem"],
    }
    assert [(entry.method, entry.body) for entry in service.of("orders")] == [("HEAD", None)]
    assert not any(secret in str(one) for one in checks)


async def test_a_data_source_is_connected_to_and_one_that_is_not_there_is_a_problem(project: Project):
    with closing(sqlite3.connect(project.folder / "shop.db")) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    url = "postgresql://keeper:hush-hush@127.0.0.1:1/shop"
    project.config(
        '[data_sources.shop]\nfile = "shop.db"\n[data_sources.gone]\nfile = "gone.db"\n'
        f'[data_sources.far]\nurl = "{url}"\n'
    )
    code, checks = await examined(project)
    assert code == 1
    found = {name: verdicts(checks, f"data source {name}") for name in ("shop", "gone", "far")}
    assert found == {"shop": ["ok"], "gone": ["problem"], "far": ["problem"]}
    assert not any("hush-hush" in str(one) for one in checks)
    assert not await asyncio.to_thread((project.folder / "gone.db").exists)


async def test_a_grpc_service_is_asked_what_it_serves(project: Project):
    async with odd({}) as service:
        project.config(
            f'[connections.shop]\nkind = "grpc"\ntarget = "{service.address}"\n'
            'allow = ["till.v1.Till/Charge", "till.v1.Till/Chrage"]\n'
            '[connections.gone]\nkind = "grpc"\ntarget = "127.0.0.1:1"\n'
        )
        code, checks = await examined(project)
    assert code == 1
    assert verdicts(checks, "connection shop") == ["ok", "warning"]
    assert verdicts(checks, "connection gone") == ["problem"]
    assert service.calls == []


async def test_a_model_server_that_refuses_the_key_is_a_problem(project: Project):
    async with tools_served() as service:
        service.statuses["models"] = 401
        project.config(
            f'[models.own]\nmodel = "openai/own"\nbase_url = "{service.base_url}"\napi_key = "k"\n',
            server='listen = "127.0.0.1:0"\n',
        )
        code, checks = await examined(project)
    assert code == 1
    assert verdicts(checks, "model own") == ["problem"]


async def test_a_key_in_the_variable_of_the_provider_is_found(project: Project):
    project.config('[models.own]\nmodel = "mistral/large"\n', server='listen = "127.0.0.1:0"\n')
    code, checks = await examined(project, MISTRAL_API_KEY="k")
    assert (code, verdicts(checks, "model own")) == (0, ["ok"])


BY_REFERENCE = """\
[server]
listen = "127.0.0.1:0"
workflows = "${env:HIDDEN}"
data = "${env:HIDDEN}/store"
[models.script]
script = "${env:HIDDEN}.yaml"
[models.named]
model = "${env:HIDDEN}"
[models.own]
model = "openai/own"
base_url = "http://${env:HIDDEN}.invalid:9/v1"
[connections.till]
kind = "mcp"
transport = "stdio"
command = ["/bin/false"]
lock = "locks/${file:hidden}"
[connections.shop]
kind = "http"
base_url = "http://${env:HIDDEN}.invalid:9"
"""


@pytest.mark.parametrize("form", ["text", "json"])
async def test_what_came_by_a_reference_is_masked_in_the_report(project: Project, form: str):
    project.write("hidden", "by-a-file\n")
    project.write("jackline.toml", BY_REFERENCE)
    done = await project.run("doctor", "--config", "jackline.toml", "-o", form, HIDDEN="by-a-variable")
    assert done.code == 1, done.err
    for hidden in ("by-a-variable", "by-a-file"):
        assert hidden not in done.out + done.err
    for shown in ("model script", "model named", "connection till", "workflows", "***"):
        assert shown in done.out


async def test_an_address_in_use_is_a_problem(project: Project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, checks = await examined(project, "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (code, verdicts(checks, "address")) == (1, ["problem"])


async def test_a_live_server_is_a_warning_and_keeps_its_lock(project: Project):
    store = await open_sqlite(project.folder / "held")
    try:
        before = {path.name: path.stat().st_mtime_ns for path in (project.folder / "held").iterdir()}
        code, checks = await examined(project, "--data", "held")
        after = {path.name: path.stat().st_mtime_ns for path in (project.folder / "held").iterdir()}
    finally:
        await store.close()
    assert (code, verdicts(checks, "data folder")) == (0, ["warning"])
    assert after == before
    code, checks = await examined(project, "--data", "held")
    assert (code, verdicts(checks, "data folder")) == (0, ["ok"])


async def test_an_engaged_kill_switch_is_a_warning_with_since_when_by_whom_why_and_how_to_release_it(
    project: Project,
):
    opened = await open_sqlite(project.folder / "data")
    try:
        await opened.store.switches.engage(
            Engaging(
                tenant=DEFAULT_TENANT,
                unix_ms=1_700_000_000_000,
                principal="ann",
                reason="wrong berths",
                command_id="kill-1",
                payload=b"",
            )
        )
        code, checks = await examined(project)
    finally:
        await opened.close()
    (line,) = [one for one in checks if one["subject"].startswith("kill switch")]
    assert (code, line["verdict"], line["subject"]) == (0, "warning", "kill switch of default")
    assert line["what"] == "engaged since 2023-11-14 22:13:20 UTC by ann: wrong berths; no run begins"
    assert "jackline kill --release" in line["advice"]


async def closed_store(folder: Path) -> Path:
    await (await open_sqlite(folder)).close()
    return folder / "jackline.db"


async def test_a_store_of_a_newer_version_is_a_problem(project: Project):
    database = await closed_store(project.folder / "data")
    with database.open("r+b") as file:
        file.seek(60)
        file.write((10_000).to_bytes(4, "big"))
    code, checks = await examined(project)
    assert (code, verdicts(checks, "data folder")) == (1, ["problem"])


@pytest.mark.parametrize("damage", ["gone", "foreign"])
async def test_a_store_that_is_gone_or_not_ours_is_a_problem(project: Project, damage: str):
    database = await closed_store(project.folder / "data")
    if damage == "gone":
        database.unlink()
    else:
        database.write_bytes(b"SQLite format 3\x00" + bytes(200))
    code, checks = await examined(project)
    assert (code, verdicts(checks, "data folder")) == (1, ["problem"])


@pytest.mark.parametrize("data", ["file", "file/below", "full"])
async def test_a_place_that_can_hold_no_store_is_a_problem(project: Project, data: str):
    project.write("file", "x")
    project.write("full/of/things", "x")
    (project.folder / "full").chmod(0o755)
    code, checks = await examined(project, "--data", data)
    assert (code, verdicts(checks, "data folder")) == (1, ["problem"])


async def test_a_workflow_with_errors_and_a_folder_that_is_missing_are_problems(project: Project):
    project.write("flows/bad.yaml", "name: bad\nflow: [a]\nsteps: {a: {kind: agnet}}\n")
    code, checks = await examined(project)
    assert code == 1
    assert "problem" in verdicts(checks, "workflow flows/bad.yaml")
    assert "problem" not in verdicts(checks, "workflow flows/payer.yaml")
    code, checks = await examined(project, "--workflows", "nowhere")
    assert (code, verdicts(checks, "workflows")) == (1, ["problem"])


async def test_tools_that_are_not_those_of_the_lock_file_are_a_problem(project: Project):
    locked = await project.run("tools", "lock", "till", "--config", "jackline.toml")
    assert locked.code == 0, locked.err
    code, checks = await examined(project)
    assert code == 0, checks
    path = project.folder / "flows/connections/till.lock"
    project.config(project.till(more='lock = "flows/connections/till.lock"\n'))
    code, checks = await examined(project)
    assert verdicts(checks, "connection till") == ["ok", "ok"]
    path.write_text(path.read_text("utf-8").replace("Says it again", "Says it"), "utf-8")
    code, checks = await examined(project)
    assert (code, verdicts(checks, "connection till")) == (1, ["ok", "problem"])


async def test_a_check_that_takes_too_long_is_given_up(project: Project):
    silent = '[connections.till]\nkind = "mcp"\ntransport = "stdio"\ncommand = ["/bin/sleep", "600"]\n'
    project.config(silent, server='listen = "127.0.0.1:0"\n')
    code, checks = await examined(project, "--timeout", "5s")
    assert (code, verdicts(checks, "connection till")) == (1, ["problem"])
    assert verdicts(checks, "model fast") == ["ok"]


@pytest.mark.parametrize("words", [("--timeout", "soon"), ("--timeout", "0s"), ("-o", "yaml")])
async def test_a_wrong_command_line_is_told_apart_from_a_problem(project: Project, words: tuple[str, ...]):
    assert (await project.run("doctor", *words)).code == 2


async def test_progress_is_shown_on_a_terminal_alone(project: Project):
    console = Console(address="", home=project.folder)
    shown = await console.on_terminal("doctor", "--config", "jackline.toml", JACKLINE_TOKEN="")
    assert "checks done" in shown.out
    plain = await project.run("doctor", "--config", "jackline.toml")
    assert plain.err == ""


async def test_a_script_that_is_not_there_is_named_with_its_line_of_the_config(project: Project):
    project.write("jackline.toml", '[models.fast]\nscript = "missing.yaml"\n')
    done = await project.run("serve", "--config", "jackline.toml", "--listen", "127.0.0.1:0", "--volatile")

    assert done.code == 2
    assert "jackline.toml:2: models.fast.script" in done.err


async def test_a_pool_that_nobody_serves_is_no_mistake_of_a_file(project: Project):
    pool = '[connections.depot]\nkind = "worker"\n'
    project.config(project.till(more="trusted = true\n") + pool)
    step = "{kind: worker, connection: depot, tool: pick, effect: read}"
    project.write("flows/picker.yaml", f"name: picker\nflow: [pick]\nsteps:\n  pick: {step}\n")
    code, checks = await examined(project)
    assert code == 0, checks
    assert verdicts(checks, "connection depot") == ["ok"]
    assert verdicts(checks, "workflow flows/picker.yaml") == ["warning"]
