"""`jackline config show`: every setting, where it came from, and no secret."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jackline_server.config import load_config
from tests.cli.projects import Project

SECRETS = {
    "OPENAI_API_KEY": "first-secret-value",
    "ORDERS_TOKEN": "second-secret-value",
    "JACKLINE_MODELS__OTHER__API_KEY": "third-secret-value",
    "ORDERS_URL": "http://secret-host.internal",
}
WRITTEN = "fourth-secret-value"
CONFIG = f"""\
[server]
listen = "127.0.0.1:4000"
max_active_runs = 7

[models.fast]
model = "openai/gpt-4o-mini"
api_key = "${{env:OPENAI_API_KEY}}"
base_url = "https://models.internal/v1/sk-abcdefghijklmnop1234"
price = {{input_per_million = 0.15, output_per_million = 0.60}}

[models.other]
model = "openai/x"
api_key = "{WRITTEN}"

[connections.orders]
kind = "http"
base_url = "${{env:ORDERS_URL}}"
headers = {{Authorization = "Bearer ${{env:ORDERS_TOKEN}}", X-Plain = "{WRITTEN}"}}

[connections.till]
kind = "mcp"
transport = "stdio"
command = ["/usr/bin/till", "--api-key", "{WRITTEN}", "--token={WRITTEN}", "--quiet"]
env = {{TILL_TOKEN = "{WRITTEN}"}}
allow = ["read"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(folder=tmp_path)
    project.write("jackline.toml", CONFIG)
    return project


async def settings(project: Project, *words: str, **environ: str) -> dict[str, dict[str, Any]]:
    done = await project.run(
        "config", "show", "--config", "jackline.toml", "-o", "json", *words, **{**SECRETS, **environ}
    )
    assert done.code == 0, done.err
    return {one["key"]: one for one in json.loads(done.out)["settings"]}


async def test_each_value_says_whether_it_came_from_file_variable_flag_or_default(project: Project):
    shown = await settings(project, "--listen", "127.0.0.1:0", "--data", "there", JACKLINE_DRAIN_GRACE="90s")
    assert {key: (one["value"], one["from"]) for key, one in shown.items() if key.startswith("server.")} == {
        "server.insecure_bind": (False, "default"),
        "server.listen": ("127.0.0.1:0", "--listen"),
        "server.reflection": (True, "default"),
        "server.data": ("there", "--data"),
        "server.workflows": (None, "default"),
        "server.max_active_runs": (7, "jackline.toml:3"),
        "server.drain_grace": ("90s", "JACKLINE_DRAIN_GRACE"),
        "server.lease_ttl": ("15s", "default"),
        "server.volatile": (False, "default"),
        "server.enable_failpoints": (False, "default"),
    }
    assert shown["models.fast.price.input_per_million"]["value"] == 0.15
    assert shown["models.fast.adapter"]["value"] == "openai"
    assert shown["models.fast.connect_timeout"]["value"] == "10s"


@pytest.mark.parametrize("form", ["toml", "json"])
async def test_no_secret_is_printed_wherever_it_stands(project: Project, form: str):
    done = await project.run("config", "show", "--config", "jackline.toml", "-o", form, **SECRETS)
    assert done.code == 0, done.err
    for secret in (*SECRETS.values(), WRITTEN, "sk-abcdefghijklmnop1234", "secret-host"):
        assert secret not in done.out + done.err
    assert "--quiet" in done.out
    assert "models.internal" in done.out


async def test_a_password_in_a_command_is_not_printed(project: Project):
    words = [
        "/bin/echo",
        "--dsn=postgres://bob:hunter2@db/app",
        "DATABASE_URL=postgres://bob:hunter2@db/app",
        "postgresql://bob:pa/hunter2@db/app",
        "https://h.example/sse/hunter2",
        "--header",
        "X-Api-Key: hunter2",
        "--pw",
        "hunter2",
    ]
    project.write(
        "jackline.toml",
        f'[connections.c]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(words)}\n'
        '[connections.d]\nkind = "mcp"\ntransport = "http"\nurl = "https://h.example/sse/hunter2"\n',
    )
    for form in ("toml", "json"):
        done = await project.run("config", "show", "--config", "jackline.toml", "-o", form)
        assert (done.code, "hunter2" in done.out + done.err) == (0, False)
        assert '"/bin/echo"' in done.out
        assert '"--dsn=***"' in done.out
        assert '"https://h.example/sse/***"' in done.out


async def test_a_reference_is_named_where_its_value_is_masked(project: Project):
    shown = await settings(project)
    assert shown["models.fast.api_key"]["value"] == "***"
    assert shown["models.fast.api_key"]["references"] == ["${env:OPENAI_API_KEY}"]
    assert shown["connections.orders.headers.Authorization"]["references"] == ["${env:ORDERS_TOKEN}"]
    assert shown["models.other.api_key"]["from"] == "JACKLINE_MODELS__OTHER__API_KEY"


async def test_what_is_printed_is_toml_that_means_the_same(project: Project, tmp_path: Path):
    project.config('[functions]\nroots = ["a.b"]\n')
    done = await project.run("config", "show", "--config", "jackline.toml")
    assert done.code == 0, done.err
    shown = tomllib.loads(done.out)
    assert shown["functions"] == {"roots": ["a.b"], "isolate": False}
    again = project.write("again.toml", done.out)
    first = load_config(file=tmp_path / "jackline.toml", environ={})
    second = load_config(file=again, environ={})
    assert second.server.listen == first.server.listen
    assert second.models["fast"].concurrency == first.models["fast"].concurrency


async def test_a_bad_config_is_reported_as_serve_reports_it(project: Project):
    project.write("jackline.toml", "[server]\nlisen = 1\n[models.fast]\nmodle = 2\n")
    shown = await project.run("config", "show", "--config", "jackline.toml")
    served = await project.run("serve", "--config", "jackline.toml")
    assert (shown.code, served.code) == (65, 2)
    assert [line.partition(": ")[2] for line in shown.err.splitlines()] == [
        line.partition(": ")[2] for line in served.err.splitlines()
    ]
    assert "did you mean 'listen'?" in shown.err
    assert shown.out == ""
