"""Opening a SQLite store: what is created, what is checked, what is refused, and that nothing is lost."""

# ruff: noqa: ASYNC240 - these tests harm small files on purpose; nothing else runs on their loop

import asyncio
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.command_table import CommandState
from jackline_server.runtime.ports.journal import Creation
from jackline_server.runtime.ports.store import Durability
from jackline_server.runtime.ports.store_errors import Fenced, StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.boot_errors import StoreInUse, StoreUnsuitable
from jackline_server.storage.sqlite.schema import SCHEMA_VERSION
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import (
    LEASE_MS,
    ManualTime,
    append,
    applied,
    finish,
    head,
    log,
    new_run,
    revision,
)
from tests.storage.disks import look_into


async def test_the_folder_and_its_files_are_closed_to_others(folder: Path):
    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert {"jackline.db", "jackline.db-wal", "jackline.lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}
    await opened.close()


async def test_rights_that_were_opened_up_are_taken_back(folder: Path):
    await (await open_sqlite(folder)).close()
    folder.chmod(0o755)
    (folder / "jackline.db").chmod(0o644)

    await (await open_sqlite(folder)).close()

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "jackline.db").stat().st_mode) == 0o600


async def test_an_open_folder_with_other_files_is_refused_and_left_as_it_is(folder: Path):
    folder.mkdir(mode=0o755)
    (folder / "thesis.txt").write_text("mine")

    with pytest.raises(StoreUnsuitable):
        await open_sqlite(folder)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [file.name for file in folder.iterdir()] == ["thesis.txt"]


async def test_a_file_in_place_of_the_folder_is_refused(folder: Path):
    folder.write_text("not a folder")

    with pytest.raises(StoreUnsuitable):
        await open_sqlite(folder)


async def test_a_second_server_on_the_folder_is_refused_until_the_first_has_closed(folder: Path):
    first = await open_sqlite(folder)

    with pytest.raises(StoreInUse):
        await open_sqlite(folder)

    await first.close()
    await (await open_sqlite(folder)).close()


async def test_the_file_carries_its_application_version_and_generation(folder: Path):
    opened = await open_sqlite(folder)
    generation = opened.generation
    assert opened.store.durability is Durability.FSYNC
    assert opened.checked_whole
    await opened.close()
    again = await open_sqlite(folder)
    assert again.generation == generation
    await again.close()

    look = look_into(folder / "jackline.db")
    assert look.execute("PRAGMA application_id").get == 0x4A4C4E45
    assert look.execute("PRAGMA user_version").get == SCHEMA_VERSION
    assert look.execute("PRAGMA journal_mode").get == "wal"
    look.close()


async def test_two_stores_have_two_generations(tmp_path: Path):
    first, second = await open_sqlite(tmp_path / "a"), await open_sqlite(tmp_path / "b")
    assert first.generation != second.generation
    await first.close()
    await second.close()


async def test_everything_acknowledged_is_there_after_closing_and_opening(folder: Path):
    opened = await open_sqlite(folder)
    store = opened.store
    await store.journal.create(new_run(request_id="order-1", labels={"team": "red"}))
    await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)
    await store.journal.append(append(settled=[applied("one", 2)]))
    await store.journal.append(finish(after=2))
    await store.revisions.put(revision("d1", files={"a": b"b"}), alias="prod", expect=None)
    before = (await log(store), await store.runs.get(DEFAULT_TENANT, "run_a"))
    await opened.close()

    opened = await open_sqlite(folder)
    store = opened.store
    assert (await log(store), await store.runs.get(DEFAULT_TENANT, "run_a")) == before
    again = await store.journal.create(new_run("run_b", request_id="order-1"))
    assert (again.creation, again.run_id) == (Creation.DUPLICATE, "run_a")
    one = await store.commands.get("run_a", "one")
    assert one is not None
    assert one.state is CommandState.APPLIED
    row = await store.revisions.get(DEFAULT_TENANT, "refunds", "prod")
    assert row is not None
    assert row.files == {"a": b"b"}
    assert await store.journal.plan("digest") == b"plan"
    await opened.close()


async def test_a_boot_voids_all_leases_and_fences_their_owners(folder: Path, time: ManualTime):
    settings = SqliteSettings(clock=time.clock(), lease_ms=LEASE_MS)
    opened = await open_sqlite(folder, settings)
    await opened.store.journal.create(new_run("run_a"))
    await opened.store.journal.create(new_run("run_b", owner=None))
    await opened.close()
    time.unix += 4_000
    time.monotonic = 17

    opened = await open_sqlite(folder, settings)

    assert opened.voided_leases == 1
    with pytest.raises(Fenced):
        await opened.store.journal.append(append("run_a", epoch=1))
    claims = await opened.store.leases.claim("new", limit=9, now_unix_ms=0)
    assert {claim.run_id: (claim.epoch, claim.gap_ms) for claim in claims} == {
        "run_a": (3, 4_000),
        "run_b": (1, None),
    }
    await opened.close()


@pytest.mark.parametrize(("jump", "gap"), [(86_400_000, LEASE_MS), (-86_400_000, 0)])
async def test_a_wall_clock_that_jumped_over_a_restart_is_clamped(
    folder: Path, time: ManualTime, jump: int, gap: int
):
    settings = SqliteSettings(clock=time.clock(), lease_ms=LEASE_MS)
    opened = await open_sqlite(folder, settings)
    await opened.store.journal.create(new_run())
    await opened.close()
    time.unix += jump

    opened = await open_sqlite(folder, settings)
    (claim,) = await opened.store.leases.claim("new", limit=9, now_unix_ms=0)

    assert claim.gap_ms == gap
    await opened.close()


async def test_a_gap_survives_a_boot_at_which_nobody_claimed(folder: Path, time: ManualTime):
    settings = SqliteSettings(clock=time.clock(), lease_ms=LEASE_MS)
    opened = await open_sqlite(folder, settings)
    await opened.store.journal.create(new_run())
    for _ in range(2):
        await opened.close()
        time.unix += 2_000
        time.monotonic -= 500_000
        opened = await open_sqlite(folder, settings)

    (claim,) = await opened.store.leases.claim("new", limit=9, now_unix_ms=0)

    assert claim.gap_ms == 4_000
    await opened.close()


async def test_a_run_in_good_order_has_no_gap_after_a_boot(folder: Path, time: ManualTime):
    settings = SqliteSettings(clock=time.clock(), lease_ms=LEASE_MS)
    opened = await open_sqlite(folder, settings)
    await opened.store.journal.create(new_run("run_a"))
    await opened.store.leases.release("worker", "run_a", epoch=1)
    await opened.store.journal.create(new_run("run_b"))
    await opened.store.journal.append(append("run_b", at=head(Phase.RUNNING)))
    await opened.store.leases.release("worker", "run_b", epoch=1)
    await opened.close()

    opened = await open_sqlite(folder, settings)
    claims = await opened.store.leases.claim("new", limit=9, now_unix_ms=0)

    assert [claim.gap_ms for claim in claims] == [None, None]
    await opened.close()


async def test_what_a_crash_left_of_a_first_boot_is_cleared_away(folder: Path):
    folder.mkdir(mode=0o700)
    (folder / "jackline.db.new").write_bytes(b"half")
    (folder / "jackline.db.new-wal").write_bytes(b"half")

    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())
    await opened.close()

    assert sorted(file.name for file in folder.iterdir()) == ["jackline.db", "jackline.lock"]


async def test_a_foreign_process_that_writes_is_named_at_boot(folder: Path):
    await (await open_sqlite(folder)).close()
    foreign = look_into(folder / "jackline.db")
    foreign.execute("PRAGMA locking_mode = EXCLUSIVE")
    foreign.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreInUse):
        await open_sqlite(folder)

    foreign.close()
    await (await open_sqlite(folder)).close()


async def test_a_search_for_damage_that_takes_too_long_is_given_up(folder: Path):
    opened = await open_sqlite(folder)
    await asyncio.gather(*(opened.store.journal.create(new_run(f"run_{number}")) for number in range(2_000)))
    await opened.close()

    opened = await open_sqlite(folder, SqliteSettings(check_ms=0))

    assert not opened.checked_whole
    assert len(await log(opened.store, "run_7")) == 1
    await opened.close()


async def test_a_closed_store_refuses_everything_and_closes_again(folder: Path):
    opened = await open_sqlite(folder)
    await opened.close()
    await opened.close()

    with pytest.raises(StoreUnavailable):
        await opened.store.journal.create(new_run())
    with pytest.raises(StoreUnavailable):
        await log(opened.store)


async def test_closing_amid_writes_keeps_what_was_acknowledged_and_fails_the_rest(folder: Path):
    opened = await open_sqlite(folder)
    writes = [
        asyncio.ensure_future(opened.store.journal.create(new_run(f"run_{number}")))
        for number in range(2_000)
    ]
    await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)
    await opened.close()
    done, pending = await asyncio.wait(writes, timeout=5)
    assert not pending

    acknowledged: set[str] = set()
    for write in done:
        with suppress(StoreUnavailable):
            acknowledged.add(write.result().run_id)
    assert 0 < len(acknowledged) < 2_000
    opened = await open_sqlite(folder)
    for run_id in acknowledged:
        assert await opened.store.runs.get(DEFAULT_TENANT, run_id) is not None
    await opened.close()
