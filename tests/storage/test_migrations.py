"""An older store is brought up to date at boot: whole, backed up first, or not at all. Proves U1."""

# ruff: noqa: ASYNC240 - these tests harm small files on purpose; nothing else runs on their loop

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from jackline_server import failpoints
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreError, StoreFull, StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.boot_errors import StoreInUse, StoreTooNew, StoreUnsuitable, UpgradeFailed
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.migrations import MIGRATIONS, Migration, newest_version
from jackline_server.storage.sqlite.schema import SCHEMA_VERSION
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from jackline_server.storage.sqlite.upgrade import UpgradeSettings
from tests.conformance.stores import log, new_run
from tests.storage.disks import Disk, look_into
from tests.storage.upgrades import (
    NOW,
    PRIORITY,
    RUNS,
    SUMS,
    TODAY,
    at,
    backups_in,
    content_of,
    old_store,
    to,
    version_of,
)


def _raises(_connection: Database) -> None:
    raise LookupError("a row that should be there")


def _commits(connection: Database) -> None:
    connection.execute("UPDATE runs SET labels = 'gone'")
    connection.execute("ROLLBACK")


def _nonsense(connection: Database) -> None:
    connection.execute("DELETE FROM events")
    connection.execute("ALTER TABLE nothing ADD COLUMN x")


def test_the_released_migrations_lead_to_the_schema_of_the_tables():
    assert newest_version(MIGRATIONS) == SCHEMA_VERSION


@pytest.mark.parametrize("migrations", [[SUMS], [SUMS, PRIORITY], [PRIORITY, PRIORITY]])
async def test_migrations_out_of_order_are_a_mistake_that_nothing_is_opened_with(
    folder: Path, migrations: Sequence[Migration]
):
    await old_store(folder)

    with pytest.raises(ValueError, match="hole"):
        await open_sqlite(folder, to(*migrations))

    await (await open_sqlite(folder)).close()


# --- what an upgrade does ----------------------------------------------------------------------


@pytest.mark.parametrize(("migrations", "version"), [((PRIORITY,), TODAY + 1), ((PRIORITY, SUMS), TODAY + 2)])
async def test_an_upgrade_changes_the_tables_and_keeps_every_fact(
    folder: Path, migrations: tuple[Migration, ...], version: int
):
    await old_store(folder)
    before = content_of(folder / "jackline.db")

    opened = await open_sqlite(folder, to(*migrations))

    assert opened.upgrade is not None
    assert (opened.upgrade.old, opened.upgrade.new) == (TODAY, version)
    assert [len(await log(opened.store, f"run_{number}")) for number in range(RUNS)] == [4, 5, 4, 5]
    await opened.store.journal.create(new_run("run_new"))
    await opened.close()
    after = content_of(folder / "jackline.db")
    assert version_of(folder / "jackline.db") == version
    assert after["events"][: len(before["events"])] == before["events"]
    assert {"runs_by_priority"} <= {str(name) for name, _ in after[""]}
    if version == TODAY + 2:
        assert len(after["sums"]) == len(before["events"])


async def test_an_upgrade_begins_with_a_backup_of_all_that_there_was(folder: Path):
    await old_store(folder)
    before = content_of(folder / "jackline.db")

    opened = await open_sqlite(folder, to(PRIORITY, clock=at(NOW)))
    await opened.close()

    assert opened.upgrade is not None
    assert (
        backups_in(folder)
        == [opened.upgrade.backup]
        == [folder / "backups" / f"jackline-v{TODAY}-20260921T141320Z.db"]
    )
    assert opened.upgrade.backup.stat().st_mode & 0o777 == 0o600
    assert (folder / "backups").stat().st_mode & 0o777 == 0o700
    assert content_of(opened.upgrade.backup) == before


async def test_a_backup_in_the_store_s_place_is_the_store_as_it_was(folder: Path):
    await old_store(folder)
    opened = await open_sqlite(folder, to(PRIORITY))
    await opened.store.journal.create(new_run("run_late"))
    await opened.close()
    assert opened.upgrade is not None

    (folder / "jackline.db").unlink()
    opened.upgrade.backup.rename(folder / "jackline.db")
    opened = await open_sqlite(folder)

    assert opened.upgrade is None
    assert len(await log(opened.store, "run_0")) == 4
    assert await opened.store.runs.get(DEFAULT_TENANT, "run_late") is None
    await opened.close()


async def test_a_store_that_is_up_to_date_is_neither_backed_up_nor_changed(folder: Path):
    await old_store(folder)
    await (await open_sqlite(folder, to(PRIORITY))).close()
    before, made = content_of(folder / "jackline.db"), backups_in(folder)

    opened = await open_sqlite(folder, to(PRIORITY))
    await opened.close()

    assert opened.upgrade is None
    assert content_of(folder / "jackline.db") == before
    assert backups_in(folder) == made


async def test_what_was_only_in_the_log_of_a_killed_server_is_in_the_backup_too(folder: Path, tmp_path: Path):
    running = await open_sqlite(folder)
    for number in range(RUNS):
        await running.store.journal.create(new_run(f"run_{number}"))
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    for name in ("jackline.db", "jackline.db-wal", "jackline.lock"):
        (left / name).write_bytes((folder / name).read_bytes())
    await running.close()
    assert (left / "jackline.db-wal").stat().st_size > 0

    opened = await open_sqlite(left, to(PRIORITY))
    await opened.close()

    assert opened.upgrade is not None
    assert len(content_of(opened.upgrade.backup)["events"]) == RUNS


# --- how many backups stay ---------------------------------------------------------------------


async def test_the_newest_backups_stay_and_other_files_are_left_alone(folder: Path):
    await old_store(folder)
    mine = folder / "backups" / "mine.db"
    for number in range(5):
        await (await open_sqlite(folder, to(PRIORITY, clock=at(NOW + number * 1_000)))).close()
        mine.write_text("mine")
        newest = backups_in(folder)[-2]
        (folder / "jackline.db").write_bytes(newest.read_bytes())

    names = [backup.name for backup in backups_in(folder)]
    assert names == [f"jackline-v{TODAY}-20260921T14132{second}Z.db" for second in (2, 3, 4)] + ["mine.db"]


async def test_attempts_that_fail_do_not_fill_the_disk_with_backups(folder: Path):
    await old_store(folder)
    failing = Migration(version=TODAY + 1, title="fails", apply=_nonsense)
    for number in range(6):
        with pytest.raises(UpgradeFailed):
            await open_sqlite(folder, to(failing, clock=at(NOW + number)))

    assert len(backups_in(folder)) == 3
    assert all(version_of(backup) == TODAY for backup in backups_in(folder))


async def test_a_clock_that_jumped_back_does_not_cost_the_backup_just_made(folder: Path):
    await old_store(folder)
    (folder / "backups").mkdir(mode=0o700)
    for month in (1, 2, 3):
        (folder / "backups" / f"jackline-v7-2999{month:02}01T000000Z.db").write_text("of a wrong clock")

    opened = await open_sqlite(folder, to(PRIORITY, clock=at(NOW)))
    await opened.close()

    assert opened.upgrade is not None
    assert opened.upgrade.backup in backups_in(folder)
    assert len(backups_in(folder)) == 3


# --- what stops an upgrade ---------------------------------------------------------------------


@pytest.mark.parametrize("harm", [_raises, _commits, _nonsense])
async def test_a_migration_that_fails_leaves_the_store_as_it_was(
    folder: Path, harm: Callable[[Database], None]
):
    await old_store(folder)
    before = content_of(folder / "jackline.db")
    broken = Migration(version=TODAY + 2, title="breaks", apply=harm)

    with pytest.raises(UpgradeFailed):
        await open_sqlite(folder, to(PRIORITY, broken))

    assert content_of(folder / "jackline.db") == before
    assert [content_of(backup) for backup in backups_in(folder)] == [before]
    opened = await open_sqlite(folder)
    assert len(await log(opened.store, "run_0")) == 4
    await opened.close()


async def test_a_disk_without_room_for_it_is_noticed_before_an_upgrade_begins(folder: Path):
    await old_store(folder)
    before = content_of(folder / "jackline.db")
    size = (folder / "jackline.db").stat().st_size
    tight = replace(
        to(PRIORITY), upgrade=UpgradeSettings(migrations=(*MIGRATIONS, PRIORITY), free=lambda _: 2 * size)
    )

    with pytest.raises(StoreFull):
        await open_sqlite(folder, tight)

    assert not (folder / "backups").exists()
    assert content_of(folder / "jackline.db") == before


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("backup.before", TODAY),
        ("backup.mid", TODAY),
        ("backup.before_publish", TODAY),
        ("migrate.before", TODAY),
        ("migrate.mid", TODAY),
        ("migrate.before_commit", TODAY),
        ("migrate.after", TODAY + 1),
    ],
)
@pytest.mark.parametrize(("error", "met"), [("ENOSPC", StoreFull), ("EIO", StoreUnavailable)])
async def test_an_error_of_the_disk_anywhere_leaves_the_old_schema_or_the_new_one(
    folder: Path, name: str, version: int, error: str, met: type[StoreError]
):
    await old_store(folder)
    failpoints.configure(f"{name}=err({error})")

    with pytest.raises(met):
        await open_sqlite(folder, to(PRIORITY))

    failpoints.configure("")
    assert version_of(folder / "jackline.db") == version
    assert not [path for path in backups_in(folder) if path.suffix != ".db"]
    opened = await open_sqlite(folder, to(PRIORITY))
    assert len(await log(opened.store, "run_1")) == 5
    await opened.close()


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_disk_that_fails_at_any_call_leaves_the_old_schema_or_the_new_one(
    folder: Path, kind: str, disk: Disk
):
    await old_store(folder)
    at_call, failed = 0, True
    while failed:
        at_call, calls, failed = at_call + 1, 0, False

        def fail(one: str, last: int = at_call) -> Exception | None:
            nonlocal calls, failed
            calls += one == kind
            failed = failed or (one == kind and calls == last)
            return apsw.IOError("broken") if one == kind and calls == last else None

        disk.fail = fail
        settings = replace(to(PRIORITY), vfs=disk.name)
        try:
            opened = await open_sqlite(folder, settings)
        except StoreError:
            assert version_of(folder / "jackline.db") in (TODAY, TODAY + 1)
        else:
            disk.fail = lambda _: None
            await opened.close()
        disk.fail = lambda _: None
        if version_of(folder / "jackline.db") == TODAY + 1 and failed:
            newest = [backup for backup in backups_in(folder) if version_of(backup) == TODAY][-1]
            (folder / "jackline.db").write_bytes(newest.read_bytes())
        assert len(content_of(folder / "jackline.db")["events"]) == 18
    assert at_call > 2


async def test_a_folder_that_can_hold_no_backups_is_refused_and_nothing_is_changed(folder: Path):
    await old_store(folder)
    before = content_of(folder / "jackline.db")
    (folder / "backups").write_text("in the way")

    with pytest.raises(StoreUnsuitable):
        await open_sqlite(folder, to(PRIORITY))

    assert content_of(folder / "jackline.db") == before
    assert (folder / "backups").read_text() == "in the way"


async def test_a_store_that_another_process_writes_is_not_upgraded_under_it(folder: Path):
    await old_store(folder)
    foreign = look_into(folder / "jackline.db")
    foreign.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StoreInUse):
            await open_sqlite(folder, to(PRIORITY))
    finally:
        foreign.execute("ROLLBACK")
        foreign.close()

    assert version_of(folder / "jackline.db") == TODAY


async def test_a_damaged_store_is_not_upgraded(folder: Path):
    await old_store(folder)
    database = folder / "jackline.db"
    data = bytearray(database.read_bytes())
    data[8 * 4096 : 60 * 4096] = b"\xee" * (52 * 4096)
    database.write_bytes(bytes(data))

    with pytest.raises(StoreDamaged):
        await open_sqlite(folder, to(PRIORITY))

    assert database.read_bytes() == bytes(data)
    assert backups_in(folder) == []


async def test_damage_that_the_quick_search_misses_is_found_in_the_backup(folder: Path):
    opened = await open_sqlite(folder)
    await asyncio.gather(*(opened.store.journal.create(new_run(f"run_{number}")) for number in range(200)))
    await opened.close()
    with closing(sqlite3.connect(folder / "jackline.db")) as harm:
        harm.execute("PRAGMA writable_schema = ON")
        harm.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, '(run_key, sequence)', '(sequence, run_key)')"
        )
        harm.commit()

    with pytest.raises(StoreDamaged):
        await open_sqlite(folder, replace(to(PRIORITY), check_ms=0))

    assert version_of(folder / "jackline.db") == TODAY
    assert backups_in(folder) == []


# --- newer, older, foreign ---------------------------------------------------------------------


async def test_a_newer_store_is_refused_with_the_name_of_the_release_that_wrote_it(folder: Path):
    await old_store(folder)
    opened = await open_sqlite(folder, to(PRIORITY, release="2.0.0"))
    await opened.close()
    assert opened.upgrade is not None

    with pytest.raises(StoreTooNew) as refused:
        await open_sqlite(folder, SqliteSettings(upgrade=UpgradeSettings(release="1.0.0")))

    words = str(refused.value)
    assert all(
        word in words for word in ("2.0.0", "1.0.0", f"schema {TODAY + 1}", str(opened.upgrade.backup))
    )


async def test_a_newer_store_whose_tables_nobody_knows_is_refused_all_the_same(folder: Path):
    await old_store(folder)
    with closing(look_into(folder / "jackline.db")) as connection:
        connection.execute("DROP TABLE meta")
        connection.execute("PRAGMA user_version = 40")

    with pytest.raises(StoreTooNew):
        await open_sqlite(folder)


async def test_a_refused_store_keeps_every_byte_also_those_in_its_log(folder: Path, tmp_path: Path):
    running = await open_sqlite(folder, to(PRIORITY))
    await running.store.journal.create(new_run())
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    names = ("jackline.db", "jackline.db-wal", "jackline.lock")
    for name in names:
        (left / name).write_bytes((folder / name).read_bytes())
    await running.close()
    before = {name: (left / name).read_bytes() for name in names}
    assert before["jackline.db-wal"]

    for _ in range(2):
        with pytest.raises(StoreTooNew):
            await open_sqlite(left)

    assert {name: (left / name).read_bytes() for name in names} == before
    assert not (left / "backups").exists()


async def test_a_database_of_another_program_is_never_upgraded(folder: Path):
    folder.mkdir(mode=0o700)
    with closing(sqlite3.connect(folder / "jackline.db")) as foreign:
        foreign.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY)")
        foreign.execute("PRAGMA user_version = 1")
        foreign.commit()
    before = (folder / "jackline.db").read_bytes()

    with pytest.raises(StoreDamaged):
        await open_sqlite(folder, to(PRIORITY))

    assert (folder / "jackline.db").read_bytes() == before


async def test_a_release_is_remembered_by_the_store_that_it_opened(folder: Path):
    for release in ("1.0.0", "1.0.1"):
        await (await open_sqlite(folder, SqliteSettings(upgrade=UpgradeSettings(release=release)))).close()

    with closing(look_into(folder / "jackline.db")) as connection:
        assert connection.execute("SELECT value FROM meta WHERE name = 'written_by'").get == "1.0.1"
