"""Processes that a function has started and that have left its process group.

Owns how they are known: they began with `MARK` in their environment, which names the folder of their call.
Only Linux shows that. A process that hides it is not found.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator

MARK = "JACKLINE_FUNCTION"
"""The variable that names the folder of the call, in every process of it."""

_ROUNDS = 50
_PAUSE_S = 0.02
_MOST_BYTES = 256 * 1024


def end_strays(folder: str) -> int:
    """Kill every process of this user that belongs to a call's folder, or to one below; how many there were.

    Looks again until there is none, bounded: what forks faster than it is killed is killed at its next rest.
    """
    if not sys.platform.startswith("linux"):
        return 0
    ended = 0
    for _ in range(_ROUNDS):
        found = 0
        for pid in _pids():
            found += _ended(pid, folder)
        if not found:
            break
        ended += found
        time.sleep(_PAUSE_S)
    return ended


def _pids() -> Iterator[int]:
    own = {os.getpid(), 1}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is wanted
        if name.isdigit() and int(name) not in own:
            yield int(name)


def _ended(pid: int, folder: str) -> bool:
    """True if it was one, and was killed. Its number can't come to mean another meanwhile."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid() or not _belongs(pid, folder):  # noqa: PTH116 - for each process there is
            return False
        handle = os.pidfd_open(pid)
    except OSError:
        return False  # it is gone, or shows nothing
    try:
        if not _belongs(pid, folder):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _belongs(pid: int, folder: str) -> bool:
    with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - as above
        begun = file.read(_MOST_BYTES)
    name = os.fsencode(f"{MARK}=")
    values = (os.fsdecode(one[len(name) :]) for one in begun.split(b"\0") if one.startswith(name))
    return any(value == folder or value.startswith(f"{folder}/") for value in values)
