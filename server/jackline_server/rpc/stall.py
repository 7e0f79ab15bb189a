"""Noticing that the consumer of a stream takes nothing any more.

Owns the time that one write may wait. A stream writes often and stalls never, so a write costs no timer:
there is one for the stream, which looks when the oldest possible stall would be over.
"""

import asyncio


class Stall:
    """Watches the writes of the task that made it. `close` when the stream has ended."""

    __slots__ = ("_before", "_loop", "_since", "_struck", "_task", "_timer", "_wait_s")

    def __init__(self, *, wait_s: float) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a stream is written by a task")
        self._loop = asyncio.get_running_loop()
        self._task = task
        self._wait_s = wait_s
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._struck = False
        self._before = 0

    def begin(self) -> None:
        """A write begins."""
        self._since = self._loop.time()
        self._before = self._task.cancelling()
        if self._timer is None:
            self._timer = self._loop.call_later(self._wait_s, self._look)

    def end(self) -> None:
        """The write has ended, one way or another."""
        self._since = None

    def is_over(self) -> bool:
        """True if the CancelledError in hand came from here and from nobody else; asked in the write."""
        return self._struck and self._task.uncancel() <= self._before

    def close(self) -> None:
        """Watch no more."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._since is None:
            return
        left_s = self._since + self._wait_s - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._look)
        else:
            self._struck = True
            self._task.cancel()
