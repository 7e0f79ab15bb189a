"""Reading a folder of workflows: what counts, what is never opened, and that one bad file is one bad file."""

import os
from pathlib import Path

import pytest

from jackline_server.definitions.files import load_file, load_folder, pinned_connections_of
from tests.definitions.workflows import RIGHT, Shelves, compiler


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "refunds.yaml").write_text(RIGHT, "utf-8")
    (tmp_path / "handle/steering").mkdir(parents=True)
    (tmp_path / "handle/steering/tone.md").write_text("Be kind.", "utf-8")
    return tmp_path


def test_a_workflow_comes_with_the_files_its_steps_name(folder: Path):
    (folder / "handle/steering/other.md").write_text("not named", "utf-8")

    (loaded,) = load_folder(folder)

    assert loaded.source is not None
    assert dict(loaded.source.files) == {"handle/steering/tone.md": b"Be kind."}
    assert (loaded.file, loaded.problems) == ("refunds.yaml", ())


def test_workflows_of_direct_sub_folders_count_and_deeper_ones_do_not(folder: Path):
    (folder / "shop/deep").mkdir(parents=True)
    (folder / "shop/a.yml").write_text("name: a\n", "utf-8")
    (folder / "shop/deep/b.yaml").write_text("name: b\n", "utf-8")
    (folder / ".hidden.yaml").write_text("name: c\n", "utf-8")

    assert [one.file for one in load_folder(folder)] == ["refunds.yaml", "shop/a.yml"]


def test_files_beside_a_workflow_of_a_sub_folder_are_its_own(folder: Path):
    (folder / "shop/handle/steering").mkdir(parents=True)
    (folder / "shop/refunds.yaml").write_text(RIGHT, "utf-8")
    (folder / "shop/handle/steering/tone.md").write_text("Be brief.", "utf-8")

    loaded = {one.file: one for one in load_folder(folder)}["shop/refunds.yaml"]

    assert loaded.source is not None
    assert dict(loaded.source.files) == {"handle/steering/tone.md": b"Be brief."}


def asset(folder: Path) -> Path:
    path = folder / "handle/steering/tone.md"
    path.unlink()
    return path


def test_a_link_out_of_the_folder_is_not_followed(folder: Path):
    asset(folder).symlink_to("/etc/passwd")

    (loaded,) = load_folder(folder)

    assert loaded.source is not None
    assert dict(loaded.source.files) == {}
    assert [one.code for one in loaded.problems] == ["unreadable"]


def test_a_linked_folder_on_the_way_is_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "tone.md").write_text("stolen", "utf-8")
    asset(folder)
    (folder / "handle/steering").rmdir()
    (folder / "handle/steering").symlink_to(outside)

    (loaded,) = load_folder(folder)

    assert loaded.source is not None
    assert dict(loaded.source.files) == {}
    assert [one.code for one in loaded.problems] == ["unreadable"]


def test_a_pipe_does_not_block_the_loader(folder: Path):
    os.mkfifo(asset(folder))

    (loaded,) = load_folder(folder)

    assert [one.code for one in loaded.problems] == ["unreadable"]


def test_a_folder_in_place_of_a_file_and_a_huge_file_are_refused(folder: Path):
    asset(folder).mkdir()
    with (folder / "huge.yaml").open("wb") as huge:
        huge.truncate(10 * 1024**3)

    loaded = {one.file: one for one in load_folder(folder)}

    assert [one.code for one in loaded["refunds.yaml"].problems] == ["unreadable"]
    assert loaded["huge.yaml"].source is None


def test_a_file_that_is_not_utf_8_is_its_own_problem(folder: Path):
    (folder / "b.yaml").write_bytes("name: b\n".encode("utf-16"))

    first, second = load_folder(folder)

    assert (first.source, [one.code for one in first.problems]) == (None, ["bad_encoding"])
    assert second.source is not None


def test_a_linked_workflow_is_refused_and_the_others_are_served(folder: Path):
    (folder / "a.yaml").symlink_to("/etc/passwd")

    first, second = load_folder(folder)

    assert (first.source, second.problems) == (None, ())


def test_ten_thousand_files_are_bounded_and_said_so(folder: Path):
    for number in range(10_000):
        (folder / f"w{number:05}.yaml").touch()

    loaded = load_folder(folder)

    assert len(loaded) == 1_001
    assert [one.code for one in loaded[-1].problems] == ["too_many_files"]


def test_a_deep_tree_is_not_walked(folder: Path):
    deep = folder
    for _ in range(200):
        deep = deep / "d"
        deep.mkdir()

    assert [one.file for one in load_folder(folder)] == ["refunds.yaml"]


def test_one_file_loads_like_a_folder_of_one(folder: Path):
    assert [load_file(folder / "refunds.yaml")] == load_folder(folder)


def test_no_descriptor_is_left_open(folder: Path):
    asset(folder).mkdir()
    (folder / "a.yaml").symlink_to("/etc/passwd")
    before = len(list(Path("/proc/self/fd").iterdir()))

    load_folder(folder)

    assert len(list(Path("/proc/self/fd").iterdir())) == before


PAYER = """\
name: payer
model: fast
flow: [pay, tell]
steps:
  pay: {kind: agent, tools: [{from: till}], answer: text}
  tell: {kind: mcp, effect: write, connection: desk, tool: post}
"""


def test_the_pins_of_its_connections_come_with_a_workflow_and_no_others(tmp_path: Path):
    (tmp_path / "shop/connections").mkdir(parents=True)
    (tmp_path / "shop/payer.yaml").write_text(PAYER, "utf-8")
    for name in ("till", "desk", "other"):
        (tmp_path / f"shop/connections/{name}.lock").write_text(name, "utf-8")

    (loaded,) = load_folder(tmp_path)

    assert loaded.source is not None
    assert dict(loaded.source.files) == {"connections/till.lock": b"till", "connections/desk.lock": b"desk"}
    assert pinned_connections_of(loaded) == ["till", "desk"]


def test_pins_that_can_not_be_read_pin_nothing_and_are_not_left_out(tmp_path: Path):
    (tmp_path / "connections").mkdir()
    (tmp_path / "payer.yaml").write_text(PAYER.replace("till", "shelf"), "utf-8")
    (tmp_path / "connections/shelf.lock").symlink_to("/etc/passwd")

    (loaded,) = load_folder(tmp_path)

    assert loaded.source is not None
    assert dict(loaded.source.files) == {"connections/shelf.lock": b""}
    assert [problem.code for problem in loaded.problems] == ["unreadable"]
    compilation = compiler(Shelves()).compile(loaded.source)
    assert (compilation.plan, "bad_pins" in {one.code for one in compilation.findings}) == (None, True)
