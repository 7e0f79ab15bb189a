"""Stores of an old schema, migrations that only tests have, and what is seen of a store from outside.

Owns the two migrations: one in SQL that the server's own statements can live with, one in Python over every
stored fact.
"""

import asyncio
import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from jackline_server.runtime.ports.store import Store
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.migrations import MIGRATIONS, Migration
from jackline_server.storage.sqlite.schema import SCHEMA_VERSION
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from jackline_server.storage.sqlite.upgrade import UpgradeSettings
from tests.conformance.stores import append, event, finish, new_run, revision
from tests.storage.disks import look_into

RUNS = 4
NOW = 1_790_000_000_000
BIG = b"x" * 200_000
"""Content large enough that a copy takes more than one go."""


def _add_priority(connection: Database) -> None:
    connection.execute("ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 5")
    connection.execute("CREATE INDEX runs_by_priority ON runs (priority, created_unix_ms)")


def _sum_up(connection: Database) -> None:
    connection.execute("CREATE TABLE sums (event_key INTEGER PRIMARY KEY, digest BLOB NOT NULL)")
    rows = connection.execute("SELECT event_key, meta, content FROM events").fetchall()
    sums = [(key, hashlib.sha256(meta + content).digest()) for key, meta, content in rows]
    connection.executemany("INSERT INTO sums VALUES (?, ?)", sums)


TODAY = SCHEMA_VERSION
"""The schema of the store that the tests upgrade."""

PRIORITY = Migration(version=TODAY + 1, title="runs have a priority", apply=_add_priority)
SUMS = Migration(version=TODAY + 2, title="events have sums", apply=_sum_up)


def to(*migrations: Migration, release: str = "9.9.0", clock: StoreClock | None = None) -> SqliteSettings:
    """The settings of a later release with these migrations."""
    upgrade = UpgradeSettings(release=release, migrations=(*MIGRATIONS, *migrations))
    return SqliteSettings(upgrade=upgrade, clock=clock or StoreClock())


def at(unix_ms: int) -> StoreClock:
    """A wall clock that stands still."""
    return StoreClock(unix_ms=lambda: unix_ms)


async def old_store(folder: Path) -> None:
    """A store of today's schema with some runs, one of them large, and a workflow."""
    opened = await open_sqlite(folder)
    await fill(opened.store)
    await opened.close()


async def fill(store: Store) -> None:
    for number in range(RUNS):
        await store.journal.create(
            new_run(f"run_{number}", first=event(1, content=BIG), request_id=f"r{number}")
        )
        await store.journal.append(append(f"run_{number}", count=3))
        if number % 2:
            await store.journal.append(finish(f"run_{number}", after=4))
    await store.revisions.put(revision("d1", files={"a": b"b"}), alias="prod", expect=None)


def version_of(database: Path) -> int:
    with closing(look_into(database)) as connection:
        version = connection.execute("PRAGMA user_version").get
    assert isinstance(version, int)
    return version


def content_of(database: Path) -> Mapping[str, list[tuple[object, ...]]]:
    """Every row of every table, and the tables themselves.

    Without leases, which a boot changes, and without the generation, which is each copy's own.
    """
    with closing(look_into(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        tables = connection.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
        found: dict[str, list[tuple[object, ...]]] = {"": list(tables)}
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            found[name] = connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()  # noqa: S608 - a name of the schema
    if "meta" in found:
        found["meta"] = [row for row in found["meta"] if row[0] != "generation"]
    lease = slice(8, 13)
    found["runs"] = [row[: lease.start] + row[lease.stop :] for row in found["runs"]]
    return found


def backups_in(folder: Path) -> list[Path]:
    return sorted((folder / "backups").iterdir()) if (folder / "backups").exists() else []


def left_by_a_kill(folder: Path, left: Path) -> Path:
    """A folder as it would be if the process that has the first one open were killed now."""
    left.mkdir(mode=0o700)
    for name in ("jackline.db", "jackline.db-wal", "jackline.lock"):
        (left / name).write_bytes((folder / name).read_bytes())
    return left


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
