"""`jackline eval --record`: the script and the draft of a run, kept as two files.

Owns the files. Does not own what stands in them (`recording`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_server.commands.evaluation.cases import is_case_name
from jackline_server.commands.evaluation.door import Door, NotEnded
from jackline_server.commands.evaluation.recording import file_names, recording
from jackline_server.commands.given import fail
from jackline_server.commands.writing import write_whole

if TYPE_CHECKING:
    from jackline_client import JacklineClient
    from jackline_client.cli.screen import Screen

_EVAL = "eval"
_END_OF_ID = 6


def record_run(run_id: str, *, name: str | None, into: Path, server: Named) -> None:
    """Write both files, and say what can't be had. Overwrites nothing; never returns normally."""
    chosen = name or f"recorded-{run_id[-_END_OF_ID:]}"
    if not is_case_name(chosen):
        raise typer.BadParameter(f"{chosen!r}: letters, digits, `_`, `.` and `-` make the name of a case")
    paths = _free_places(into, chosen)

    async def work(client: "JacklineClient", screen: "Screen") -> ExitCode:
        try:
            made = recording(await Door(client).recorded(run_id), name=chosen)
        except NotEnded as error:
            fail(_EVAL, ExitCode.REFUSED, str(error))
        for path, text in zip(paths, (made.script, made.cases), strict=True):
            if text:
                _write(path, text)
                screen.line(f"wrote {path}")
        for note in made.notes:
            screen.line(note, style="dim")
        return ExitCode.OK

    carry_out(work, server=server)


def _free_places(into: Path, name: str) -> Sequence[Path]:
    if not into.is_dir():
        fail(_EVAL, ExitCode.USAGE, f"{into} is no folder")
    paths = [into / one for one in file_names(name)]
    for path in paths:
        if path.exists():
            fail(_EVAL, ExitCode.USAGE, f"{path} is there already: give --name or --into")
    return paths


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        fail(_EVAL, ExitCode.OUTPUT_FAILED, f"{path} can't be written: {error.strerror}")
