"""The commands of the server on the pages, each run as it is printed, in a project like that of the page."""

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.projects import Project
from tests.docs.pages import blocks, page

OURS = re.compile(r"jackline (config|doctor|tools|schema|init)\b")
RECORDS = '''
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("records")
READ = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READ)
def lookup_invoice(customer: str) -> str:
    """Finds what a customer owes."""
    return f"{customer} owes nothing"


@server.tool(annotations=READ)
def lookup_subscription(customer: str) -> str:
    """Finds what a customer has."""
    return f"{customer} has nothing"


@server.tool()
def post_message(channel: str, text: str) -> str:
    """Says it."""
    return "said"


server.run("stdio")
'''


def printed(text: str) -> Iterator[str]:
    """Every command of ours in the blocks of a page, without its comment."""
    for block in blocks(text, ""):
        for line in block.code.splitlines():
            if OURS.match(line):
                yield re.split(r"\s{2,}#", line)[0]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """The connections and the workflow of the page on MCP, with a server that has its tools."""
    project = Project(folder=tmp_path)
    project.write("records.py", RECORDS)
    command = json.dumps([sys.executable, str(tmp_path / "records.py")])
    head = f'kind = "mcp"\ntransport = "stdio"\ncommand = {command}\ntrusted = true\n'
    project.config(
        f'[connections.records]\n{head}allow = ["lookup_invoice", "lookup_subscription"]\n'
        f'[connections.tickets]\n{head}allow = ["post_message"]\n',
        server='listen = "127.0.0.1:0"\nworkflows = "workflows"\n',
    )
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```", page("mcp.md"), re.MULTILINE | re.DOTALL)
    project.write("workflows/support.yaml", workflow)
    return project


def test_the_pages_show_each_command() -> None:
    shown = {line.split()[1] for name in ("config.md", "mcp.md") for line in printed(page(name))}
    assert shown == {"config", "doctor", "tools"}


@pytest.mark.parametrize("name", ["config.md", "mcp.md"])
async def test_every_command_of_a_page_runs_as_it_is_printed(name: str, project: Project):
    lines = list(printed(page(name)))
    assert lines
    await project.run(
        "tools", "lock", "--all", "--config", "jackline.toml"
    )  # `--check` wants nothing changed
    for line in lines:
        done = await project.run(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}\n{done.out}{done.err}"
        assert done.out


async def test_what_config_show_prints_is_what_its_page_shows(project: Project):
    (sample,) = (one for one in blocks(page("config.md"), "") if one.code.startswith("[models.fast]"))
    model = '[models.fast]\nmodel = "openai/gpt-4o-mini"\napi_key = "${env:OPENAI_API_KEY}"\n'
    project.write("jackline.toml", f"{'# a line above' + chr(10)}" * 5 + model)
    done = await project.run("config", "show", "--config", "jackline.toml", OPENAI_API_KEY="hidden")
    shown = [" ".join(line.split()) for line in done.out.splitlines()]
    assert [line for line in sample.code.splitlines() if " ".join(line.split()) not in shown] == []


@pytest.mark.parametrize("words", ["schema workflow", "schema config", "schema script"])
async def test_the_pages_name_the_schemas_that_there_are(words: str, project: Project):
    assert f"jackline {words}" in page("workflow.md")
    assert (await project.run(*words.split())).code == 0
