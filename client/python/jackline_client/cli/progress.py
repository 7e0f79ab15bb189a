"""What a command waits for, on the last line of a terminal's standard error, gone with the next output.

Owns when it is shown: on a terminal only, not under NO_COLOR or on a dumb one, and only once nothing has come
for a while. Does not own what is said.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from jackline_client.cli.printable import printable

_QUIET_S = 0.8
"""What is answered sooner needs no words."""
FRAME_S = 0.15
_FRAMES = "|/-\\"
_ERASE = "\r\x1b[2K"
_USUAL_WIDTH = 80


def takes_escapes(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """True if escapes may be written to a stream."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") not in {"dumb", "unknown"}


class Progress:
    """One line that says what is waited for and for how long."""

    def __init__(
        self, *, errors: TextIO, environ: Mapping[str, str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Looks at the stream and the environment once."""
        self._clock = clock
        self._errors = errors
        self._shows = takes_escapes(errors, environ)
        self._text = ""
        self._since = self._clock()
        self._frame = 0
        self._is_drawn = False
        self._is_held = False

    def about(self, text: str) -> None:
        """Says what is waited for from now on; an empty text: nothing."""
        self.clear()
        self._text = printable(text)

    def clear(self) -> None:
        """Takes the line away: something else is written. It comes back when nothing follows."""
        self._since = self._clock()
        if self._is_drawn:
            self._errors.write(_ERASE)
            self._errors.flush()
            self._is_drawn = False

    def hold(self, held: bool) -> None:
        """Keeps it from being shown while another line is live."""
        self._is_held = held

    def tick(self) -> None:
        """Shows it if nothing else has come for a while; call it every `FRAME_S` seconds."""
        waited = self._clock() - self._since
        if self._shows and self._text and not self._is_held and waited >= _QUIET_S:
            self._draw(waited)

    def _draw(self, waited: float) -> None:
        self._frame = (self._frame + 1) % len(_FRAMES)
        line = f"{_FRAMES[self._frame]} {self._text} ({waited:.0f} s)"
        encoding = self._errors.encoding or "ascii"
        line = line[: max(1, _width(self._errors) - 1)].encode(encoding, "replace").decode(encoding)
        self._errors.write(_ERASE + line)
        self._errors.flush()
        self._is_drawn = True


def _width(stream: TextIO) -> int:
    """The width of a terminal; some, such as those of programs, say none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except OSError:
        return _USUAL_WIDTH
