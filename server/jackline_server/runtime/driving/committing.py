"""One run's commits, through a store that may be full, away for a while, or lose its answer.

Owns when a commit is tried again, and how one whose answer was lost is recognised. A commit is never
written twice and never given up while this process owns the run.
"""

import asyncio
from dataclasses import replace

from jackline_server.runtime.ports.journal import Append, Journal
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.store_errors import Fenced, HeadMismatch, StoreFull, StoreUnavailable

RETRY_MS = 250
"""How long a commit that the store could not take waits before it is tried again."""


class Committer:
    """Writes the commits of one run, one at a time. `epoch` is the one they are written under."""

    def __init__(self, epoch: int, *, journal: Journal, clock: Clock) -> None:
        self.epoch = epoch
        self._journal = journal
        self._clock = clock
        self._unsure = False

    async def commit(self, append: Append) -> int:
        """Write the commit; return how many of its events the store holds.

        That is all of them, unless an earlier attempt whose answer was lost had written the first few.
        Waits while the store has no room or can't be reached. Cancelling it leaves open whether the commit
        was written; the next one finds out.

        Raises:
            Fenced: another worker owns the run.
            HeadMismatch: the store does not hold what this process knows.
            CommandsWaiting: the commit ends the run, and commands have come.
        """
        while True:
            try:
                return await self._attempt(append)
            except StoreFull:
                await self._clock.sleep(RETRY_MS)
            except StoreUnavailable:
                self._unsure = True
                await self._clock.sleep(RETRY_MS)
            except Fenced:
                if append.epoch == self.epoch:
                    raise
                append = replace(append, epoch=self.epoch)

    async def _attempt(self, append: Append) -> int:
        try:
            await self._journal.append(append)
        except asyncio.CancelledError:
            self._unsure = True
            raise
        except HeadMismatch as mismatch:
            count = await self._written(append, mismatch.found) if self._unsure else 0
            if count == 0:
                raise
            self._unsure = False
            return count
        self._unsure = False
        return len(append.events)

    async def _written(self, append: Append, head: int) -> int:
        """How many of these events an attempt whose answer was lost has written; 0 if others stand there."""
        count = head - append.after_sequence
        if not 0 < count <= len(append.events):
            return 0
        ours, same = append.events[:count], 0
        while same < count:
            try:
                found = await self._journal.read(
                    append.run_id, after_sequence=append.after_sequence + same, limit=count - same
                )
            except StoreUnavailable:
                await self._clock.sleep(RETRY_MS)
                continue
            if not found or list(found) != list(ours[same : same + len(found)]):
                return 0
            same += len(found)
        return count
