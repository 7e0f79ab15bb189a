"""Upgrades and backups in a process of their own: killed at every place, and without the right to write.

After a kill the next boot finds one schema or the other (F20, F21).
"""

# ruff: noqa: ASYNC221 - nothing else runs on the loops of these tests

import asyncio
import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jackline_server.storage.sqlite.store import open_sqlite
from tests.conformance.stores import log
from tests.storage.upgrades import (
    PRIORITY,
    RUNS,
    SUMS,
    TODAY,
    backups_in,
    content_of,
    old_store,
    to,
    version_of,
)

_UPGRADE = """
import asyncio, sys
from pathlib import Path
from jackline_server import failpoints
from jackline_server.storage.sqlite.store import open_sqlite
from tests.storage.upgrades import PRIORITY, SUMS, to

failpoints.configure(sys.argv[2])
asyncio.run(open_sqlite(Path(sys.argv[1]), to(PRIORITY, SUMS)))
"""

_REFUSED = """
import asyncio, sys
from pathlib import Path
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.storage.sqlite.store import open_sqlite
from tests.storage.upgrades import PRIORITY, to

try:
    asyncio.run(open_sqlite(Path(sys.argv[1]), to(PRIORITY)))
except StoreError as error:
    print(type(error).__name__)
"""

_BACK_UP = """
import sys
from pathlib import Path
from jackline_server import failpoints
from jackline_server.storage.sqlite.backup import back_up

failpoints.configure(sys.argv[2])
back_up(Path(sys.argv[1]), Path(sys.argv[1]).with_name("copy.db"))
"""

CASES = {
    "backup.before=kill": (TODAY, 0),
    "backup.mid=kill": (TODAY, 0),
    "backup.before_publish=kill": (TODAY, 0),
    "migrate.before=kill": (TODAY, 1),
    "migrate.mid=kill": (TODAY, 1),
    "migrate.before_commit=kill": (TODAY, 1),
    "migrate.after=kill": (TODAY + 2, 1),
}
"""Where the kill comes: the schema that it leaves, and how many complete backups."""


async def killed(script: str, folder: Path, specification: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, str(folder), specification),
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert await asyncio.wait_for(process.wait(), 30) == -signal.SIGKILL


@pytest.mark.parametrize("specification", CASES)
async def test_a_kill_during_an_upgrade_leaves_a_store_that_either_version_can_go_on_with(
    folder: Path, specification: str
):
    version, backups = CASES[specification]
    await old_store(folder)
    before = content_of(folder / "jackline.db")

    await killed(_UPGRADE, folder, specification)

    assert version_of(folder / "jackline.db") == version
    complete = [path for path in backups_in(folder) if path.suffix == ".db"]
    assert [content_of(backup) for backup in complete] == [before] * backups
    if version == TODAY:
        assert content_of(folder / "jackline.db") == before
        await (await open_sqlite(folder)).close()
    opened = await open_sqlite(folder, to(PRIORITY, SUMS))
    assert [len(await log(opened.store, f"run_{number}")) for number in range(RUNS)] == [4, 5, 4, 5]
    await opened.close()
    assert version_of(folder / "jackline.db") == TODAY + 2
    assert all(path.suffix == ".db" for path in backups_in(folder))


async def test_kills_again_and_again_change_nothing_and_do_not_fill_the_disk(folder: Path):
    await old_store(folder)
    before = content_of(folder / "jackline.db")

    for specification in [*CASES] * 2:
        if CASES[specification][0] == TODAY:
            await killed(_UPGRADE, folder, specification)

    assert content_of(folder / "jackline.db") == before
    assert len([path for path in backups_in(folder) if path.suffix == ".db"]) <= 3
    opened = await open_sqlite(folder, to(PRIORITY, SUMS))
    await opened.close()
    assert len(backups_in(folder)) == 3


@pytest.mark.parametrize("name", ["backup.mid", "backup.before_publish"])
async def test_what_a_killed_automatic_backup_left_is_cleared_by_any_boot_and_nothing_else_is(
    folder: Path, name: str
):
    await old_store(folder)
    await killed(_UPGRADE, folder, f"{name}=kill")
    assert backups_in(folder) != []
    others = {
        folder / "backups" / other for other in ("mine.db.partial", ".mine.db.0123456789abcdef.partial")
    }
    for other in others:
        other.write_text("under way")

    await (await open_sqlite(folder)).close()

    assert set(backups_in(folder)) == others


@pytest.mark.parametrize("name", ["backup.before", "backup.mid", "backup.before_publish"])
async def test_a_kill_during_a_backup_leaves_no_file_that_looks_like_one(folder: Path, name: str):
    await old_store(folder)
    before = content_of(folder / "jackline.db")

    await killed(_BACK_UP, folder, f"{name}=kill")

    assert not folder.with_name("copy.db").exists()
    assert content_of(folder / "jackline.db") == before


def _like_other_users() -> None:
    """Take from the superuser that the modes of files don't hold for it; for anybody else they do."""
    drop_from_bounding_set, may_override_modes = 24, 1
    ctypes.CDLL(None).prctl(drop_from_bounding_set, may_override_modes, 0, 0, 0)


@pytest.mark.parametrize("which", [".", "backups"])
async def test_a_folder_that_can_t_be_written_is_refused_and_nothing_is_changed(folder: Path, which: str):
    await old_store(folder)
    before = content_of(folder / "jackline.db")
    closed = folder / which
    closed.mkdir(exist_ok=True)
    closed.chmod(0o500)

    refused = subprocess.run(
        [sys.executable, "-c", _REFUSED, str(folder)],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        preexec_fn=_like_other_users,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    closed.chmod(0o700)
    assert refused.stdout.split() == ["StoreUnsuitable"]
    assert content_of(folder / "jackline.db") == before
    await (await open_sqlite(folder)).close()
