"""A workflow that is not there since its file in the server's folder can't be served: what is said of it."""

from pathlib import Path

import pytest

from jackline_server.runtime.ports.definitions import Finding, Severity
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.workflows.unserved import MOST_KEPT, UnservedFiles
from tests.runtime.test_arrivals import PLAIN, Booting

BROKEN = PLAIN.replace("kind: completion", "kind: completion, hush-hush: 1")
SYNTAX = "name: [plain\n"
ABOVE = """\
name: above
flow: [x]
steps:
  x: {kind: workflow, effect: read, workflow: plain}
"""


def server(folder: Path) -> Booting:
    return Booting(folder, patience_s=60, at_hand=())


async def refused(server: Booting, reference: str, tenant: Tenant = DEFAULT_TENANT) -> Refused:
    with pytest.raises(Refused) as caught:
        await server.plan(reference, tenant)
    return caught.value


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [(BROKEN, "plain.yaml:5:25", "unknown_key"), (SYNTAX, "plain.yaml:2:1", "yaml_syntax")],
)
async def test_whoever_asks_is_told_of_the_file_and_where_its_first_error_is(
    tmp_path: Path, text: str, place: str, code: str
) -> None:
    (tmp_path / "plain.yaml").write_text(text, "utf-8")
    there = server(tmp_path)
    await there.folder.import_at_hand()
    said = await refused(there, "plain")
    assert said.reason is Reason.WORKFLOW_NOT_FOUND
    assert said.metadata == {"workflow": "plain", "file": place, "finding": code}
    assert place in said.message
    assert "hush" not in f"{said.message}{said.metadata}"


async def test_a_file_that_can_not_be_read_is_known_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "plain.yml").write_bytes(b"\xff")
    there = server(tmp_path)
    await there.folder.import_at_hand()
    said = await refused(there, "plain@latest")
    assert (said.metadata["file"], said.metadata["finding"]) == ("flows/plain.yml", "bad_encoding")


async def test_an_error_of_the_file_is_told_by_the_name_that_stands_in_it_and_by_its_own(
    tmp_path: Path,
) -> None:
    (tmp_path / "other.yaml").write_text(BROKEN, "utf-8")
    there = server(tmp_path)
    await there.folder.import_at_hand()
    for name in ("plain", "other"):
        assert (await refused(there, name)).metadata["file"].startswith("other.yaml:")
    assert "file" not in (await refused(there, "nowhere")).metadata


async def test_a_file_that_is_mended_is_served_and_one_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "plain.yaml"
    there = server(tmp_path)
    for text, known in ((BROKEN, True), (None, False), (BROKEN, True), (PLAIN, False)):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text, "utf-8")
        await there.folder.import_all()
        assert (there.workflows.unserved.refusal("plain") is not None) is known
    assert (await there.plan("plain")).name == "plain"


@pytest.mark.parametrize("broken", [BROKEN.encode(), b"\xff"])
async def test_an_older_revision_runs_and_nothing_is_said_of_the_file(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "plain.yaml"
    file.write_text(PLAIN, "utf-8")
    there = server(tmp_path)
    await there.folder.import_all()
    file.write_bytes(broken)
    await there.folder.import_all()
    assert (await there.plan("plain")).name == "plain"
    assert "file" not in (await refused(there, "plain@next")).metadata
    file.write_text(PLAIN, "utf-8")
    await there.folder.import_all()
    assert there.workflows.unserved.refusal("plain") is None


async def test_a_workflow_that_runs_one_whose_file_is_broken_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(BROKEN, "utf-8")
    (tmp_path / "above.yaml").write_text(ABOVE, "utf-8")
    there = server(tmp_path)
    await there.folder.import_at_hand()
    said = await refused(there, "above")
    assert said.reason is Reason.INVALID_WORKFLOW
    assert "plain.yaml:5:25" in said.violations[0].description


async def test_a_tenant_without_the_folder_is_told_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text(BROKEN, "utf-8")
    there = server(tmp_path)
    await there.folder.import_at_hand()
    assert "file" not in (await refused(there, "plain", Tenant("another"))).metadata


def test_no_more_files_are_kept_than_a_folder_may_have() -> None:
    files = UnservedFiles()
    error = Finding(severity=Severity.ERROR, code="c", message="m", file="f", line=1, column=1, path="")
    for number in range(MOST_KEPT + 2):
        files.note(f"f{number}.yaml", "", error)
    assert files.refusal(f"f{MOST_KEPT - 1}") is not None
    assert files.refusal(f"f{MOST_KEPT}") is None
