"""Clears away blobs that nothing names: what crashes between bytes and their fact have left.

Owns when the store is asked to; the store knows which they are. A sweep goes in small commits, so that it
never holds up a run.
"""

import logging
from typing import NoReturn

from jackline_server.runtime.ports.blobs import Blobs
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.store_errors import StoreError

EVERY_MS = 3_600_000
AT_ONCE = 32
"""Blobs of one commit."""

_PAUSE_MS = 100

_log = logging.getLogger(__name__)


class Sweeper:
    """Sweeps a store from when it is run until it is cancelled."""

    def __init__(self, *, blobs: Blobs, clock: Clock) -> None:
        self._blobs = blobs
        self._clock = clock

    async def run(self) -> NoReturn:
        """Sweep now, and again each hour. A store that can't be asked is asked the next time."""
        while True:
            try:
                await self._sweep()
            except StoreError as error:
                _log.warning("blobs could not be swept; trying again later: %s", error)
            await self._clock.sleep(EVERY_MS)

    async def _sweep(self) -> None:
        removed = 0
        while found := await self._blobs.sweep(limit=AT_ONCE):
            removed += found
            await self._clock.sleep(_PAUSE_MS)
        if removed:
            _log.info("removed %d blobs that nothing names", removed)
