"""`jackline schema`: it accepts and refuses what the readers do, as far as a schema can see."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import pytest
import yaml

from jackline_server.commands.schema import File, schema_of
from jackline_server.config import load_config
from jackline_server.config.problems import ConfigError
from jackline_server.definitions import yaml_text
from jackline_server.definitions.reading import read
from jackline_server.definitions.report import Report
from jackline_server.definitions.yaml_nodes import MapNode, ScalarNode, plain
from jackline_server.models.script import ScriptError, parse_script
from tests.cli.console import Console
from tests.cli.test_config_show import CONFIG as SHOWN
from tests.definitions.workflows import RIGHT
from tests.docs.pages import ROOT, blocks, page

VALIDATORS = {file: jsonschema_rs.Draft202012Validator(schema_of(file)) for file in File}


def problems(file: File, value: Any) -> list[str]:
    return [str(error) for error in VALIDATORS[file].iter_errors(value)]


def workflow(text: str) -> Any:
    """A workflow as a program sees it: YAML 1.2, as the reader of workflows takes it."""
    return json.loads(json.dumps(plain(root_of(text)), default=float))


def root_of(text: str) -> MapNode:
    root = yaml_text.parse(text).root
    assert root is not None
    return root


def is_read(text: str) -> bool:
    return read(root_of(text), Report(file="")) is not None


# --- what there is -----------------------------------------------------------------------------


def here(pattern: str) -> list[Path]:
    found = [*(ROOT / "examples").rglob(pattern), *(ROOT / "server").rglob(f"starter/**/{pattern}")]
    return [path for path in found if "node_modules" not in path.parts and "data" not in path.parts]


WORKFLOWS = [
    *(
        (str(path.relative_to(ROOT)), path.read_text("utf-8"))
        for path in here("*.yaml")
        if "workflows" in path.parts
    ),
    *((f"workflow.md:{block.line}", block.code) for block in blocks(page("workflow.md"), "yaml workflow")),
    ("tests", RIGHT),
]
CONFIGS = [
    *((str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in here("*.toml")),
    *(
        (f"{name}:{block.line}", block.code)
        for name in ("config.md", "mcp.md")
        for block in blocks(page(name), "toml")
    ),
    ("tests", SHOWN),
]
SCRIPTS = [
    *((str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in here("script*.yaml")),
    *(
        (f"scripted-models.md:{one.line}", one.code)
        for one in blocks(page("scripted-models.md"), "yaml script")
    ),
]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in WORKFLOWS])
def test_every_workflow_of_the_repository_fits(text: str):
    assert problems(File.WORKFLOW, workflow(text)) == []


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in CONFIGS])
def test_every_config_of_the_repository_fits(text: str):
    assert problems(File.CONFIG, tomllib.loads(text)) == []


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in SCRIPTS])
def test_every_script_of_the_repository_fits(text: str):
    assert problems(File.SCRIPT, yaml.safe_load(text)) == []


# --- what is broken ----------------------------------------------------------------------------

STEPS = "name: a\nmodel: m/m\nflow: [s]\nsteps:\n  s: "
AGENT = STEPS + "{kind: agent, "

BROKEN_WORKFLOWS = [
    "name: a\n",
    "name: A\nflow: [s]\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: []\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\nsteps: {}\n",
    "name: a\nflow: [s]\nsteps: {S: {kind: agent}}\n",
    "name: a\nflow: [s]\nsteps: {error: {kind: agent}}\n",
    "name: a\nflow: [s]\nstesp: {}\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\npreset: cosy\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\non_question: maybe\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\nbounds: {run_timeout: 15}\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\nbounds: {cost_budget_usd: '1'}\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\nbounds: {events: 1}\nsteps: {s: {kind: agent}}\n",
    "name: a\nflow: [s]\nsupervisor: {}\nsteps: {s: {kind: agent}}\n",
    STEPS + "{}\n",
    STEPS + "{kind: agnet}\n",
    STEPS + "{kind: sql}\n",
    STEPS + "[]\n",
    AGENT + "prompt: x}\n",
    AGENT + "modle: x}\n",
    AGENT + "input: {message: input}}\n",
    AGENT + "bounds: {max_iterations: 0}}\n",
    AGENT + "bounds: {timeout: soon}}\n",
    AGENT + "max_parallel: 65}\n",
    AGENT + "answer: prose}\n",
    AGENT + "outcome: {enum: []}}\n",
    AGENT + "outcome: {repairs: 11}}\n",
    AGENT + "tools: [lookup]}\n",
    AGENT + "tools: [{}]}\n",
    AGENT + "tools: [{ref: a, from: b}]}\n",
    AGENT + "tools: [{ref: a, allow: [b]}]}\n",
    AGENT + "tools: [{from: a, description: b}]}\n",
    AGENT + "tools: [{ref: a, retry: 3}]}\n",
    AGENT + "tool_choice: {name: 1}}\n",
    AGENT + "stop_when: {}}\n",
    AGENT + "stop_when: {any: []}}\n",
    AGENT + "stop_when: {iterations: {gte: 2}, tokens: {gte: 2}}}\n",
    AGENT + "stop_when: {not: {iteration: {gte: 2}}}}\n",
    AGENT + "stop_when: {all: [{elapsed: {gte: 2}}]}}\n",
    AGENT + "stop_when: {no_tool_calls: false}}\n",
    AGENT + "stop_when: {confidence: {gte: 1.9}}}\n",
    AGENT + "allow_effects: [harmless]}\n",
    STEPS + "{kind: completion}\n",
    STEPS + "{kind: completion, prompt: x, tools: []}\n",
    STEPS + "{kind: http, path: /}\n",
    STEPS + "{kind: http, connection: a, path: /, method: get}\n",
    STEPS + "{kind: http, connection: a, path: /, on_unknown: maybe}\n",
    STEPS + "{kind: http, connection: a, path: /, result_chars: 5}\n",
    STEPS + "{kind: function}\n",
    STEPS + "{kind: mcp, connection: a}\n",
    STEPS + "{kind: router}\n",
    STEPS + "{kind: router, conditions: [{when: x}]}\n",
]
BROKEN_CONFIGS = [
    "[sever]\n",
    "[server]\nlisen = 'x'\n",
    "[server]\nmax_active_runs = 0\n",
    "[server]\nmax_active_runs = '5'\n",
    "[server]\ndrain_grace = 5\n",
    "[server]\ndrain_grace = 'soon'\n",
    "[server]\nhttp = '127.0.0.1:8080'\n",
    "[models.fast]\n",
    "[models.fast]\nmodel = 'm'\nadapter = 'opneai'\n",
    "[models.fast]\nmodel = 'm'\nmax_tokens_key = 'max'\n",
    "[models.fast]\nmodel = 'm'\nparams = {stream = false}\n",
    "[models.fast]\nmodel = 'm'\nheaders = {x-one = 1}\n",
    "[models.fast]\nmodel = 'm'\nsupports = ['magic']\n",
    "[models.fast]\nmodel = 'm'\nprice = {input_per_million = 1}\n",
    "[models.fast]\nmodel = 'm'\nprice = {input_per_million = -1, output_per_million = 1}\n",
    "[models.fast]\nmodel = 'm'\nfallbacks = 'slow'\n",
    "[models.'1st']\nmodel = 'm'\n",
    "[connections.a]\n",
    "[connections.a]\nkind = 'grpc'\n",
    "[connections.a]\nkind = 'http'\n",
    "[connections.a]\nkind = 'http'\nbase_url = 'https://a'\ntrusted = true\n",
    "[connections.a]\nkind = 'mcp'\n",
    "[connections.a]\nkind = 'mcp'\ntransport = 'stdio'\n",
    "[connections.a]\nkind = 'mcp'\ntransport = 'stdio'\ncommand = '/bin/x'\n",
    "[connections.a]\nkind = 'mcp'\ntransport = 'http'\nurl = 'https://a'\ncommand = ['/bin/x']\n",
    "[functions]\nroots = 'a'\n",
    "[limits.tenant]\nactive_runs = 0\n",
    "[limits.tenant]\ntokens_per_day = 5\n",
]
BROKEN_SCRIPTS = [
    "turns: []\n",
    "turn: []\n",
    "turns: [{}]\n",
    "turns: [{text: a, answer: b}]\n",
    "turns: [{text: a, wehn: {}}]\n",
    "turns: [{text: a, when: {turn: 0}}]\n",
    "turns: [{text: a, finish: maybe}]\n",
    "turns: [{error: {class: bad}}]\n",
    "turns: [{tool_calls: [{arguments: {}}]}]\n",
    "turns: [{text: a, usage: {prompt_tokens: 1}}]\n",
    "turns: [{text: a, delay_ms: -1}]\n",
]


@pytest.mark.parametrize("text", BROKEN_WORKFLOWS)
def test_a_broken_workflow_is_refused_by_the_schema_as_by_its_reader(text: str):
    assert not is_read(text)
    assert problems(File.WORKFLOW, workflow(text)) != []


@pytest.mark.parametrize("text", BROKEN_CONFIGS)
def test_a_broken_config_is_refused_by_the_schema_as_by_its_reader(text: str, tmp_path: Path):
    file = tmp_path / "jackline.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError):
        load_config(file=file, environ={})
    assert problems(File.CONFIG, tomllib.loads(text)) != []


@pytest.mark.parametrize("text", BROKEN_SCRIPTS)
def test_a_broken_script_is_refused_by_the_schema_as_by_its_reader(text: str):
    with pytest.raises(ScriptError):
        parse_script(text, file="script.yaml")
    assert problems(File.SCRIPT, yaml.safe_load(text)) != []


# --- what a schema has -------------------------------------------------------------------------


def tables(schema: object, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every part of a schema that names keys of a file, but for the conditions of `if` and the like."""
    if isinstance(schema, list):
        for index, item in enumerate(cast("list[object]", schema)):
            yield from tables(item, f"{path}/{index}")
    elif isinstance(schema, dict):
        parts = cast("dict[str, Any]", schema)
        if isinstance(parts.get("properties"), dict) and "additionalProperties" in parts:
            yield path, parts
        for key, item in parts.items():
            if key not in ("if", "oneOf", "not", "default", "examples"):
                yield from tables(item, f"{path}/{key}")


@pytest.mark.parametrize("file", list(File))
def test_every_key_is_described_and_no_other_key_is_allowed(file: File):
    schema = schema_of(file)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"]
    found = list(tables(schema))
    assert found
    assert [path for path, one in found if one["additionalProperties"] is not False] == []
    sections = {"/server", "/models", "/connections", "/data_sources"} | {
        f"/{one}" for one in ("functions", "hooks", "policies", "webhooks", "limits")
    }
    undescribed = {
        f"{path}/{key}"
        for path, one in found
        for key, value in one["properties"].items()
        if not value.get("description")
        and f"{path}/{key}" not in sections | {"/properties/limits/run", "/properties/limits/tenant"}
    }
    assert undescribed == set()


def test_the_words_of_the_schema_are_those_of_the_pages():
    checked = subprocess.run(
        [sys.executable, str(ROOT / "scripts/key-texts"), "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("file", list(File))
async def test_the_command_prints_the_schema(file: File, tmp_path: Path):
    done = await Console(address="", home=tmp_path).run("schema", file.value, JACKLINE_TOKEN="")
    assert done.code == 0, done.err
    assert json.loads(done.out) == schema_of(file)


async def test_a_file_without_a_schema_is_a_wrong_command_line(tmp_path: Path):
    assert (await Console(address="", home=tmp_path).run("schema", "bogus", JACKLINE_TOKEN="")).code == 2


def test_every_page_tells_an_editor_where_the_schema_is():
    (line,) = [line for line in page("workflow.md").splitlines() if line.startswith("# yaml-language-server")]
    assert isinstance(root_of(f"{line}\n{RIGHT}").get("name"), ScalarNode)
