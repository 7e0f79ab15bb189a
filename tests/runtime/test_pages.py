"""Pages of logs that several watchers read."""

import asyncio
from collections.abc import Sequence

import pytest

from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.reading.pages import KEPT_BYTES, PAGE_EVENTS, Pages
from jackline_server.storage.memory.store import memory_store
from tests.conformance.stores import append, event, new_run


class CountedJournal:
    """A journal that counts reads, holds them back until `go`, and fails the first `failures` of them."""

    def __init__(self, *, failures: int = 0) -> None:
        self.store = memory_store()
        self.reads = 0
        self.go = asyncio.Event()
        self._failures = failures

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        self.reads += 1
        await self.go.wait()
        if self._failures:
            self._failures -= 1
            raise StoreUnavailable("for a while")
        return await self.store.journal.read(run_id, after_sequence=after_sequence, limit=limit)


async def filled(events: int, *, failures: int = 0) -> tuple[Pages, CountedJournal]:
    journal = CountedJournal(failures=failures)
    await journal.store.journal.create(new_run())
    if events > 1:
        await journal.store.journal.append(append(count=events - 1))
    return Pages(journal), journal  # pyright: ignore[reportArgumentType] - it is only read from


async def test_many_who_want_a_page_at_once_and_later_read_it_once() -> None:
    pages, journal = await filled(3)
    waiting = [asyncio.create_task(pages.after("run_a", 0)) for _ in range(100)]
    journal.go.set()
    found = await asyncio.gather(*waiting, pages.after("run_a", 0))
    assert all(page == found[0] for page in found)
    assert [event.sequence for event in found[0]] == [1, 2, 3]
    assert journal.reads == 1


async def test_what_came_later_stands_behind_the_end_of_a_kept_page() -> None:
    pages, journal = await filled(2)
    journal.go.set()
    assert [event.sequence for event in await pages.after("run_a", 0)] == [1, 2]
    assert await pages.after("run_a", 2) == []
    await journal.store.journal.append(append(after=2, count=1))
    assert [event.sequence for event in await pages.after("run_a", 0)] == [1, 2]
    assert [event.sequence for event in await pages.after("run_a", 2)] == [3]


async def test_one_who_leaves_takes_nothing_from_the_others() -> None:
    pages, journal = await filled(1)
    first, second = (asyncio.create_task(pages.after("run_a", 0)) for _ in range(2))
    await asyncio.wait({first}, timeout=0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    journal.go.set()
    assert len(await second) == 1


async def test_a_failed_read_fails_those_who_waited_and_is_tried_again() -> None:
    pages, journal = await filled(1, failures=1)
    waiting = [asyncio.create_task(pages.after("run_a", 0)) for _ in range(2)]
    journal.go.set()
    for task in waiting:
        with pytest.raises(StoreUnavailable):
            await task
    assert len(await pages.after("run_a", 0)) == 1


async def test_what_is_kept_is_bounded_in_bytes() -> None:
    pages, journal = await filled(1)
    journal.go.set()
    size = 200 * 1024
    runs = [f"run_{number}" for number in range(KEPT_BYTES // size + 5)]
    for run_id in runs:
        await journal.store.journal.create(new_run(run_id, first=event(1, content=b"x" * size)))
        await pages.after(run_id, 0)
    before = journal.reads
    await pages.after(runs[-1], 0)
    assert journal.reads == before
    await pages.after(runs[0], 0)
    assert journal.reads == before + 1


async def test_a_page_has_no_more_events_than_it_says() -> None:
    pages, journal = await filled(PAGE_EVENTS + 10)
    journal.go.set()
    assert len(await pages.after("run_a", 0)) == PAGE_EVENTS
