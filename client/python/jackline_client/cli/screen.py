"""The screen: lines to standard output and standard error, and one live line on a terminal.

Owns that every line is safe to show and that no two are mixed up. Does not own what is said, nor what is
waited for (`progress`).

Escapes are written on a terminal only, and not under NO_COLOR or on a dumb one. A stream that can't encode a
character gets a readable escape of it.
"""

import os
import sys
from collections.abc import Mapping
from typing import TextIO

from jackline_client.cli.printable import LONGEST, printable
from jackline_client.cli.progress import Progress, takes_escapes

_STYLES: Mapping[str, str] = {
    "": "",
    "dim": "dim",
    "good": "green",
    "bad": "red",
    "ask": "bold yellow",
    "head": "bold",
}
_ASCII_FORMS = str.maketrans({"→": "->", "·": "-", "…": "..."})


class Screen:
    """Writes for a person.

    `live` text is gone with the next line; where there is no terminal, it is not shown.
    """

    def __init__(self, *, out: TextIO, errors: TextIO, environ: Mapping[str, str] | None = None) -> None:
        """Looks at the streams and the environment once."""
        environment = os.environ if environ is None else environ
        self._out = out
        self._errors = errors
        self._encoding = out.encoding or "ascii"
        self._terminal = _Terminal(out) if takes_escapes(out, environment) else None
        self.progress = Progress(errors=errors, environ=environment)

    @property
    def is_live(self) -> bool:
        """True if live text is shown."""
        return self._terminal is not None

    def line(self, text: str, *, style: str = "", limit: int = LONGEST) -> None:
        """Writes one line to standard output, cut after `limit` characters."""
        self.progress.clear()
        safe = self._encodable(printable(text, limit=limit))
        if self._terminal is None:
            print(safe, file=self._out, flush=True)
        else:
            self.progress.hold(False)
            self._terminal.line(safe, _STYLES[style])

    def live(self, text: str) -> None:
        """Shows the end of a text on the live line, in place of what stood there."""
        if self._terminal is not None:
            self.progress.clear()
            self.progress.hold(bool(text))
            self._terminal.live(self._encodable(printable(text)))

    def end_live(self) -> None:
        """Takes the live line away."""
        self.progress.clear()
        self.progress.hold(False)
        if self._terminal is not None:
            self._terminal.end_live()

    def problem(self, text: str) -> None:
        """Writes one line to standard error."""
        self.end_live()
        print(self._encodable(printable(text)), file=self._errors, flush=True)

    def raw(self, line: str) -> None:
        """Writes a line for a program: printable ASCII already."""
        self.progress.clear()
        print(line, file=self._out, flush=True)

    def _encodable(self, text: str) -> str:
        try:
            text.encode(self._encoding)
        except (UnicodeEncodeError, LookupError):
            return text.translate(_ASCII_FORMS)
        return text


class _Terminal:
    """The styled way: rich knows terminals and Windows consoles."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415 - slow to load, and needed on a terminal only

        self._console = Console(file=out, force_terminal=True, markup=False, highlight=False, emoji=False)
        self._has_live = False

    def line(self, text: str, style: str) -> None:
        self.end_live()
        self._console.print(text, style=style or None, soft_wrap=True)

    def live(self, text: str) -> None:
        from rich.cells import chop_cells  # noqa: PLC0415 - see above

        width = max(1, self._console.width - 1)
        pieces = chop_cells(text[-4 * width :][::-1], width) if text else [""]
        tail = pieces[0][::-1] if pieces else ""
        self.end_live()
        self._console.print(tail, style="dim", end="", soft_wrap=True)
        self._has_live = bool(tail)

    def end_live(self) -> None:
        if not self._has_live:
            return
        from rich.control import Control  # noqa: PLC0415 - see above
        from rich.segment import ControlType  # noqa: PLC0415 - see above

        self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        self._has_live = False


def make_screen() -> Screen:
    """Makes the screen of this process."""
    return Screen(out=sys.stdout, errors=sys.stderr)
