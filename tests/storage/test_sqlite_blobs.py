"""Blobs in SQLite: they survive, they are in every copy, and a holder that ends lets go of them."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from jackline_server import failpoints
from jackline_server.runtime.ports.blobs import BLOB_GRACE_MS
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreFull
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.sqlite.aside import reading_aside
from jackline_server.storage.sqlite.backup import back_up
from jackline_server.storage.sqlite.blobs import let_go
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.migrations import MIGRATIONS
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import append, new_run
from tests.storage.disks import look_into
from tests.storage.upgrades import at

DATA = bytes(range(256)) * 1_000
NOW = 1_790_000_000_000


def late() -> SqliteSettings:
    return SqliteSettings(clock=at(NOW + BLOB_GRACE_MS + 1))


async def filled(folder: Path) -> tuple[str, str]:
    """A store with one blob that a run holds and one that nothing does."""
    opened = await open_sqlite(folder, SqliteSettings(clock=at(NOW)))
    held = await opened.store.blobs.put(DEFAULT_TENANT, DATA)
    orphan = await opened.store.blobs.put(DEFAULT_TENANT, DATA[:-1])
    await opened.store.journal.create(new_run())
    await opened.store.journal.append(replace(append(), blobs=[held]))
    await opened.close()
    return held, orphan


async def test_what_a_crash_left_between_the_bytes_and_the_fact_is_swept_after_a_restart(folder: Path):
    held, orphan = await filled(folder)
    opened = await open_sqlite(folder, late())

    assert await opened.store.blobs.sweep(limit=10) == 1

    assert await opened.store.blobs.read(DEFAULT_TENANT, held, offset=0, limit=10**9) == DATA
    assert await opened.store.blobs.size(DEFAULT_TENANT, orphan) is None
    await opened.close()
    with closing(look_into(folder / "jackline.db")) as connection:
        assert connection.execute("SELECT count(DISTINCT blob_key) FROM blob_parts").get == 1


async def test_a_backup_and_a_store_read_aside_have_the_blobs(folder: Path, tmp_path: Path):
    held, _ = await filled(folder)
    back_up(folder, tmp_path / "copy.db")
    with closing(look_into(tmp_path / "copy.db")) as copy:
        parts = copy.execute("SELECT data FROM blob_parts WHERE blob_key = 1 ORDER BY part").fetchall()
        assert b"".join(part for (part,) in parts) == DATA

    async with reading_aside(folder) as aside:
        assert await aside.blobs.read(DEFAULT_TENANT, held, offset=5, limit=3) == DATA[5:8]


async def test_a_blob_whose_last_holder_let_go_is_swept(folder: Path):
    held, _ = await filled(folder)
    with closing(look_into(folder / "jackline.db")) as connection:
        session = Session(connection=connection, clock=StoreClock(), lease_ms=1)
        let_go(session, kind="run", holder="run_b")
        assert connection.execute("SELECT holders FROM blobs WHERE digest = ?", (held,)).get == 1
        let_go(session, kind="run", holder="run_a")
        let_go(session, kind="run", holder="run_a")
        assert connection.execute("SELECT holders FROM blobs WHERE digest = ?", (held,)).get == 0
    opened = await open_sqlite(folder, late())

    assert await opened.store.blobs.sweep(limit=10) == 2
    await opened.close()


async def test_a_blob_with_a_part_missing_is_damage_and_not_a_shorter_blob(folder: Path):
    held, _ = await filled(folder)
    with closing(look_into(folder / "jackline.db")) as connection:
        connection.execute("DELETE FROM blob_parts WHERE blob_key = 1 AND part = 1")
    opened = await open_sqlite(folder)

    with pytest.raises(StoreDamaged):
        await opened.store.blobs.read(DEFAULT_TENANT, held, offset=0, limit=10**9)
    await opened.close()


async def test_a_full_disk_leaves_no_half_of_a_blob(folder: Path):
    opened = await open_sqlite(folder)
    failpoints.configure("store.sync=err(ENOSPC)")
    with pytest.raises(StoreFull):
        await opened.store.blobs.put(DEFAULT_TENANT, DATA)
    failpoints.configure("")
    digest = await opened.store.blobs.put(DEFAULT_TENANT, DATA)

    assert await opened.store.blobs.read(DEFAULT_TENANT, digest, offset=0, limit=10**9) == DATA
    await opened.close()


async def test_the_migration_that_brings_blobs_makes_the_tables_of_a_new_store(folder: Path):
    await (await open_sqlite(folder)).close()
    with closing(look_into(folder / "jackline.db")) as connection:
        new = _tables(connection)
        for table in ("blobs", "blob_parts", "blob_holders"):
            connection.execute(f"DROP TABLE {table}")
        assert _tables(connection) != new
        next(one for one in MIGRATIONS if one.title == "blobs").apply(connection)
        assert _tables(connection) == new


def _tables(connection: Database) -> list[tuple[object, ...]]:
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    return [(kind, name, " ".join(str(sql).split())) for kind, name, sql in rows]
