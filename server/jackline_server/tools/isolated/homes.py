"""The folders of functions' processes: a private one for each call, gone soon after it.

Owns where they are, their removal apart from the calls, and what servers that were killed have left. Does
not own the processes of calls (`process`), nor how strays are found (`strays`).

Each server has a folder of its own below `parent` and holds a lock on it for as long as it lives: one whose
lock is free is nobody's any more.
"""

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import queue
import secrets
import stat
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from jackline_server.tools.isolated.folders import remove
from jackline_server.tools.isolated.strays import end_strays

_log = logging.getLogger(__name__)

MOST_WAITING = 64
"""So many folders may wait for their removal; a call more keeps its place until one of them is gone."""

_HOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = "server-"
_TRIES = 8
_CLOSE_S = 2.0


def temporary_homes() -> Path:
    """Where folders are for servers that keep no data: among the temporary files, this user's own."""
    return Path(tempfile.gettempdir()) / f"jackline-functions-{os.geteuid()}"


class Homes:
    """Folders of one server. Use it in one event loop; what takes long happens in a thread of its own."""

    def __init__(self, parent: Path, *, remove: Callable[[str], None] = remove) -> None:
        """`remove` takes a folder and raises nothing; it may take its time."""
        self._parent = parent
        self._remove = remove
        self._own: Path | None = None
        self._lock = -1
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._room = asyncio.Semaphore(MOST_WAITING)
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def tidy(self) -> None:
        """Remove, in the background, what servers that are no more have left. Raises nothing."""
        self._do(lambda: _tidy(self._parent))

    def made(self) -> str:
        """A fresh folder. Raises OSError."""
        if self._own is None:
            _prepare(self._parent)
            self._own, self._lock = _locked(self._parent)
        return tempfile.mkdtemp(prefix="call-", dir=self._own)

    async def give_up(self, folder: str) -> None:
        """Have it removed, and whatever has left its call's group ended. Waits only while too many wait."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        self._waiting += 1
        self._idle.clear()

        def work() -> None:
            end_strays(folder)
            self._remove(folder)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(self._given_up)

        self._do(work)

    async def close(self) -> None:
        """Wait until nothing is left to remove, bounded: a later server removes the rest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._idle.wait()
        if self._thread is not None:
            self._work.put(None)
        if self._own is not None:
            with contextlib.suppress(OSError):
                self._own.rmdir()
            os.close(self._lock)
            self._own = None

    def _given_up(self) -> None:
        self._waiting -= 1
        self._room.release()
        if not self._waiting:
            self._idle.set()

    def _do(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            # A daemon: a folder that resists must not keep the server from ending.
            self._thread = threading.Thread(target=self._run, name="jackline-homes", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _prepare(parent: Path) -> None:
    """Make the folder, for this user alone. Raises OSError if it is anybody else's."""
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(parent))
    if stat.S_IMODE(found.st_mode) & 0o077:
        parent.chmod(0o700)


def _locked(parent: Path) -> tuple[Path, int]:
    """A folder of our own, and its lock. Raises OSError."""
    for _ in range(_TRIES):
        own = parent / f"{_OURS}{secrets.token_hex(4)}"
        own.mkdir(mode=0o700)
        lock = os.open(own, _HOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if own.exists():
                return own, lock
        except BlockingIOError:
            pass  # one that tidies was there first, and removes it
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(parent))


def _tidy(parent: Path) -> None:
    try:
        _check_ours(parent)
        found = [one for one in parent.iterdir() if one.name.startswith(_OURS)]
    except OSError:
        return  # there is nothing yet, or it is none of ours
    for left in found:
        with contextlib.suppress(OSError):
            lock = os.open(left, _HOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                end_strays(str(left))
                remove(str(left))
                _log.info("what a server that was killed had left of its functions is removed")
            finally:
                os.close(lock)


def _check_ours(parent: Path) -> None:
    if parent.lstat().st_uid != os.geteuid():
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(parent))
