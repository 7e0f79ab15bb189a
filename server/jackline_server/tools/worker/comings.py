"""The log lines of a pool: who joins it, drains, loses its stream, comes back, leaves or is lost.

Owns how many of them there are: a worker that comes and goes all the time must not fill the log.
"""

import asyncio
import logging

from jackline_server.runtime.allowances import MinuteAllowance
from jackline_server.tools.worker.session import Session

_log = logging.getLogger(__name__)

LINES_A_MINUTE = 60


class Comings:
    """Writes the lines of one pool, and counts those that would be too many. Use it in one event loop."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._lines = MinuteAllowance(LINES_A_MINUTE)
        self._unsaid = 0

    def say(self, what: str, session: Session) -> None:
        """One line on a worker, or none if the minute has had enough; the next says how many there were."""
        now = asyncio.get_running_loop().time()
        if self._lines.wait_s(1, now) > 0:
            self._unsaid += 1
            return
        self._lines.spend(1, now)
        more = {"lines_left_out": self._unsaid} if self._unsaid else {}
        self._unsaid = 0
        _log.info(
            what,
            extra={
                "pool": self._pool,
                "worker": session.offer.worker,
                "principal": session.principal,
                "in_flight": len(session.flights),
                **more,
            },
        )
