"""A copy of a store that is in use: whole, of one moment, and in nobody's way. Proves part of K1."""

# ruff: noqa: ASYNC240 - these tests look at small files; nothing else runs on their loop

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from jackline_server import failpoints
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreError, StoreFull
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.boot_errors import StoreUnsuitable
from jackline_server.storage.sqlite.backup import back_up
from jackline_server.storage.sqlite.copy import copy_database
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.store import open_sqlite
from tests.conformance.stores import event, log, new_run
from tests.storage.disks import look_into
from tests.storage.upgrades import PRIORITY, RUNS, command, content_of, left_by_a_kill, old_store, to

_CANT_CREATE, _STORE = 73, 74


async def opened_copy(copy: Path, folder: Path) -> list[str]:
    """The runs of a copy, which stands in for a database."""
    folder.mkdir(mode=0o700)
    copy.rename(folder / "jackline.db")
    opened = await open_sqlite(folder)
    assert opened.checked_whole
    await opened.close()
    with closing(look_into(folder / "jackline.db")) as connection:
        rows = connection.execute("SELECT run_id FROM runs ORDER BY run_key").fetchall()
        assert connection.execute("SELECT count(*) FROM events").get == len(rows)
    return [run_id for (run_id,) in rows]


async def test_a_copy_under_load_has_all_that_was_acknowledged_before_it_began(folder: Path, tmp_path: Path):
    opened = await open_sqlite(folder)
    acknowledged: list[str] = []
    more = asyncio.Event()
    stopping = False

    async def write(writer: int) -> None:
        number = 0
        while not stopping:
            run_id = f"run_{writer}_{number}"
            await opened.store.journal.create(new_run(run_id, first=event(1, content=b"x" * 2_000)))
            acknowledged.append(run_id)
            more.set()
            number += 1

    writers = [asyncio.create_task(write(number)) for number in range(8)]
    for copy in range(3):
        async with asyncio.timeout(30):
            await more.wait()
        more.clear()
        before = list(acknowledged)
        await asyncio.to_thread(back_up, folder, tmp_path / f"copy{copy}.db")
        runs = await opened_copy(tmp_path / f"copy{copy}.db", tmp_path / f"from{copy}")
        assert set(before) <= set(runs)
        for writer in range(8):
            numbers = [int(run.rpartition("_")[2]) for run in runs if run.startswith(f"run_{writer}_")]
            assert numbers == list(range(len(numbers)))
    stopping = True
    await asyncio.gather(*writers)
    assert await opened.store.runs.get(DEFAULT_TENANT, acknowledged[-1]) is not None
    await opened.close()


async def test_a_copy_of_a_store_that_nobody_serves_is_the_same(folder: Path, tmp_path: Path):
    await old_store(folder)
    before = content_of(folder / "jackline.db")

    size = back_up(folder, tmp_path / "copy.db")

    assert content_of(tmp_path / "copy.db") == before
    assert size == (tmp_path / "copy.db").stat().st_size
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


async def test_a_copy_has_what_a_killed_server_left_in_its_log(folder: Path, tmp_path: Path):
    running = await open_sqlite(folder)
    await running.store.journal.create(new_run("run_in_the_log"))
    left = left_by_a_kill(folder, tmp_path / "left")
    await running.close()

    back_up(left, tmp_path / "copy.db")

    assert await opened_copy(tmp_path / "copy.db", tmp_path / "from") == ["run_in_the_log"]


async def test_a_folder_that_nobody_uses_looks_as_it_did_before(folder: Path, tmp_path: Path):
    await old_store(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*")}

    back_up(folder, tmp_path / "copy.db")

    assert {path: path.read_bytes() for path in folder.rglob("*")} == before


async def test_a_log_that_a_killed_server_left_stays_as_it_is(folder: Path, tmp_path: Path):
    running = await open_sqlite(folder)
    await running.store.journal.create(new_run("run_in_the_log"))
    left = left_by_a_kill(folder, tmp_path / "left")
    await running.close()
    before = {path: path.read_bytes() for path in left.iterdir()}

    back_up(left, tmp_path / "copy.db")

    assert {path: path.read_bytes() for path in before} == before


# --- several at once ---------------------------------------------------------------------------


class _Watched(apsw.Connection):
    """A source that lets something happen when the pages have been copied, before they have a name."""

    def __init__(self, database: Path, meanwhile: Callable[[], object]) -> None:
        super().__init__(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
        self._meanwhile = meanwhile

    def execute(self, statements: str, bindings: Any = None, **options: Any) -> Any:
        done = super().execute(statements, bindings, **options)  # pyright: ignore[reportUnknownMemberType] - the driver's types need Python 3.12
        if statements == "COMMIT":
            self._meanwhile()
        return done


@pytest.mark.parametrize("disk_has_links", [True, False])
async def test_a_file_that_appears_while_the_copy_is_made_is_not_written_over(
    folder: Path, tmp_path: Path, disk_has_links: bool
):
    await old_store(folder)
    target = tmp_path / "copy.db"
    failpoints.configure("" if disk_has_links else "backup.before_publish=err(EPERM)")

    source = _Watched(folder / "jackline.db", lambda: target.write_text("mine"))
    with closing(source), pytest.raises(FileExistsError):
        copy_database(cast("Database", source), target, vfs=None)

    assert target.read_text() == "mine"
    assert set(tmp_path.iterdir()) == {folder, target}


async def test_of_two_copies_to_one_name_the_first_stays_and_the_second_is_refused(
    folder: Path, tmp_path: Path
):
    await old_store(folder)
    target = tmp_path / "copy.db"
    first: list[bytes] = []

    def another() -> None:
        back_up(folder, target)
        first.append(target.read_bytes())

    source = _Watched(folder / "jackline.db", another)
    with closing(source), pytest.raises(FileExistsError):
        copy_database(cast("Database", source), target, vfs=None)

    assert [target.read_bytes()] == first
    assert content_of(target) == content_of(folder / "jackline.db")
    assert set(tmp_path.iterdir()) == {folder, target}


async def test_an_unfinished_copy_of_another_process_is_left_alone(folder: Path, tmp_path: Path):
    await old_store(folder)
    others = [tmp_path / "copy.db.partial", tmp_path / ".copy.db.0123456789abcdef.partial"]
    for other in others:
        other.write_text("under way")

    back_up(folder, tmp_path / "copy.db")

    assert [other.read_text() for other in others] == ["under way"] * 2
    assert set(tmp_path.iterdir()) == {folder, tmp_path / "copy.db", *others}


async def test_a_file_that_was_replaced_before_it_got_its_name_is_not_published(folder: Path, tmp_path: Path):
    await old_store(folder)
    (tmp_path / "to").mkdir()

    def replace() -> None:
        (partial,) = (tmp_path / "to").glob("*.partial")
        partial.rename(tmp_path / "away")
        partial.write_bytes((tmp_path / "away").read_bytes())

    source = _Watched(folder / "jackline.db", replace)
    with closing(source), pytest.raises(StoreDamaged):
        copy_database(cast("Database", source), tmp_path / "to" / "copy.db", vfs=None)

    assert list((tmp_path / "to").iterdir()) == []


async def test_a_disk_without_links_gets_a_copy_all_the_same(folder: Path, tmp_path: Path):
    await old_store(folder)
    failpoints.configure("backup.before_publish=err(EOPNOTSUPP)")

    back_up(folder, tmp_path / "copy.db")

    assert content_of(tmp_path / "copy.db") == content_of(folder / "jackline.db")
    assert set(tmp_path.iterdir()) == {folder, tmp_path / "copy.db"}


# --- refusals ----------------------------------------------------------------------------------


def _target_is_there(_data: Path, target: Path) -> None:
    target.write_text("mine")


def _no_folder_for_it(_data: Path, target: Path) -> None:
    target.parent.rmdir()


def _its_folder_is_a_link_to_itself(_data: Path, target: Path) -> None:
    target.parent.rmdir()
    target.parent.symlink_to(target.parent)


def _no_store(data: Path, _target: Path) -> None:
    (data / "jackline.db").unlink()


def _not_a_database(data: Path, _target: Path) -> None:
    (data / "jackline.db").write_bytes(b"This was never a database. " * 400)


def _damaged(data: Path, _target: Path) -> None:
    database = data / "jackline.db"
    content = bytearray(database.read_bytes())
    content[8 * 4096 : 60 * 4096] = b"\xee" * (52 * 4096)
    database.write_bytes(bytes(content))


REFUSALS = [
    (_target_is_there, StoreUnsuitable, _CANT_CREATE),
    (_no_folder_for_it, StoreUnsuitable, _CANT_CREATE),
    (_its_folder_is_a_link_to_itself, StoreUnsuitable, _CANT_CREATE),
    (_no_store, StoreUnsuitable, _CANT_CREATE),
    (_not_a_database, StoreDamaged, _STORE),
    (_damaged, StoreDamaged, _STORE),
]


@pytest.mark.parametrize(("harm", "error", "_code"), REFUSALS)
async def test_what_can_t_be_copied_leaves_no_copy_and_changes_nothing(
    folder: Path, tmp_path: Path, harm: Callable[[Path, Path], None], error: type[StoreError], _code: int
):
    await old_store(folder)
    target = tmp_path / "to" / "copy.db"
    target.parent.mkdir()
    harm(folder, target)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    with pytest.raises(error):
        back_up(folder, target)

    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    "name",
    [
        *("jackline.db-wal", "jackline.db-shm", "jackline.db-journal", "JACKLINE.DB-WAL"),
        *("jackline.db.new", "jackline.db.restored-20260921T141320Z", "jackline.lock", "backups"),
        *("kept/backups/jackline-v1-20260921T141320Z.db", "link/jackline.db-wal", "link/jackline.lock.1"),
        "../elsewhere.db-wal",
    ],
)
async def test_a_name_under_which_the_copy_would_vanish_is_refused(folder: Path, tmp_path: Path, name: str):
    await old_store(folder)
    (tmp_path / "link").symlink_to(folder)
    (folder / "link").symlink_to(folder)
    (folder / "kept").symlink_to(folder)
    if name.startswith("kept"):
        (folder / "backups").mkdir()
    before = sorted(folder.rglob("*"))

    with pytest.raises(StoreUnsuitable):
        back_up(folder, folder / name)

    assert sorted(folder.rglob("*")) == before
    assert not (folder / name).is_file() or name == "jackline.lock"
    await (await open_sqlite(folder)).close()


@pytest.mark.parametrize("name", ["monday.db", "backups/monday.db"])
async def test_a_copy_with_a_name_of_its_own_may_lie_in_the_data_folder(folder: Path, name: str):
    await old_store(folder)
    (folder / "backups").mkdir()

    back_up(folder, folder / name)
    await (await open_sqlite(folder, to(PRIORITY))).close()

    assert len(content_of(folder / name)["runs"]) == RUNS


async def test_a_database_beside_the_log_of_another_is_not_copied(folder: Path, tmp_path: Path):
    running = await open_sqlite(folder)
    back_up(folder, tmp_path / "early.db")
    await running.store.journal.create(new_run("run_late"))
    left = left_by_a_kill(folder, tmp_path / "left")
    await running.close()
    (left / "jackline.db").write_bytes((tmp_path / "early.db").read_bytes())

    with pytest.raises(StoreDamaged):
        back_up(left, tmp_path / "copy.db")

    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("name", ["backup.mid", "backup.before_publish"])
async def test_a_full_disk_leaves_no_copy(folder: Path, tmp_path: Path, name: str):
    await old_store(folder)
    failpoints.configure(f"{name}=err(ENOSPC)")

    with pytest.raises(StoreFull):
        back_up(folder, tmp_path / "copy.db")

    assert list(tmp_path.iterdir()) == [folder]
    failpoints.configure("")
    assert back_up(folder, tmp_path / "copy.db") > 0


@pytest.mark.parametrize(("harm", "_error", "code"), REFUSALS)
async def test_the_command_says_what_is_wrong_by_its_code(
    folder: Path, tmp_path: Path, harm: Callable[[Path, Path], None], _error: type[StoreError], code: int
):
    await old_store(folder)
    target = tmp_path / "to" / "copy.db"
    target.parent.mkdir()
    harm(folder, target)

    ended, out, err = await command(tmp_path, "backup", "--data", str(folder), str(target))

    assert ended == code
    assert out == ""
    assert err.startswith("jackline backup: ")
    assert len(err.splitlines()) == 1


async def test_the_command_copies_the_store_that_the_environment_names(folder: Path, tmp_path: Path):
    await old_store(folder)

    ended, out, err = await command(tmp_path, "backup", "copy.db", JACKLINE_DATA=str(folder))

    assert (ended, err) == (0, "")
    assert "copy.db" in out
    opened = await open_sqlite(folder)
    assert len(await log(opened.store, "run_0")) == 4
    await opened.close()
    assert content_of(tmp_path / "copy.db")["events"] == content_of(folder / "jackline.db")["events"]
