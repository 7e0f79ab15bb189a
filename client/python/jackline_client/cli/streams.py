"""Standard output and standard error that can be written to whatever becomes of them.

Owns what follows when they can't be: each write raises OutputLost until somebody heeds it, and goes nowhere
from then on. Does not own what is written, nor what a command does about it.
"""

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import Any

from jackline_client.cli.exit_codes import ExitCode


class OutputLost(Exception):
    """Standard output can't be written: its reader went away, the disk is full.

    No OSError: who handles one means a file of its own. Whoever handles this calls `heed_lost_output`.
    """

    def __init__(self, cause: OSError) -> None:
        """`cause` is what the system said."""
        super().__init__(f"the output can't be written: {cause.strerror or cause}")
        self.has_no_reader = isinstance(cause, BrokenPipeError) or cause.errno == errno.EPIPE

    @property
    def code(self) -> ExitCode:
        """The exit code that says so."""
        return ExitCode.PIPE_CLOSED if self.has_no_reader else ExitCode.OUTPUT_FAILED

    def lines(self) -> Iterator[str]:
        """What is said of it; nothing of a reader that went away, as is the custom."""
        if not self.has_no_reader:
            yield f"jackline: {self}"


class _Outlet(io.RawIOBase):
    """The bottom of a stream: it waits where it would block, and swallows once its loss was heeded."""

    def __init__(self, stream: Any, *, tells: bool) -> None:  # noqa: ANN401 - generic in the stubs only
        super().__init__()
        self._stream = stream  # whoever lets go of it closes it
        # Without buffers (python -u) the stream's buffer is the bottom itself.
        self._raw: Any = getattr(stream.buffer, "raw", stream.buffer)
        self.tells = tells
        self.lost: OutputLost | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._raw.fileno())

    def isatty(self) -> bool:
        return bool(self._raw.isatty())

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever holds bytes
        size = memoryview(data).nbytes
        if self.lost is None:
            try:
                return self._written(data)
            except OSError as error:
                self.lost = OutputLost(error)
        if self.tells:
            raise self.lost
        return size

    def _written(self, data: Any) -> int:  # noqa: ANN401 - see `write`
        written = self._raw.write(data)
        while written is None:  # somebody has made it one that does not block
            select.select((), (self._raw,), ())
            written = self._raw.write(data)
        return int(written)


def prepare_streams() -> None:
    """Makes both streams usable whatever they are: closed ones swallow, and none fails on a character.

    Writing to standard output raises OutputLost if it can't be; writing to standard error never raises.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _outlet(getattr(sys, name), tells=name == "stdout"))


def lost_output() -> OutputLost | None:
    """What was lost of standard output in this process, if anything was."""
    outlet = _bottom()
    return outlet.lost if outlet is not None else None


def heed_lost_output() -> None:
    """From now on what is written to a standard output that was lost goes nowhere."""
    outlet = _bottom()
    if outlet is not None and outlet.lost is not None:
        outlet.tells = False


def _bottom() -> _Outlet | None:
    found = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return found if isinstance(found, _Outlet) else None


def _outlet(stream: Any, *, tells: bool) -> io.TextIOWrapper:  # noqa: ANN401 - generic in the stubs only
    return io.TextIOWrapper(
        io.BufferedWriter(_Outlet(stream, tells=tells)),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
