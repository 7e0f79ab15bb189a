"""A copy in the place of a store: a crash leaves the old or the new, never the log of one with the other."""

# ruff: noqa: ASYNC240 - these tests look at small files; nothing else runs on their loop

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from jackline_server import failpoints
from jackline_server.failpoints import NAMES
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreError, StoreFull, StoreUnavailable
from jackline_server.storage.boot_errors import StoreInUse, StoreTooNew, StoreUnsuitable
from jackline_server.storage.sqlite.backup import back_up
from jackline_server.storage.sqlite.probe import look_at
from jackline_server.storage.sqlite.restore import restore
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import event, new_run
from tests.storage.disks import Disk, look_into
from tests.storage.upgrades import BIG, NOW, TODAY, command, content_of, left_by_a_kill, version_of

OLD = ["run_early", "run_late"]
NEW = ["run_early"]

_RESTORE = """
import sys
from pathlib import Path
from jackline_server import failpoints
from jackline_server.storage.sqlite.restore import restore

failpoints.configure(sys.argv[2])
restore(Path(sys.argv[1]), Path(sys.argv[1]).with_name("early.db"), unix_ms=1)
"""

_HOLD = """
import sys
from jackline_server.storage.sqlite.database import connect

connection = connect(sys.argv[1], flags=2, vfs=None)
connection.execute("SELECT count(*) FROM runs").get
print("open", flush=True)
sys.stdin.read()
"""

_BOOT = """
import asyncio, os, signal, sys
from pathlib import Path
from jackline_server.storage.sqlite.store import open_sqlite
from tests.conformance.stores import new_run

async def main():
    opened = await open_sqlite(Path(sys.argv[1]))
    await opened.store.journal.create(new_run("run_after"))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.fixture
async def data(folder: Path, tmp_path: Path) -> Path:
    """What a killed server left: one run is in the database and in `early.db`, the other in the log alone."""
    running = await open_sqlite(folder)
    await running.store.journal.create(new_run("run_early", first=event(1, content=BIG)))
    await running.close()
    running = await open_sqlite(folder)
    back_up(folder, tmp_path / "early.db")
    await running.store.journal.create(new_run("run_late", first=event(1, content=BIG)))
    left = left_by_a_kill(folder, tmp_path / "left")
    await running.close()
    return left


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "early.db"


async def booted(data: Path) -> list[str]:
    """The runs that a server finds there."""
    opened = await open_sqlite(data)
    assert opened.checked_whole
    await opened.close()
    return runs_in(data / "jackline.db")


def runs_in(database: Path) -> list[str]:
    with closing(look_into(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        return [run for (run,) in connection.execute("SELECT run_id FROM runs ORDER BY run_key").fetchall()]


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def python() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


async def killed(script: str, *words: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *words, env=python())
    assert await asyncio.wait_for(process.wait(), 30) == -signal.SIGKILL


# --- a restore ---------------------------------------------------------------------------------


async def test_a_copy_takes_the_place_of_a_killed_store_which_is_kept_with_its_log(data: Path, copy: Path):
    before, source = files_in(data), copy.read_bytes()

    done = restore(data, copy, unix_ms=NOW)

    assert done.aside is not None
    assert done.aside == data / "replaced-20260921T141320Z"
    assert done.aside.stat().st_mode & 0o077 == 0
    for name in ("jackline.db", "jackline.db-wal"):
        assert (done.aside / name).read_bytes() == before[data / name]
    assert sorted(path.name for path in data.iterdir()) == ["jackline.db", "jackline.lock", done.aside.name]
    assert copy.read_bytes() == source
    assert list(copy.parent.glob("early.db*")) == [copy]
    assert await booted(data) == NEW
    assert runs_in(done.aside / "jackline.db") == OLD


async def test_a_copy_is_put_where_no_store_ever_was(data: Path, copy: Path, tmp_path: Path):
    done = restore(tmp_path / "other" / "data", copy, unix_ms=NOW)

    assert done.aside is None
    assert content_of(tmp_path / "other" / "data" / "jackline.db") == content_of(copy)
    assert await booted(tmp_path / "other" / "data") == NEW
    assert data.exists()


async def test_two_restores_in_one_second_keep_all_that_was_there(data: Path, copy: Path):
    first = restore(data, copy, unix_ms=NOW)
    second = restore(data, copy, unix_ms=NOW)

    assert first.aside is not None
    assert second.aside is not None
    assert runs_in(first.aside / "jackline.db") == OLD
    assert runs_in(second.aside / "jackline.db") == NEW
    assert await booted(data) == NEW


async def test_a_restore_after_one_that_was_cut_off_keeps_what_both_replaced(data: Path, copy: Path):
    await killed(_RESTORE, str(data), "restore.mid=kill")

    restore(data, copy, unix_ms=NOW)

    asides = sorted(data.glob("replaced-*"))
    assert [runs_in(aside / "jackline.db") for aside in asides] == [OLD, NEW]
    assert await booted(data) == NEW


# --- cut off anywhere --------------------------------------------------------------------------

KILLS = {
    "backup.before=kill": OLD,
    "backup.mid=kill": OLD,
    "backup.before_publish=kill": OLD,
    "restore.prepared=kill": NEW,
    "restore.mid=kill@1": NEW,
    "restore.mid=kill@2": NEW,
    "restore.before_place=kill": NEW,
    "restore.after=kill": NEW,
}


def test_every_step_of_a_restore_has_a_case():
    names = {kill.partition("=")[0] for kill in KILLS}
    assert {name for name in NAMES if name.startswith(("restore.", "backup."))} == names


@pytest.mark.parametrize("kill", KILLS)
async def test_a_kill_during_a_restore_leaves_the_old_store_or_the_new_one(data: Path, copy: Path, kill: str):
    await killed(_RESTORE, str(data), kill)

    assert look_at(data).has_database
    assert await booted(data) == KILLS[kill]
    asides = list(data.glob("replaced-*"))
    assert [runs_in(aside / "jackline.db") for aside in asides] == [OLD] * (KILLS[kill] == NEW)
    assert {path.name for path in data.iterdir()} - {aside.name for aside in asides} == {
        "jackline.db",
        "jackline.lock",
    }
    assert copy.exists()


@pytest.mark.parametrize("kill", KILLS)
async def test_at_every_moment_the_log_lies_beside_its_own_database_or_aside(
    data: Path, copy: Path, kill: str
):
    log = (data / "jackline.db-wal").read_bytes()
    old = (data / "jackline.db").read_bytes()

    await killed(_RESTORE, str(data), kill)

    database = data / "jackline.db"
    is_the_copy = database.exists() and database.read_bytes() != old
    assert not (is_the_copy and (data / "jackline.db-wal").exists())
    if database.exists() and not is_the_copy:
        assert (data / "jackline.db-wal").read_bytes() == log
    logs = [path.read_bytes() for path in data.rglob("jackline.db-wal")]
    assert logs == [log]
    assert copy.exists()


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize(("error", "met"), [("ENOSPC", StoreFull), ("EIO", StoreError)])
async def test_an_error_of_the_disk_leaves_the_old_store_or_the_new_one(
    data: Path, copy: Path, kill: str, error: str, met: type[StoreError]
):
    name = kill.partition("=")[0]
    failpoints.configure(kill.replace("kill", f"err({error})"))

    with pytest.raises(met if KILLS[kill] == OLD else StoreUnavailable):
        restore(data, copy, unix_ms=NOW)

    failpoints.configure("")
    assert await booted(data) == KILLS[kill], name
    assert not list(data.glob(".*"))


# --- refusals ----------------------------------------------------------------------------------


def _missing(_data: Path, copy: Path) -> None:
    copy.unlink()


def _not_a_database(_data: Path, copy: Path) -> None:
    copy.write_bytes(b"This was never a database. " * 400)


def _empty(_data: Path, copy: Path) -> None:
    copy.write_bytes(b"")


def _damaged(_data: Path, copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    content[8 * 4096 : 60 * 4096] = b"\xee" * (52 * 4096)
    copy.write_bytes(bytes(content))


def _of_another_program(_data: Path, copy: Path) -> None:
    with closing(look_into(copy)) as connection:
        connection.execute("PRAGMA application_id = 7")


def _of_a_newer_version(_data: Path, copy: Path) -> None:
    with closing(look_into(copy)) as connection:
        connection.execute("PRAGMA user_version = 40")


def _with_a_log(_data: Path, copy: Path) -> None:
    copy.with_name("early.db-wal").write_text("something")


def _the_store_itself(data: Path, copy: Path) -> None:
    copy.unlink()
    copy.symlink_to(data / "jackline.db")


REFUSALS = [
    (_missing, StoreUnsuitable, 73),
    (_with_a_log, StoreUnsuitable, 73),
    (_the_store_itself, StoreUnsuitable, 73),
    (_not_a_database, StoreDamaged, 74),
    (_empty, StoreDamaged, 74),
    (_damaged, StoreDamaged, 74),
    (_of_another_program, StoreDamaged, 74),
    (_of_a_newer_version, StoreTooNew, 78),
]


@pytest.mark.parametrize(("harm", "error", "code"), REFUSALS)
async def test_what_can_t_be_restored_changes_nothing(
    data: Path, copy: Path, harm: Callable[[Path, Path], None], error: type[StoreError], code: int
):
    harm(data, copy)
    before = files_in(copy.parent)

    with pytest.raises(error):
        restore(data, copy, unix_ms=NOW)
    assert files_in(copy.parent) == before

    ended, out, err = await command(copy.parent, "restore", "--data", str(data), "early.db")
    assert (ended, out) == (code, "")
    assert err.startswith("jackline restore: ")
    assert len(err.splitlines()) == 1
    assert files_in(copy.parent) == before


async def test_a_folder_that_a_server_holds_is_refused(folder: Path, copy: Path, data: Path):
    running = await open_sqlite(folder)
    before = files_in(folder)

    ended, _, _ = await command(copy.parent, "restore", "--data", str(folder), "early.db")

    assert ended == 75
    assert files_in(folder) == before
    await running.close()
    assert await booted(folder) == OLD
    assert data.exists()


@asynccontextmanager
async def held_open(database: Path) -> AsyncGenerator[None]:
    """Another program has the database open."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _HOLD, str(database)), stdin=pipe, stdout=pipe, env=python()
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 30) == b"open\n"
    try:
        yield
    finally:
        await asyncio.wait_for(process.communicate(b""), 30)


async def test_a_database_that_another_program_has_open_is_not_replaced(data: Path, copy: Path):
    async with held_open(data / "jackline.db"):
        before = sorted(files_in(data))
        with pytest.raises(StoreInUse):
            restore(data, copy, unix_ms=NOW)
        assert sorted(files_in(data)) == before
    assert await booted(data) == OLD


async def test_the_command_says_what_it_did(data: Path, copy: Path):
    ended, out, err = await command(copy.parent, "restore", "early.db", JACKLINE_DATA=str(data))

    assert (ended, err) == (0, "")
    (aside,) = data.glob("replaced-*")
    assert str(aside) in out
    assert await booted(data) == NEW


# --- by hand, beside a log that was left -------------------------------------------------------


async def test_a_copy_put_beside_the_log_of_another_store_is_refused_before_anything_is_lost(
    data: Path, copy: Path
):
    (data / "jackline.db").write_bytes(copy.read_bytes())
    before = files_in(data)

    for _ in range(2):
        with pytest.raises(StoreDamaged):
            await open_sqlite(data)
        assert files_in(data) == before

    (data / "jackline.db-wal").unlink()
    assert await booted(data) == NEW


async def test_the_same_copy_put_there_twice_is_noticed_the_second_time(data: Path, copy: Path):
    (data / "jackline.db-wal").unlink()
    (data / "jackline.db").write_bytes(copy.read_bytes())
    await killed(_BOOT, str(data))
    assert (data / "jackline.db-wal").stat().st_size > 0
    (data / "jackline.db").write_bytes(copy.read_bytes())

    with pytest.raises(StoreDamaged):
        await open_sqlite(data)


async def test_the_log_of_a_restored_store_is_its_own(data: Path, copy: Path):
    restore(data, copy, unix_ms=NOW)
    await killed(_BOOT, str(data))

    assert await booted(data) == [*NEW, "run_after"]


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_store_that_was_brought_here_is_taken_over_whatever_call_of_the_disk_fails(
    data: Path, copy: Path, kind: str, disk: Disk, tmp_path: Path
):
    at_call, failed = 0, True
    while failed:
        at_call += 1
        folder, left, failed, calls = tmp_path / f"n{at_call}", tmp_path / f"left{at_call}", False, 0
        restore(folder, copy, unix_ms=NOW)
        (folder / "jackline.lock").write_text("of-another-store\n")

        def fail(met: str, last: int = at_call) -> Exception | None:
            nonlocal calls, failed
            calls += met == kind
            failed = failed or calls == last
            return OSError(5, "the disk failed") if calls >= last else None

        disk.fail = fail
        try:
            opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name))
        except StoreError:
            pass  # every later call failed, too: the log is left as a crash leaves it
        else:
            left_by_a_kill(folder, left)
            disk.fail = lambda _: None
            await opened.close()
            assert await booted(left) == NEW
        disk.fail = lambda _: None
        assert await booted(folder) == NEW
    assert at_call > 2
    assert version_of(copy) == TODAY
    assert data.exists()
