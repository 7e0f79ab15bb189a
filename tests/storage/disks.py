"""A disk that tests can watch and break: an SQLite VFS over the real one.

It records every write, truncation and sync of the files it opened, so that a power cut can be replayed at
any point, and it fails the calls that a test arms.
"""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from jackline_server.storage.sqlite.database import Database, connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Write:
    file: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    file: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Put into the record by a test: from here on this must survive."""

    what: int


Entry = Write | Truncate | Sync | Acknowledged


@dataclass(slots=True)
class Disk:
    """A registered VFS. `unregister` when done. `fail` is asked at each write and sync with its kind."""

    record: list[Entry] = field(default_factory=list[Entry])
    fail: Callable[[str], Exception | None] = lambda _kind: None
    lock: threading.Lock = field(default_factory=threading.Lock)
    name: str = field(default_factory=lambda: f"watched-{next(_numbers)}")
    _vfs: Any = None

    def register(self) -> Disk:
        self._vfs = _WatchedVfs(self)
        return self

    def unregister(self) -> None:
        if self._vfs is not None:
            self._vfs.unregister()
            self._vfs = None

    def note(self, entry: Entry) -> None:
        with self.lock:
            self.record.append(entry)

    def meet(self, kind: str) -> None:
        error = self.fail(kind)
        if error is not None:
            raise error


def look_into(file: Path) -> Database:
    """A connection beside the store's own, as a foreign program would open it."""
    return connect(file, flags=apsw.SQLITE_OPEN_READWRITE, vfs=None)


class _WatchedVfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - the driver's own name
        return _WatchedFile(self._disk, name, flags)


class _WatchedFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._name = path.rsplit("/", 1)[-1]
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - the driver's own name
        self._disk.meet("write")
        super().xWrite(data, offset)  # pyright: ignore[reportUnknownMemberType] - the driver's types need Python 3.12
        self._disk.note(Write(self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - the driver's own name
        super().xTruncate(newsize)
        self._disk.note(Truncate(self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 - the driver's own name
        self._disk.meet("sync")
        super().xSync(flags)
        self._disk.note(Sync(self._name))
