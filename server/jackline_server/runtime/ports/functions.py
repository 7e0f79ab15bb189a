"""Functions in processes of their own: shapes between the config and their user."""

from collections.abc import Mapping
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.secrets import Secret


@frozen
class FunctionProcesses:
    """What the operator says of them; None is no limit.

    `always` isolates every function, whatever its step says. `concurrency` caps the processes at once,
    `memory_bytes` the address space of one, `cpu_s` its CPU time, `processes` those of the server's user,
    `files` what it has open, `file_bytes` one file that it writes. `environment` is all that it inherits.
    `folder` is where each gets a folder of its own; None: below the data folder, or among temporary files.
    `hide_server` keeps what the server's own process holds from them.
    """

    always: bool = False
    concurrency: int = 8
    memory_bytes: int | None = None
    cpu_s: int | None = None
    processes: int | None = None
    files: int | None = 256
    file_bytes: int | None = None
    environment: Mapping[str, Secret] | None = None
    folder: Path | None = None
    hide_server: bool = True
