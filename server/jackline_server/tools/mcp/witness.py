"""What a server of our own showed of itself while it was started: why it may have failed, for people.

Owns the end of its standard error, the first line that was no message and its exit code, made fit to show:
no value of its environment, no control character, bounded. Does not own when it has failed (`session`).
"""

import re
import signal
from collections.abc import Mapping

from jackline_server.runtime.ports.secrets import Secret

_KEPT_CHARS = 4_096
_SHOWN_CHARS = 300
_SHOWN_LINES = 3
_LINE_CHARS = 80
_SHORTEST_VALUE = 4
"""A shorter value of the environment is a switch, and stands in too many words to be taken out of them."""

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Witness:
    """Notes about one process. Used by the tasks of one session, in one event loop."""

    def __init__(self, environment: Mapping[str, Secret]) -> None:
        values = [(value.reveal(), name) for name, value in environment.items()]
        self._values = sorted(
            ((value, name) for value, name in values if len(value) >= _SHORTEST_VALUE),
            key=lambda one: -len(one[0]),
        )
        self._longest = len(self._values[0][0]) if self._values else 0
        self._stderr = ""
        self._was_cut = False
        self._stray: str | None = None
        self._code: int | None = None

    def heard(self, text: str) -> None:
        """A piece of its standard error."""
        self._stderr += text
        limit = _KEPT_CHARS + self._longest
        if len(self._stderr) > limit:
            self._stderr, self._was_cut = self._stderr[-limit:], True

    def saw_stray(self, line: bytes) -> None:
        """A line of its standard output that is no message. The first one is kept."""
        if self._stray is None:
            self._stray = line[: _KEPT_CHARS + self._longest].decode("utf-8", "replace")

    def saw_end(self, code: int) -> None:
        """It has ended by itself; a negative code is the signal that ended it."""
        self._code = code

    def ending(self) -> str:
        """How it ended before it answered, in a few words of ours alone."""
        if self._code is None:
            return "it closed its standard output before it answered"
        if self._code >= 0:
            return f"it ended with code {self._code} before it answered"
        try:
            by = signal.Signals(-self._code).name
        except ValueError:
            by = f"signal {-self._code}"
        return f"{by} ended it before it answered"

    def account(self, problem: str) -> str:
        """The problem with what the server itself said of it."""
        told = [problem]
        if self._stray is not None:
            line = _one_line(self.masked(self._stray))
            told.append(f"it wrote a line that is no JSON-RPC message: {_head(line)}")
        if said := self._last_words():
            told.append(f"the end of its standard error: {said}")
        return "; ".join(told)

    def masked(self, text: str) -> str:
        """The text with each value of the environment replaced by its name in brackets."""
        for value, name in self._values:
            text = text.replace(value, f"[{name}]")
        return text

    def _last_words(self) -> str:
        # Half a value may stand where the text was cut: no more of it than the longest one has.
        text = self._stderr[self._longest :] if self._was_cut else self._stderr
        lines = [line for one in self.masked(text).splitlines() if (line := _one_line(one))]
        said = " | ".join(lines[-_SHOWN_LINES:])
        return said if len(said) <= _SHOWN_CHARS else f"…{said[-_SHOWN_CHARS:]}"


def _one_line(text: str) -> str:
    plain = _COLOURS.sub("", text)
    return " ".join("".join(char if char.isprintable() else " " for char in plain).split())


def _head(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
