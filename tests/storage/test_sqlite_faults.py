"""A SQLite store on a disk that fails: what is refused, what breaks it, and what comes back by itself."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from jackline_server import failpoints
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreError, StoreFull, StoreUnavailable
from jackline_server.storage.sqlite.store import SqliteSettings, SqliteStore, open_sqlite
from tests.conformance.stores import append, event, log, new_run
from tests.storage.disks import Disk, look_into


async def test_a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself(folder: Path, disk: Disk):
    opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name))
    await opened.store.journal.create(new_run())
    disk.fail = lambda kind: apsw.FullError("no room") if kind == "write" else None

    for _ in range(2):
        with pytest.raises(StoreFull):
            await opened.store.journal.append(append())
    assert await log(opened.store) == [event(1)]
    assert opened.broken is None

    disk.fail = lambda _kind: None
    await opened.store.journal.append(append())
    assert await log(opened.store) == [event(1), event(2)]
    await opened.close()


async def test_an_append_that_found_no_room_can_be_repeated(folder: Path):
    failpoints.configure("store.write=err(ENOSPC)@1")
    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())

    with pytest.raises(StoreFull):
        await opened.store.journal.append(append())
    await opened.store.journal.append(append())
    await opened.close()


async def test_a_write_whose_caller_is_cancelled_is_not_taken_back(folder: Path):
    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())
    writing = asyncio.create_task(opened.store.journal.append(append()))
    asyncio.get_running_loop().call_soon(writing.cancel)  # before the writer's thread has it
    await asyncio.wait({writing})
    assert writing.cancelled()
    await opened.store.journal.create(new_run("run_b"))

    assert await log(opened.store) == [event(1), event(2)]
    await opened.close()


@pytest.mark.parametrize("kind", ["write", "sync"])
async def test_a_failed_write_or_sync_ends_acknowledging_for_good(folder: Path, disk: Disk, kind: str):
    told: list[StoreError] = []
    opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name, on_broken=told.append))
    await opened.store.journal.create(new_run())
    disk.fail = lambda met: apsw.IOError("disk") if met == kind else None

    with pytest.raises(StoreUnavailable):
        await opened.store.journal.append(append())
    disk.fail = lambda _kind: None
    with pytest.raises(StoreUnavailable):
        await opened.store.journal.append(append())

    assert isinstance(opened.broken, StoreUnavailable)
    assert len(told) == 1
    assert event(1) in await log(opened.store)
    await opened.close()


async def test_wherever_the_disk_first_fails_nothing_acknowledged_is_lost(tmp_path: Path):
    for nth in itertools.count(1):
        disk = Disk().register()
        folder = tmp_path / f"data-{nth}"
        calls = itertools.count(1)
        opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name))
        disk.fail = _at(nth, calls)
        acknowledged = await _work_until_broken(opened)
        met = next(calls) > nth
        disk.fail = lambda _kind: None
        await opened.close()
        disk.unregister()

        opened = await open_sqlite(folder)
        assert len(await log(opened.store)) >= acknowledged
        await opened.close()
        if not met:
            return
    raise AssertionError("never reached the end")


def _at(nth: int, calls: "itertools.count[int]") -> Callable[[str], Exception | None]:
    return lambda _kind: apsw.IOError("disk") if next(calls) == nth else None


async def _work_until_broken(opened: SqliteStore) -> int:
    """How many events of run_a were acknowledged."""
    acknowledged = 0
    try:
        await opened.store.journal.create(new_run())
        acknowledged = 1
        for after in range(1, 6):
            await opened.store.journal.append(append(after=after))
            acknowledged += 1
    except StoreUnavailable:
        assert opened.broken is not None
    return acknowledged


@pytest.mark.parametrize("name", ["jackline.db", "jackline.db-wal"])
async def test_a_deleted_file_is_noticed_before_the_next_acknowledgement(folder: Path, name: str):
    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())
    (folder / name).unlink()

    with pytest.raises(StoreDamaged):
        await opened.store.journal.append(append())

    assert isinstance(opened.broken, StoreDamaged)
    await opened.close()


async def test_a_deleted_file_is_noticed_by_an_idle_store(folder: Path):
    told: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
    opened = await open_sqlite(folder, SqliteSettings(on_broken=told.set_result))
    (folder / "jackline.db").unlink()

    assert isinstance(await asyncio.wait_for(told, 10), StoreDamaged)
    await opened.close()


async def test_a_replaced_database_is_noticed(folder: Path):
    opened = await open_sqlite(folder)
    copy = (folder / "jackline.db").read_bytes()
    (folder / "copy").write_bytes(copy)
    (folder / "copy").rename(folder / "jackline.db")

    with pytest.raises(StoreDamaged):
        await opened.store.journal.create(new_run())
    await opened.close()


async def test_a_foreign_writer_delays_then_refuses_and_does_not_break_the_store(folder: Path):
    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())
    foreign = look_into(folder / "jackline.db")
    foreign.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(opened.store.journal.append(append()), 10)
    assert opened.broken is None

    waiting = asyncio.ensure_future(opened.store.journal.append(append()))
    await asyncio.wait({waiting}, timeout=0.1)
    foreign.execute("ROLLBACK")
    await asyncio.wait_for(waiting, 10)
    foreign.close()
    await opened.close()


async def test_a_value_that_cannot_be_stored_fails_its_own_operation_only(folder: Path):
    opened = await open_sqlite(folder)
    outcomes = await asyncio.gather(
        opened.store.journal.create(new_run("run_a")),
        opened.store.journal.create(new_run("run_b", labels={"x": "\ud800"}, request_id="order-1")),
        opened.store.journal.create(new_run("run_c", created_unix_ms=2**70)),
        opened.store.journal.create(new_run("run_\ud800")),
        opened.store.journal.create(new_run("run_d")),
        return_exceptions=True,
    )

    kinds = [isinstance(outcome, (ValueError, OverflowError)) for outcome in outcomes]
    assert kinds == [False, True, True, True, False]
    for run_id, length in {"run_a": 1, "run_b": 0, "run_c": 0, "run_d": 1}.items():
        assert len(await log(opened.store, run_id)) == length
    fresh = await opened.store.journal.create(new_run("run_b", request_id="order-1"))
    assert fresh.run_id == "run_b"
    assert opened.broken is None
    await opened.close()


async def test_an_append_after_a_group_that_failed_sees_the_true_head(folder: Path):
    opened = await open_sqlite(folder)
    for number in range(10):
        await opened.store.journal.create(new_run(f"run_{number}"))
    failpoints.configure("store.sync=err(ENOSPC)@1")

    await asyncio.gather(
        *(opened.store.journal.append(append(f"run_{number}")) for number in range(10)),
        return_exceptions=True,
    )

    for number in range(10):
        length = len(await log(opened.store, f"run_{number}"))
        await opened.store.journal.append(append(f"run_{number}", after=length))
    await opened.close()


async def test_a_lost_reply_is_an_unknown_outcome_that_a_retry_settles(folder: Path):
    opened = await open_sqlite(folder)
    failpoints.configure("store.after_send_before_reply=drop@1")

    with pytest.raises(StoreUnavailable):
        await opened.store.journal.create(new_run("run_a", request_id="order-1"))
    again = await opened.store.journal.create(new_run("run_b", request_id="order-1"))

    assert again.run_id == "run_a"
    assert opened.broken is None
    await opened.close()


async def test_a_hole_in_a_log_is_damage(folder: Path):
    opened = await open_sqlite(folder)
    await opened.store.journal.create(new_run())
    await opened.store.journal.append(append(count=3))
    foreign = look_into(folder / "jackline.db")
    foreign.execute("DELETE FROM events WHERE sequence = 2")
    foreign.close()

    with pytest.raises(StoreDamaged):
        await log(opened.store)
    await opened.close()


async def test_closing_is_bounded_while_the_disk_hangs(folder: Path, disk: Disk):
    release = threading.Event()
    opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name, close_ms=200))
    await opened.store.journal.create(new_run())

    def hang(kind: str) -> None:
        if kind == "sync":
            release.wait(30)

    disk.fail = hang
    stuck = asyncio.ensure_future(opened.store.journal.append(append()))
    behind = asyncio.ensure_future(opened.store.journal.create(new_run("run_b")))
    await asyncio.wait({stuck}, timeout=0.1)

    await asyncio.wait_for(opened.close(), 5)

    for outcome in await asyncio.wait_for(asyncio.gather(stuck, behind, return_exceptions=True), 5):
        assert isinstance(outcome, StoreUnavailable)
    release.set()


@pytest.mark.parametrize(("error", "kind"), [(apsw.FullError, StoreFull), (apsw.IOError, StoreUnavailable)])
async def test_a_disk_that_fails_at_boot_is_named_and_leaves_the_folder_free(
    folder: Path, disk: Disk, error: type[apsw.Error], kind: type[StoreError]
):
    disk.fail = lambda _kind: error("disk")
    with pytest.raises(kind):
        await open_sqlite(folder, SqliteSettings(vfs=disk.name))
    disk.fail = lambda _kind: None

    opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name))
    await opened.store.journal.create(new_run())
    await opened.close()
