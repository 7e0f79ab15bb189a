"""How far one invocation is: of what its function says, the newest, about ten times a second.

Owns the pace, and the way from whatever thread the function runs in. Does not own the stream.
"""

import asyncio
from collections.abc import Callable

from jackline.v1 import tool_worker_pb2 as wire

EVERY_S = 0.1
_MOST_TEXT = 1_000


class Progress:
    """That of one invocation. `say` puts a message onto the stream of the moment."""

    def __init__(self, invocation: str, say: Callable[[wire.ConnectRequest], None]) -> None:
        """Call it in the event loop of the worker."""
        self._invocation = invocation
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._newest: wire.InvocationProgress | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._called = False
        self._over = False

    def report(self, text: str, fraction: float | None) -> None:
        """Take in how far it is, from any thread. Raises TypeError for what is no text or number."""
        words = text[:_MOST_TEXT].encode(errors="replace").decode()
        self._newest = wire.InvocationProgress(
            invocation=self._invocation, text=words, fraction=None if fraction is None else float(fraction)
        )
        if self._over or self._called:
            return
        self._called = True
        try:
            self._loop.call_soon_threadsafe(self._look)
        except RuntimeError:  # a thread has outlived its worker
            self._over = True

    def close(self) -> None:
        """The invocation is over: nothing more is told of it."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._called = False
        if self._timer is None:
            self._tell()

    def _tell(self) -> None:
        self._timer = None
        newest, self._newest = self._newest, None
        if newest is None or self._over:
            return
        self._say(wire.ConnectRequest(progress=newest))
        self._timer = self._loop.call_later(EVERY_S, self._tell)
