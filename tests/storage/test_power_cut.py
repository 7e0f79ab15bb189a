"""Power cuts under a SQLite store: whatever the disk kept, every acknowledged append is there.

A run of appends is recorded write by write. Each image is the disk as it may look when the power goes at
some point of the record: all that was synced, and of the rest nothing, all, a part, or torn sectors.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import append, log, new_run
from tests.storage.disks import Acknowledged, Disk, Entry, Sync, Truncate, Write

_IMAGES = 48
_APPENDS = 40
_SECTOR = 512
_FILES = ("jackline.db", "jackline.db-wal")

# D1: an acknowledgement survives a power cut at any later instant.


async def test_every_acknowledged_append_survives_a_power_cut_anywhere(tmp_path: Path, disk: Disk):
    base, record = await _record(tmp_path / "data", disk)
    chance = random.Random(20_26)  # noqa: S311 - a reproducible choice of images
    points = [chance.randrange(len(record) + 1) for _ in range(_IMAGES)]

    for number, point in enumerate(points):
        folder = tmp_path / f"image-{number}"
        _make_image(folder, base, record[:point], chance)
        acknowledged = Counter(entry.what for entry in record[:point] if isinstance(entry, Acknowledged))
        opened = await open_sqlite(folder)
        found = {run: len(await log(opened.store, f"run_{run}")) for run in range(4)}
        assert opened.checked_whole
        await opened.close()
        assert all(found[run] >= 1 + acknowledged[run] for run in range(4)), f"image {number}"


async def test_an_image_without_what_was_synced_would_be_noticed(tmp_path: Path, disk: Disk):
    base, record = await _record(tmp_path / "data", disk)
    without = [entry for entry in record if not isinstance(entry, Sync)]
    folder = tmp_path / "image"
    _make_image(folder, base, without, None)

    opened = await open_sqlite(folder)
    found = sum([len(await log(opened.store, f"run_{run}")) for run in range(4)])
    await opened.close()

    assert found < 4 + _APPENDS


async def _record(folder: Path, disk: Disk) -> tuple[dict[str, bytes], list[Entry]]:
    """Four runs appended to in turn, at once, with a checkpoint at the end; what lay on the disk before."""
    opened = await open_sqlite(folder, SqliteSettings(vfs=disk.name))
    for run in range(4):
        await opened.store.journal.create(new_run(f"run_{run}"))
    base = {name: (folder / name).read_bytes() for name in _FILES}
    disk.record.clear()

    async def fill(run: int) -> None:
        for after in range(1, _APPENDS // 4 + 1):
            await opened.store.journal.append(append(f"run_{run}", after=after))
            disk.note(Acknowledged(run))

    await asyncio.gather(*(fill(run) for run in range(4)))
    await opened.close()
    assert any(isinstance(entry, Write) and entry.file == "jackline.db" for entry in disk.record)
    return base, list(disk.record)


def _make_image(
    folder: Path, base: dict[str, bytes], record: Sequence[Entry], chance: random.Random | None
) -> None:
    """The disk after a cut: without `chance` nothing that was not synced is kept."""
    folder.mkdir(mode=0o700)
    for name in _FILES:
        image = bytearray(base[name])
        mine = [entry for entry in record if not isinstance(entry, Acknowledged) and entry.file == name]
        synced = max((place for place, entry in enumerate(mine) if isinstance(entry, Sync)), default=-1)
        for entry in mine[: synced + 1]:
            _apply(image, entry)
        for entry in _kept(mine[synced + 1 :], chance):
            _apply(image, entry)
        file = folder / name
        file.touch(mode=0o600)
        file.write_bytes(bytes(image))


def _kept(loose: Sequence[Entry], chance: random.Random | None) -> Sequence[Entry]:
    """What the disk happened to keep of writes that no sync followed."""
    if chance is None:
        return []
    match chance.choice(("nothing", "all", "prefix", "subset", "torn")):
        case "nothing":
            return []
        case "prefix":
            return loose[: chance.randint(0, len(loose))]
        case "subset":
            return [entry for entry in loose if chance.random() < 0.5]
        case "torn":
            return [sector for entry in loose for sector in _torn(entry) if chance.random() < 0.7]
        case _:
            return loose


def _torn(entry: Entry) -> list[Entry]:
    if not isinstance(entry, Write):
        return [entry]
    return [
        Write(entry.file, entry.offset + at, entry.data[at : at + _SECTOR])
        for at in range(0, len(entry.data), _SECTOR)
    ]


def _apply(image: bytearray, entry: Entry) -> None:
    if isinstance(entry, Truncate):
        del image[entry.size :]
    elif isinstance(entry, Write):
        image.extend(bytes(max(0, entry.offset - len(image))))
        image[entry.offset : entry.offset + len(entry.data)] = entry.data
