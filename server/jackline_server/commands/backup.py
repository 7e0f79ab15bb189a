"""`jackline backup`: a copy of a server's data, made while it serves. What a copy is, `storage` owns."""

from pathlib import Path
from typing import Annotated

import typer

from jackline_server.commands.given import ConfigFile, DataFolder, config_for, fail, flags_given, say
from jackline_server.exit_codes import EXIT_USAGE, store_code
from jackline_server.runtime.ports.store_errors import StoreError


def backup(
    file: Annotated[Path, typer.Argument(help="The file to make. It must not be there yet.")],
    *,
    config: ConfigFile = None,
    data: DataFolder = None,
) -> None:
    """Copy the data of a server, which may run, to a file.

    The copy holds everything that was acknowledged before the command began, and is checked before it gets
    its name. To put it back use `jackline restore`: beside a log that was left there, a file that is copied
    by hand becomes a mixture (docs/upgrades.md).
    """
    from jackline_server.storage.sqlite.backup import back_up  # noqa: PLC0415 - help needs no store

    folder = config_for("backup", config, flags_given({"data": data}), code=EXIT_USAGE).server.data
    try:
        size = back_up(folder, file)
    except StoreError as error:
        fail("backup", store_code(error), str(error))
    say(f"{file}: {size} bytes, checked")
