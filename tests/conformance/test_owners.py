"""The Owners port: a run is abandoned once none of the holds on it is good any more."""

from jackline_server.runtime.ports.owners import Abandoned, Hold
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import finish, new_run


def hold(run_id: str = "run_a", *, until: int, grace: int = 100) -> Hold:
    return Hold(run_id=run_id, grace_ms=grace, until_unix_ms=until)


async def abandoned(store: Store, now: int, *, limit: int = 10) -> list[str]:
    found = await store.owners.abandoned(now_unix_ms=now, limit=limit)
    return sorted(one.run_id for one in found)


async def test_a_run_that_nobody_ever_owned_is_never_abandoned(store: Store):
    await store.journal.create(new_run())

    assert await abandoned(store, 10**15) == []


async def test_a_hold_is_good_until_its_end_and_may_be_renewed(store: Store):
    await store.journal.create(new_run())
    await store.owners.hold("w1", [hold(until=1_000)])
    early, late = await abandoned(store, 999), await store.owners.abandoned(now_unix_ms=1_000, limit=10)

    await store.owners.hold("w1", [hold(until=2_000)])

    assert (early, list(late)) == ([], [Abandoned(tenant=DEFAULT_TENANT, run_id="run_a")])
    assert await abandoned(store, 1_000) == []


async def test_one_good_hold_of_several_processes_keeps_a_run(store: Store):
    await store.journal.create(new_run())
    await store.owners.hold("w1", [hold(until=1_000)])
    await store.owners.hold("w2", [hold(until=3_000)])

    assert await abandoned(store, 2_000) == []
    assert await abandoned(store, 3_000) == ["run_a"]


async def test_a_forgotten_run_belongs_to_nobody(store: Store):
    await store.journal.create(new_run())
    await store.owners.hold("w1", [hold(until=1_000)])

    await store.owners.forget("run_a")

    assert await abandoned(store, 10**15) == []


async def test_an_ended_or_unknown_run_takes_no_hold_and_an_old_one_is_told_to_be_forgotten(store: Store):
    await store.journal.create(new_run("run_a"))
    await store.journal.create(new_run("run_b"))
    await store.owners.hold("w1", [hold("run_a", until=1_000)])
    await store.journal.append(finish("run_a"))
    await store.journal.append(finish("run_b"))

    await store.owners.hold("w1", [hold("run_b", until=1_000), hold("run_c", until=1_000)])

    assert await abandoned(store, 1_000) == ["run_a"]


async def test_no_more_than_the_limit_are_named(store: Store):
    for name in "abc":
        await store.journal.create(new_run(f"run_{name}"))
        await store.owners.hold("w1", [hold(f"run_{name}", until=1)])

    assert len(await abandoned(store, 1, limit=2)) == 2
