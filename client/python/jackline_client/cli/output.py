"""Output that can't be written any more: its reader has gone, or its disk is full.

Owns the one error for it, and letting go of standard output so that nothing is written there again. Does not
own what a command does then.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from jackline_client.cli.exit_codes import ExitCode


class OutputLost(Exception):
    """What a command writes can't be written.

    `code` is the command's exit code. `line` says what is wrong; it is empty where a reader went away, who
    asked for no more.
    """

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"{what} can't be written")
        is_closed = isinstance(error, BrokenPipeError)
        self.code = ExitCode.PIPE_CLOSED if is_closed else ExitCode.OUTPUT_FAILED
        self.line = "" if is_closed else f"jackline: {what} can't be written: {error.strerror}"


@contextmanager
def written(what: str = "the output") -> Generator[None]:
    """For the time of a write. Raises OutputLost for whatever the system says of it."""
    try:
        yield
    except OSError as error:
        raise OutputLost(what, error) from error


def flush() -> None:
    """Writes what standard output still holds. Raises OutputLost, and then lets go of it."""
    try:
        with written():
            sys.stdout.flush()
    except OutputLost:
        let_go()
        raise


def let_go() -> None:
    """From now on standard output swallows: Python would complain again when it flushes at the end."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
