"""`jackline serve`: the flags of a server. What the process then does is in `jackline_server.serving`."""

import gc
from typing import Annotated

import typer

from jackline_server.commands.given import (
    ConfigFile,
    DataFolder,
    DrainGrace,
    InsecureBind,
    ListenAddress,
    MaxActiveRuns,
    Volatile,
    WorkflowsFolder,
    config_for,
    flags_given,
)
from jackline_server.exit_codes import EXIT_USAGE


def serve(  # noqa: PLR0913 - one parameter a flag
    *,
    config: ConfigFile = None,
    workflows: WorkflowsFolder = None,
    data: DataFolder = None,
    listen: ListenAddress = None,
    max_active_runs: MaxActiveRuns = None,
    drain_grace: DrainGrace = None,
    insecure_bind: InsecureBind = False,
    volatile: Volatile = False,
    enable_failpoints: Annotated[  # for fault tests, on the loopback only
        bool, typer.Option("--enable-failpoints", hidden=True)
    ] = False,
) -> None:
    """Serve runs: host bounded agent loops behind gRPC until SIGTERM or Ctrl-C.

    Flags win over the environment (JACKLINE_LISTEN, JACKLINE_DATA, ...), which wins over the config file.
    """
    gc.disable()  # what is loaded while booting is kept; `serving` looks for garbage once the server is up
    flags = flags_given(
        {
            "workflows": workflows,
            "data": data,
            "listen": listen,
            "max_active_runs": max_active_runs,
            "drain_grace": drain_grace,
            "insecure_bind": insecure_bind,
            "volatile": volatile,
            "enable_failpoints": enable_failpoints,
        }
    )
    loaded = config_for("serve", config, flags, code=EXIT_USAGE)
    from jackline_server.serving import serve_until_stopped  # noqa: PLC0415 - help needs no server

    raise typer.Exit(serve_until_stopped(loaded))
