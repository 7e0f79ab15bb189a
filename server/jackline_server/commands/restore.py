"""`jackline restore`: a copy in the place of a stopped server's data. How that is done, `storage` owns."""

import time
from pathlib import Path
from typing import Annotated

import typer

from jackline_server.commands.given import ConfigFile, DataFolder, config_for, fail, flags_given, say
from jackline_server.exit_codes import EXIT_USAGE, store_code
from jackline_server.runtime.ports.store_errors import StoreError


def restore(
    file: Annotated[Path, typer.Argument(help="A copy that `jackline backup` or an upgrade made.")],
    *,
    config: ConfigFile = None,
    data: DataFolder = None,
) -> None:
    """Put a copy in the place of the data of a server, which must be stopped.

    The copy is checked first. What was there is moved, with its log, to `replaced-TIME` in the data folder.
    If this is cut off, the data is the old or the new, and the next start carries on. The exit code is 75
    while a server holds the folder, 78 for a copy that a newer version made.
    """
    from jackline_server.storage.sqlite import restore as storage  # noqa: PLC0415 - help needs no store

    folder = config_for("restore", config, flags_given({"data": data}), code=EXIT_USAGE).server.data
    try:
        done = storage.restore(folder, file, unix_ms=time.time_ns() // 1_000_000)
    except StoreError as error:
        fail("restore", store_code(error), str(error))
    before = f"; what was there is in {done.aside}" if done.aside else ""
    say(f"{folder}: {done.size} bytes of {file}, checked{before}")
