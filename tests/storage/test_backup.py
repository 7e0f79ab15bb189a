"""A copy of a store that is in use: whole, of one moment, and in nobody's way. Proves part of K1."""

# ruff: noqa: ASYNC240 - these tests look at small files; nothing else runs on their loop

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jackline_server import failpoints
from jackline_server.runtime.store_ports import DEFAULT_TENANT, StoreDamaged, StoreError, StoreFull
from jackline_server.storage.boot_errors import StoreUnsuitable
from jackline_server.storage.sqlite import open_sqlite
from jackline_server.storage.sqlite_backup import back_up
from tests.conformance.stores import event, log, new_run
from tests.storage.disks import look_into
from tests.storage.upgrades import content_of, old_store

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
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    for name in ("jackline.db", "jackline.db-wal", "jackline.lock"):
        (left / name).write_bytes((folder / name).read_bytes())
    await running.close()

    back_up(left, tmp_path / "copy.db")

    assert await opened_copy(tmp_path / "copy.db", tmp_path / "from") == ["run_in_the_log"]


# --- refusals ----------------------------------------------------------------------------------


def _target_is_there(_data: Path, target: Path) -> None:
    target.write_text("mine")


def _no_folder_for_it(_data: Path, target: Path) -> None:
    target.parent.rmdir()


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
    assert {path: after.get(path) for path in before} == before
    assert {path.name for path in after} - {path.name for path in before} <= {
        "jackline.db-wal",
        "jackline.db-shm",
    }


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


async def command(cwd: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jackline_client.cli.main", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cwd),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **environ,
        },
    )
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()
