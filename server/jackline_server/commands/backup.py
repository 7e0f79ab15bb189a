"""`jackline backup`: a copy of a server's data, made while it serves. What a copy is, `storage` owns."""

from pathlib import Path
from typing import Annotated

import typer

from jackline_server.commands.given import (
    EXIT_CANT_CREATE,
    EXIT_USAGE,
    ConfigFile,
    DataFolder,
    config_for,
    fail,
    flags_given,
    say,
)

EXIT_STORE = 74


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
    from jackline_server.runtime.store_ports import StoreError  # noqa: PLC0415 - help needs none of it
    from jackline_server.storage.boot_errors import StoreUnsuitable  # noqa: PLC0415 - see above
    from jackline_server.storage.sqlite_backup import back_up  # noqa: PLC0415 - see above

    folder = config_for("backup", config, flags_given({"data": data}), code=EXIT_USAGE).server.data
    try:
        size = back_up(folder, file)
    except StoreUnsuitable as error:
        fail("backup", EXIT_CANT_CREATE, str(error))
    except StoreError as error:
        fail("backup", EXIT_STORE, str(error))
    say(f"{file}: {size} bytes, checked")
