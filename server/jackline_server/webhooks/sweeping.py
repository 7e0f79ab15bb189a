"""Clears away deliveries that are over, and lets those die that nobody sends.

Owns how long they are kept. It runs without a webhook in the config too: those of a removed one are over some
time as well.
"""

import logging
from typing import NoReturn

from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.runtime.ports.webhooks import DeliveryQueue, Sweep

_DAY_MS = 86_400_000

DELIVERED_MS = 7 * _DAY_MS
"""How long the log has what was delivered."""

DEAD_MS = 30 * _DAY_MS
"""How long a dead letter can be sent again."""

PENDING_MS = 7 * _DAY_MS
"""How long a delivery waits for an endpoint that is gone, or is no longer in the config."""

EVERY_MS = 3_600_000
AT_ONCE = 256
_PAUSE_MS = 100

_log = logging.getLogger(__name__)


class DeliverySweeper:
    """Sweeps from when it is run until it is cancelled."""

    def __init__(self, *, queue: DeliveryQueue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock

    async def run(self) -> NoReturn:
        """Sweep now, and again each hour. A store that can't be asked is asked the next time."""
        while True:
            try:
                await self.sweep()
            except StoreError as error:
                _log.warning("deliveries could not be swept; trying again later: %s", error)
            await self._clock.sleep(EVERY_MS)

    async def sweep(self) -> None:
        """Sweep once, in small commits."""
        now = self._clock.unix_ms()
        sweep = Sweep(
            now_unix_ms=now,
            delivered_before=now - DELIVERED_MS,
            dead_before=now - DEAD_MS,
            pending_before=now - PENDING_MS,
            limit=AT_ONCE,
        )
        while await self._queue.sweep(sweep):
            await self._clock.sleep(_PAUSE_MS)
