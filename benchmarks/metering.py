"""What the operating system says of a process: its CPU time, its memory, the files mapped into it.

Owns asking for that, on Linux. Nothing in here asks the process itself.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

_OF_ALL_THREADS = 2
"""CPUCLOCK_SCHED: user and system time together, as the scheduler counts it."""

_CALM_S, _CALM_CPU_S, _LOOKS = 0.5, 0.05, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """In KiB. `pss` counts a page that several processes share by its share."""

    rss_kib: int
    pss_kib: int


def cpu_s(pid: int) -> float:
    """User and system time of all threads of the process, ended ones included, in nanosecond steps.

    The sum of the two that /proc/PID/stat has in steps of 10 ms. Raises OSError when the process has ended.
    """
    return time.clock_gettime((~pid << 3) | _OF_ALL_THREADS)  # the kernel's own id for a process's clock


def memory(pid: int) -> Memory:
    """What the process holds now. Raises OSError when the process has ended."""
    found = {"Rss": 0, "Pss": 0}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0])
    return Memory(rss_kib=found["Rss"], pss_kib=found["Pss"])


async def calm_memory(pid: int) -> Memory:
    """The memory of the process once it has come to rest. Raises OSError when the process has ended."""
    for _ in range(_LOOKS):
        before = cpu_s(pid)
        await asyncio.sleep(_CALM_S)
        if cpu_s(pid) - before < _CALM_CPU_S:
            break
    return memory(pid)


def descriptors(pid: int) -> int:
    """How many files, sockets and pipes the process has open. Raises OSError when the process has ended."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def mapped_files(pid: int) -> frozenset[str]:
    """The files that are mapped into the process: its libraries and compiled modules."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(line[line.index("/") :] for line in lines if "/" in line)
