"""Commands that the server adds to the `jackline` command line.

Owns the flags of `serve`. What the process then does is in `serving`.
"""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from jackline_server.config import ConfigError, load_config

EXIT_USAGE = 2


def serve(  # noqa: PLR0913 - one parameter a flag
    *,
    config: Annotated[Path | None, typer.Option(help="The operator's config, a TOML file.")] = None,
    workflows: Annotated[Path | None, typer.Option(help="A folder of workflows to import and watch.")] = None,
    data: Annotated[Path | None, typer.Option(help="The data folder.  [default: ./data]")] = None,
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT; port 0 takes a free one.  [default: 127.0.0.1:50051]")
    ] = None,
    max_active_runs: Annotated[int | None, typer.Option(help="Runs driven at once.  [default: 1000]")] = None,
    drain_grace: Annotated[
        str | None, typer.Option(help="How long runs may take to a boundary on SIGTERM.  [default: 20s]")
    ] = None,
    insecure_bind: Annotated[bool, typer.Option(help="Listen beyond loopback without TLS.")] = False,
    volatile: Annotated[bool, typer.Option(help="Keep everything in memory: for test suites.")] = False,
    enable_failpoints: Annotated[  # for fault tests, on the loopback only
        bool, typer.Option("--enable-failpoints", hidden=True)
    ] = False,
) -> None:
    """Serve runs: host bounded agent loops behind gRPC until SIGTERM or Ctrl-C.

    Flags win over the environment (JACKLINE_LISTEN, JACKLINE_DATA, ...), which wins over the config file.
    """
    given = {
        "workflows": workflows,
        "data": data,
        "listen": listen,
        "max_active_runs": max_active_runs,
        "drain_grace": drain_grace,
        "insecure_bind": insecure_bind or None,
        "volatile": volatile or None,
        "enable_failpoints": enable_failpoints or None,
    }
    flags = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in given.items()
        if value is not None
    }
    try:
        loaded = load_config(file=config, environ=os.environ, flags=flags)
    except ConfigError as error:
        _fail(EXIT_USAGE, *(str(problem) for problem in error.problems))
    from jackline_server.serving import serve_until_stopped  # noqa: PLC0415 - help needs no server

    raise typer.Exit(serve_until_stopped(loaded))


def _fail(code: int, *lines: str) -> NoReturn:
    for line in lines:
        sys.stderr.write(f"jackline serve: {line}\n")
    raise typer.Exit(code)
