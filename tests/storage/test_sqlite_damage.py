"""Databases that a SQLite store must refuse to open, and must leave exactly as they are."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.storage.boot_errors import StoreTooNew
from jackline_server.storage.sqlite.store import open_sqlite
from tests.conformance.stores import event, new_run
from tests.storage.disks import look_into


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _other_bytes(file: Path) -> None:
    file.write_bytes(b"This was never a database. " * 400)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _scribble(file: Path) -> None:
    data = bytearray(file.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 64] = b"\xee" * 64
    file.write_bytes(bytes(data))


def _of_another_program(file: Path) -> None:
    connection = look_into(file)
    connection.execute("PRAGMA application_id = 7")
    connection.close()


def _without_version(file: Path) -> None:
    connection = look_into(file)
    connection.execute("PRAGMA user_version = 0")
    connection.close()


@pytest.mark.parametrize(
    "harm", [_empty, _other_bytes, _cut, _scribble, _of_another_program, _without_version]
)
async def test_a_damaged_or_foreign_database_is_refused_and_left_as_it_is(
    folder: Path, harm: Callable[[Path], None]
):
    opened = await open_sqlite(folder)
    for number in range(40):
        await opened.store.journal.create(new_run(f"run_{number}", first=event(1, content=b"x" * 3_000)))
    await opened.close()
    database = folder / "jackline.db"
    harm(database)
    before = database.read_bytes()

    for _ in range(2):
        with pytest.raises(StoreDamaged):
            await open_sqlite(folder)

    assert database.read_bytes() == before


async def test_a_database_that_vanished_is_not_begun_anew(folder: Path):
    await (await open_sqlite(folder)).close()
    (folder / "jackline.db").unlink()

    with pytest.raises(StoreDamaged):
        await open_sqlite(folder)

    assert not (folder / "jackline.db").exists()


async def test_a_newer_store_is_refused_by_its_own_error(folder: Path):
    await (await open_sqlite(folder)).close()
    connection = look_into(folder / "jackline.db")
    connection.execute("PRAGMA user_version = 1000")
    connection.close()

    with pytest.raises(StoreTooNew):
        await open_sqlite(folder)


async def test_a_store_without_its_generation_is_damaged(folder: Path):
    await (await open_sqlite(folder)).close()
    foreign = look_into(folder / "jackline.db")
    foreign.execute("DELETE FROM meta")
    foreign.close()

    with pytest.raises(StoreDamaged):
        await open_sqlite(folder)
