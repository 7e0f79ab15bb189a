"""`jackline eval` where no server is asked, and where none is there."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jackline_server.commands.evaluation.command import evaluate
from tests.cli.projects import Project

RIGHT = "cases: [{name: x, workflow: a}]\n"


async def test_files_are_checked_without_a_server(tmp_path: Path) -> None:
    project = Project(folder=tmp_path)
    project.write("a.yaml", RIGHT)
    project.write("b.yaml", "cases: [{name: x, workflow: a, tiems: 2}]\n")
    wrong = await project.run("eval", "--check", "a.yaml", "b.yaml")
    assert (wrong.code, wrong.out) == (2, "")
    assert "b.yaml:1:32: error: " in wrong.err


async def test_a_server_that_is_not_there_is_no_failed_case(tmp_path: Path) -> None:
    project = Project(folder=tmp_path)
    project.write("a.yaml", RIGHT)
    done = await project.run("eval", "a.yaml", "--address", "127.0.0.1:1", "--save", "r.json")
    assert (done.code, done.out) == (69, "")
    assert not (tmp_path / "r.json").exists()


def saved(name: str, verdict: str) -> str:
    case = {"name": "a", "verdict": verdict, "tries": [{"number": 1, "verdict": verdict}]}
    return json.dumps({"suites": [{"name": "s", "path": name, "cases": [case]}]})


async def test_a_case_that_passes_no_longer_is_told_to_programs_too(tmp_path: Path) -> None:
    project = Project(folder=tmp_path)
    project.write("a.json", saved("a", "passed"))
    project.write("b.json", saved("b", "failed"))
    done = await project.run("eval", "--compare", "a.json", "b.json", "-o", "json")
    assert done.code == 1
    assert {key: names for key, names in json.loads(done.out).items() if names} == {"regressed": ["s/a"]}


@pytest.mark.parametrize(
    "words",
    [
        ("--compare", "a.json"),
        ("--compare", "a.json", "b.json", "--record", "run_1"),
        ("--compare", "a.json", "b.json", "--junit", "c.xml"),
        ("a.yaml", "--name", "x"),
        ("a.yaml", "--case", "nowhere"),
        (),
    ],
)
def test_flags_that_do_not_go_together_are_a_wrong_command_line(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    app = typer.Typer()
    app.command()(evaluate)
    (tmp_path / "a.yaml").write_text(RIGHT, encoding="utf-8")
    given = [str(tmp_path / word) if word == "a.yaml" else word for word in words]
    assert CliRunner().invoke(app, given).exit_code == 2
