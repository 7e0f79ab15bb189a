"""`jackline replay`: recorded runs in a data folder, beside its server or without one."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jackline_server.storage.sqlite.backup import back_up
from jackline_server.storage.sqlite.store import open_sqlite
from tests.cli.projects import Project
from tests.logs.golden import GoldenLog, read_log
from tests.logs.restoring import restore

NAMES = ("tools", "answered", "controlled", "denied")
CONFIG = """\
[models.fast]
script = "script.yaml"
[connections.shop]
kind = "http"
base_url = "http://127.0.0.1:9"
"""


def logs() -> list[GoldenLog]:
    return [read_log("0.1.0", name) for name in NAMES]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A data folder with recorded runs, and a config that knows what their workflows name."""
    made = Project(folder=tmp_path)
    made.write("script.yaml", 'turns: [{text: "done"}]\n')
    made.write("jackline.toml", f'[server]\ndata = "data"\n{CONFIG}')
    asyncio.run(fill(tmp_path / "data"))
    return made


async def fill(data: Path) -> None:
    opened = await open_sqlite(data)
    try:
        await restore(opened.store, logs())
    finally:
        await opened.close()


async def replay(project: Project, *words: str) -> tuple[int, str, str]:
    done = await project.run("replay", *words, "--config", "jackline.toml")
    return done.code, done.out, done.err


async def test_a_run_is_decided_again_and_is_the_same(project: Project) -> None:
    [log, *_] = logs()
    before = project.files()
    code, out, _ = await replay(project, log.run_id)
    assert (code, out) == (0, f"{log.run_id} pair: the same, 7 decisions in 14 events\n")
    assert project.files() == before


async def test_a_server_may_have_the_folder_meanwhile(project: Project) -> None:
    opened = await open_sqlite(project.folder / "data")
    try:
        code, out, _ = await replay(project, "--workflow", "pair")
    finally:
        await opened.close()
    assert code == 0
    assert out.endswith(f"{len(NAMES)} runs: {len(NAMES)} same, 0 different, 0 unreadable\n")


async def test_a_gate_over_many_runs_names_the_first_step_of_each_that_differs(project: Project) -> None:
    workflow = """\
name: pair
model: fast
input: {schema: {type: object, properties: {mark: {type: string}}, required: [mark]}}
bounds: {run_timeout: 2m, token_budget: 40000}
flow: [work]
steps:
  work:
    kind: agent
    description: Looks.
    tools: [{ref: look}]
    answer: text
  look: {kind: http, effect: read, description: Looks., connection: shop, path: /look}
"""
    project.write("new.yaml", workflow)
    code, out, _ = await replay(
        project, "--workflow", "pair", "--state", "succeeded", "--against", "new.yaml"
    )
    assert code == 1
    assert "differs at event 3 (step work, turn 1)\n  tools: -charge, ~look\n" in out
    code, out, _ = await replay(
        project, "--workflow", "pair", "--limit", "2", "--against", "new.yaml", "-o", "json"
    )
    found = json.loads(out)
    assert (code, found["different"], found["same"], len(found["runs"])) == (1, 2, 0, 2)
    difference = found["runs"][0]["difference"]
    assert (difference["sequence"], difference["kind"]) == (3, "tools")
    assert difference["recorded"]["fact"] == difference["now"]["fact"] == "model_call_started"


async def test_no_content_is_shown_unless_it_is_asked_for(project: Project) -> None:
    project.write(
        "new.yaml",
        "name: pair\nmodel: fast\nflow: [work]\nsteps:\n  work: {kind: agent, description: L., "
        "steering: Say nothing., answer: text}\n",
    )
    [log, *_] = logs()
    code, bare, _ = await replay(project, log.run_id, "--against", "new.yaml")
    assert code == 1
    assert "Say nothing." not in bare
    _, full, _ = await replay(project, log.run_id, "--against", "new.yaml", "--full")
    assert "+Say nothing." in full


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 2),
        (("run_1", "--workflow", "pair"), 2),
        (("run_1", "--state", "succeeded"), 2),
        (("--workflow", "pair", "--state", "done"), 2),
        (("run_" + "0" * 26,), 65),
        (("--workflow", "pair", "--against", "nothing@1"), 65),
        (("--workflow", "pair", "--against", "missing.yaml"), 65),
        (("--workflow", "pair", "--against", "broken.yaml"), 65),
        (("--workflow", "pair", "--against", "other.yaml"), 65),
        (("--workflow", "mistyped"), 65),
        (("--workflow", "mistyped", "--against", "other.yaml"), 65),
        (("--workflow", "pair", "--data", "nowhere"), 73),
    ],
    ids=str,
)
async def test_what_can_not_be_replayed_says_so_by_its_code(
    project: Project, words: tuple[str, ...], code: int
) -> None:
    project.write("broken.yaml", "name: pair\nflow: [nothing]\n")
    project.write(
        "other.yaml", "name: other\nmodel: fast\nflow: [a]\nsteps: {a: {kind: completion, prompt: P.}}\n"
    )
    found, out, err = await replay(project, *words)
    assert found == code
    assert err
    assert "same" not in out


async def test_a_damaged_log_is_one_runs_trouble_and_no_others(project: Project) -> None:
    [log, *_] = logs()
    target = project.folder / "aside" / "jackline.db"
    target.parent.mkdir(mode=0o700)
    back_up(project.folder / "data", project.folder / "copy.db")
    (project.folder / "copy.db").rename(target)
    cut_out(target, log.run_id, 4)
    code, out, _ = await replay(project, "--workflow", "pair", "--data", "aside")
    assert code == 1
    assert f"{log.run_id} pair: can't be replayed; its log is damaged" in out
    assert f"{len(NAMES)} runs: {len(NAMES) - 1} same, 0 different, 1 unreadable\n" in out


def cut_out(database: Path, run_id: str, sequence: int) -> None:
    """Take one event away."""
    connection = sqlite3.connect(database)
    with closing(connection), connection:
        connection.execute(
            "DELETE FROM events WHERE sequence = ? AND run_key = (SELECT run_key FROM runs WHERE run_id = ?)",
            (sequence, run_id),
        )


async def test_a_store_of_a_newer_version_is_left_to_it(project: Project) -> None:
    connection = sqlite3.connect(project.folder / "data" / "jackline.db")
    with closing(connection), connection:
        connection.execute("PRAGMA user_version = 99")
    code, _, _ = await replay(project, "--workflow", "pair")
    assert code == 78
