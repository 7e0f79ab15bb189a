"""`jackline result`: the whole result of one tool call, also one that is kept outside the run's log."""

import contextlib
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.options import MOST_SMALL, AddressOption, ContextOption, RunArgument
from jackline_client.cli.printable import printable_lines
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out

if TYPE_CHECKING:
    from jackline_client import JacklineClient


def result(
    run_id: RunArgument,
    call_id: Annotated[
        str,
        typer.Argument(metavar="CALL", help="The call's id, or the handle in a mark, such as result-3."),
    ],
    *,
    part: Annotated[
        int,
        typer.Option(
            "--part", min=0, max=MOST_SMALL, metavar="N", help="A part that is no text, such as an image."
        ),
    ] = 0,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write it to a new file, byte for byte.")
    ] = None,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Print the whole result of a tool call, or its error, also one that is kept outside the log.

    On a terminal control characters are shown escaped; a file and a pipe get every byte as it is. A part that
    is no text is never shown on a terminal.
    """
    is_shown = to is None and sys.stdout.isatty()
    if part and is_shown:
        raise typer.BadParameter("a part of a result is no text: name a file with --to, or use a pipe")

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        pieces = client.tool_call_result(run_id, call_id, part=part)
        if is_shown:
            await _show(pieces, screen)
            return ExitCode.OK
        with _target(to) as file:
            async for piece in pieces:
                file.write(piece)
            file.flush()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


async def _show(pieces: AsyncGenerator[bytes], screen: Screen) -> None:
    """A text on a terminal, line by line."""
    decoder, rest = getincrementaldecoder("utf-8")("replace"), ""
    async for piece in pieces:
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        for line in lines:
            screen.line(line)
    if rest:
        for line in printable_lines(rest):
            screen.line(line)


@contextlib.contextmanager
def _target(to: Path | None) -> Generator[BinaryIO]:
    """Where bytes go. A file that is there is never written over; a new one is its owner's alone.

    Nothing is left of a file that could not be written to its end.
    """
    if to is None:
        yield sys.stdout.buffer
        return
    try:
        descriptor = os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise typer.BadParameter(f"{to} is there already: name another file") from None
    except OSError as error:
        raise typer.BadParameter(f"{to} can't be made: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
    except BaseException as error:
        to.unlink(missing_ok=True)
        if isinstance(error, OSError):
            typer.echo(f"jackline: {to} can't be written: {error.strerror}", err=True)
            raise typer.Exit(ExitCode.OUTPUT_FAILED) from error
        raise
