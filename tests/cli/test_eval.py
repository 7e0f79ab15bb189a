"""`jackline eval` where no server is asked, and where none is there."""

from pathlib import Path

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
