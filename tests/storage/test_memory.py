"""What the memory store has for simulations: no fencing, so that its worth can be shown."""

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.store import Durability
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.memory.store import memory_store
from tests.conformance.stores import LEASE_MS, ManualTime, append, event, finish, log, new_run


async def test_without_fencing_a_stale_writer_overwrites_what_the_new_owner_wrote(time: ManualTime):
    store = memory_store(clock=time.clock(), lease_ms=LEASE_MS, fencing=False)
    await store.journal.create(new_run())
    time.advance(LEASE_MS)
    (claim,) = await store.leases.claim("other", limit=1, now_unix_ms=0)
    await store.journal.append(append(epoch=claim.epoch, count=2))
    stale = append(epoch=1)

    await store.journal.append(stale)

    assert await log(store) == [event(1), stale.events[0], event(3)]


async def test_without_fencing_a_finished_run_can_be_written_to(time: ManualTime):
    store = memory_store(clock=time.clock(), fencing=False)
    await store.journal.create(new_run())
    await store.journal.append(finish())
    await store.journal.append(append(after=2))

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.phase, row.head_sequence) == (Phase.RUNNING, 3)


def test_memory_promises_no_durability():
    assert memory_store().durability is Durability.NONE
