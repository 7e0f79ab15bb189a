"""The limits of a function's process: what it is told of them, and which one a call has met.

Owns the key of the config that each limit is named by. Does not set them (`child`).
"""

import errno
import signal
from collections.abc import Mapping

from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.runtime.ports.functions import FunctionProcesses

_MIB = 1024 * 1024
_BY_SIGNAL = {signal.SIGXCPU: "CPU", signal.SIGXFSZ: "FSIZE"}
_BY_ERRNO = {errno.EFBIG: "FSIZE", errno.EMFILE: "NOFILE"}


def limits_of(processes: FunctionProcesses) -> JsonObject:
    """The limits by the system's names for them; null is none."""
    return {
        "AS": processes.memory_bytes,
        "CPU": processes.cpu_s,
        "NPROC": processes.processes,
        "NOFILE": processes.files,
        "FSIZE": processes.file_bytes,
    }


def met_by_signal(number: int, limits: Mapping[str, JsonValue]) -> str:
    """The limit that ends a process by that signal, as its key and value; empty if it is of none."""
    return next((_shown(name, limits) for one, name in _BY_SIGNAL.items() if one == number), "")


def met_by_error(error: BaseException, limits: Mapping[str, JsonValue]) -> str:
    """The limit behind what a function raised, as its key and value; empty if it is of none."""
    if isinstance(error, MemoryError):
        return _shown("AS", limits)
    if isinstance(error, OSError) and error.errno in _BY_ERRNO:
        return _shown(_BY_ERRNO[error.errno], limits)
    return ""


def _shown(name: str, limits: Mapping[str, JsonValue]) -> str:
    value = limits.get(name)
    if not isinstance(value, int):
        return ""
    match name:
        case "AS":
            return f"`memory_mib` of {value // _MIB} MiB"
        case "FSIZE":
            return f"`file_mib` of {value / _MIB:g} MiB"
        case "CPU":
            return f"`cpu` of {value} s"
        case _:
            return f"`files` of {value}"
