"""Pages of stored events that several watchers read: each is read once while somebody may still want it.

Owns the pages that were read last, bounded in bytes, and the reads under way. Events never change, so a page
is true for ever; it may be shorter than what the log holds by now, and whoever wants more asks after its end.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from jackline_server.runtime.ports.journal import Journal, StoredEvent

PAGE_EVENTS = 256
KEPT_BYTES = 8 * 1024 * 1024

_PAGE_BYTES, _EVENT_BYTES = 600, 250
"""What a page and an event take beside their bytes."""

_Key = tuple[str, int]
_Page = Sequence[StoredEvent]


class Pages:
    """Reads logs page by page. One for all watchers of a process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._kept: OrderedDict[_Key, tuple[_Page, int]] = OrderedDict()
        self._kept_bytes = 0
        self._reading: dict[_Key, asyncio.Task[_Page]] = {}

    async def after(self, run_id: str, sequence: int) -> _Page:
        """Events right after that one, at most `PAGE_EVENTS`; empty if there are none yet.

        A read that several wait for goes on while one of them is cancelled. Raises what the journal raises.
        """
        key = (run_id, sequence)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept[0]
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(key))
            reading.add_done_callback(_heard)
        return await asyncio.shield(reading)

    async def _read(self, key: _Key) -> _Page:
        try:
            page = await self._journal.read(key[0], after_sequence=key[1], limit=PAGE_EVENTS)
        finally:
            del self._reading[key]
        if page:
            self._keep(key, page)
        return page

    def _keep(self, key: _Key, page: _Page) -> None:
        size = _PAGE_BYTES + sum(_EVENT_BYTES + len(event.meta) + len(event.content) for event in page)
        self._kept[key] = (page, size)
        self._kept_bytes += size
        while self._kept_bytes > KEPT_BYTES:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._kept_bytes -= dropped


def _heard(reading: asyncio.Task[_Page]) -> None:
    """Take note of an error that nobody waits for any more."""
    if not reading.cancelled():
        reading.exception()
