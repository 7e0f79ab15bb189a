"""Where and with what a measurement was made.

Owns finding that out. It names no host, user or path.
"""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import apsw

_PACKAGES = ("jackline", "grpcio", "protobuf", "uvloop", "apsw")


def machine() -> dict[str, str | int]:
    """The cores that this process may use, the model of the CPU and the kernel."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "kernel": f"{platform.system()} {platform.release()}",
    }


def versions() -> dict[str, str]:
    """Python's and the packages' that matter here."""
    found = {"python": platform.python_version()}
    found |= {package: version(package) for package in _PACKAGES}
    found["sqlite"] = apsw.sqlite_lib_version()
    return found


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
