"""The Leases port: who drives which run, by epoch and by the store's own clock."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.journal import Append
from jackline_server.runtime.ports.leases import Claim
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import Fenced
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import (
    LEASE_MS,
    OTHER_TENANT,
    ManualTime,
    append,
    applied,
    finish,
    head,
    new_run,
)

NOW = 5_000_000


async def test_a_queued_run_is_claimed_under_a_raised_epoch_without_gap(store: Store):
    await store.journal.create(new_run(owner=None))

    assert await _claim(store, "worker") == [
        Claim(tenant=DEFAULT_TENANT, run_id="run_a", epoch=1, gap_ms=None)
    ]
    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.epoch, row.owner) == (1, "worker")


async def test_a_run_whose_lease_lives_is_not_claimed(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.advance(LEASE_MS - 1)

    assert await _claim(store, "other") == []


async def test_a_run_whose_lease_ended_is_claimed_with_the_gap_and_its_old_owner_is_fenced(
    store: Store, time: ManualTime
):
    await store.journal.create(new_run())
    time.advance(LEASE_MS)

    (claim,) = await _claim(store, "other")

    assert (claim.epoch, claim.gap_ms) == (2, LEASE_MS)
    with pytest.raises(Fenced):
        await store.journal.append(append(epoch=1))
    await store.journal.append(append(epoch=2))


async def test_the_gap_counts_from_the_last_sign_of_life_and_stops_at_the_lease_time(
    store: Store, time: ManualTime
):
    await store.journal.create(new_run("run_a"))
    await store.journal.create(new_run("run_b"))
    time.advance(LEASE_MS - 1_000)
    await store.journal.append(append("run_a", summary=b"later"))
    time.advance(4_000)

    claims = await _claim(store, "other")

    assert {claim.run_id: claim.gap_ms for claim in claims} == {"run_a": 4_000, "run_b": LEASE_MS}


async def test_a_gap_never_exceeds_the_lease_time(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.advance(100 * LEASE_MS)

    (claim,) = await _claim(store, "other")

    assert claim.gap_ms == LEASE_MS


async def test_a_wall_clock_that_jumps_changes_no_lease(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.unix += 365 * 86_400_000

    assert await _claim(store, "other") == []


async def test_renewing_extends_the_lease_and_names_what_was_lost(store: Store, time: ManualTime):
    await store.journal.create(new_run("run_a"))
    await store.journal.create(new_run("run_b", owner="somebody"))
    time.advance(LEASE_MS - 1)

    assert await store.leases.renew("worker", ["run_a", "run_b", "run_nobody"]) == {"run_b", "run_nobody"}
    time.advance(LEASE_MS - 1)
    assert [claim.run_id for claim in await _claim(store, "other")] == ["run_b"]


async def test_a_worker_learns_at_renewal_that_its_run_was_taken(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.advance(LEASE_MS)
    await _claim(store, "other")

    assert await store.leases.renew("worker", ["run_a"]) == {"run_a"}
    assert await store.leases.renew("other", ["run_a"]) == frozenset()


async def test_a_lease_that_ended_but_was_not_taken_can_be_renewed(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.advance(2 * LEASE_MS)

    assert await store.leases.renew("worker", ["run_a"]) == frozenset()
    assert await _claim(store, "other") == []


async def test_a_released_run_is_claimed_at_once_and_without_gap(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.advance(1_000)
    await store.leases.release("worker", "run_a", epoch=1)

    (claim,) = await _claim(store, "other")

    assert (claim.epoch, claim.gap_ms) == (2, None)


async def test_a_release_of_an_old_epoch_has_no_effect(store: Store, time: ManualTime):
    await store.journal.create(new_run())
    time.advance(LEASE_MS)
    await _claim(store, "worker")

    await store.leases.release("worker", "run_a", epoch=1)

    assert await store.leases.renew("worker", ["run_a"]) == frozenset()
    assert await _claim(store, "other") == []


@pytest.mark.parametrize("phase", [Phase.PAUSED, Phase.WAITING])
async def test_a_run_that_waits_for_people_needs_no_worker(store: Store, phase: Phase):
    await _released(store, append(at=head(phase)))

    assert await _claim(store, "other") == []


async def test_a_waiting_run_needs_a_worker_for_a_command_until_it_is_settled(store: Store):
    await _released(store, append(at=head(Phase.WAITING)))
    await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)

    (claim,) = await _claim(store, "other")
    await store.journal.append(
        append(after=2, epoch=claim.epoch, at=head(Phase.WAITING), settled=[applied("one", 3)])
    )
    await store.leases.release("other", "run_a", epoch=claim.epoch)

    assert await _claim(store, "other") == []


async def test_a_waiting_run_needs_a_worker_when_its_time_has_come(store: Store):
    await _released(store, append(at=head(Phase.WAITING, wake=NOW + 1)))

    assert await _claim(store, "other") == []
    assert len(await store.leases.claim("other", limit=9, now_unix_ms=NOW + 1)) == 1


async def test_a_delayed_run_needs_a_worker_at_its_time_or_for_a_command(store: Store):
    delayed = replace(head(Phase.QUEUED, wake=NOW + 1), is_delayed=True)
    for run_id in ("run_a", "run_b"):
        await store.journal.create(new_run(run_id, owner=None, head=delayed))
    await store.commands.submit("run_b", command_id="c1", payload=b"1", limit=9)

    assert [claim.run_id for claim in await _claim(store, "other")] == ["run_b"]
    await store.journal.append(append("run_b", at=delayed))
    await store.leases.release("other", "run_b", epoch=1, heard=1)
    assert await _claim(store, "other") == []
    claims = await store.leases.claim("other", limit=9, now_unix_ms=NOW + 1)
    assert {claim.run_id for claim in claims} == {"run_a", "run_b"}


async def test_a_run_that_is_delayed_no_more_needs_a_worker(store: Store):
    delayed = replace(head(Phase.QUEUED, wake=NOW + 1), is_delayed=True)
    await store.journal.create(new_run(owner=None, head=delayed))
    assert len(await store.leases.claim("worker", limit=9, now_unix_ms=NOW + 1)) == 1
    await store.journal.append(append(at=head(Phase.QUEUED)))
    await store.leases.release("worker", "run_a", epoch=1)

    assert [claim.run_id for claim in await _claim(store, "other")] == ["run_a"]


async def test_a_finished_run_needs_no_worker(store: Store, time: ManualTime):
    await store.journal.create(new_run(head=head(wake=1)))
    await store.journal.append(finish())
    time.advance(10 * LEASE_MS)

    assert await _claim(store, "other") == []


async def test_the_oldest_runs_are_claimed_first_up_to_the_limit_from_all_tenants(store: Store):
    await store.journal.create(new_run("run_c", owner=None, created_unix_ms=3_000))
    await store.journal.create(new_run("run_a", owner=None, created_unix_ms=1_000, tenant=OTHER_TENANT))
    await store.journal.create(new_run("run_b", owner="worker", created_unix_ms=2_000))
    await store.journal.append(append("run_b", at=head(Phase.WAITING, wake=NOW)))
    await store.leases.release("worker", "run_b", epoch=1)

    first = await store.leases.claim("other", limit=2, now_unix_ms=NOW)
    rest = await store.leases.claim("other", limit=2, now_unix_ms=NOW)

    assert [(claim.tenant, claim.run_id) for claim in first] == [
        (OTHER_TENANT, "run_a"),
        (DEFAULT_TENANT, "run_b"),
    ]
    assert [claim.run_id for claim in rest] == ["run_c"]


async def test_of_those_that_are_called_the_ones_that_a_command_waits_for_are_claimed(store: Store):
    for name in ("run_a", "run_b", "run_c"):
        await store.journal.create(new_run(name, owner=None))
    for name in ("run_b", "run_c"):
        await store.commands.submit(name, command_id="one", payload=b"p", limit=64)

    claims = await store.leases.claim("other", limit=9, now_unix_ms=NOW, called={"run_a", "run_b"})

    assert [claim.run_id for claim in claims] == ["run_b"]


async def test_a_run_whose_time_has_come_is_claimed_whoever_is_called(store: Store):
    await _released(store, append(at=head(Phase.WAITING, wake=NOW)))

    (claim,) = await store.leases.claim("other", limit=9, now_unix_ms=NOW, called=())

    assert claim.run_id == "run_a"


async def test_workers_that_claim_at_once_never_get_the_same_run(store: Store):
    for number in range(60):
        await store.journal.create(new_run(f"run_{number:02}", owner=None))

    shares = await asyncio.gather(
        *(store.leases.claim(f"worker-{number}", limit=20, now_unix_ms=NOW) for number in range(6))
    )

    claimed = [claim.run_id for share in shares for claim in share]
    assert len(claimed) == len(set(claimed)) == 60


async def _released(store: Store, last: Append) -> None:
    await store.journal.create(new_run())
    await store.journal.append(last)
    await store.leases.release("worker", "run_a", epoch=1)


async def _claim(store: Store, worker: str) -> list[Claim]:
    return list(await store.leases.claim(worker, limit=100, now_unix_ms=NOW))


async def test_commands_that_were_heard_and_have_to_wait_need_no_worker_until_another_comes(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(append(at=head(Phase.PAUSED)))
    await store.commands.submit("run_a", command_id="c1", payload=b"1", limit=9)
    _, row = await store.commands.submit("run_a", command_id="c2", payload=b"2", limit=9)
    assert row is not None

    await store.leases.release("worker", "run_a", epoch=1, heard=row.ordinal)
    assert await _claim(store, "other") == []

    await store.commands.submit("run_a", command_id="c3", payload=b"3", limit=9)
    assert [claim.run_id for claim in await _claim(store, "other")] == ["run_a"]


async def test_a_command_that_came_after_the_last_look_needs_a_worker(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(append(at=head(Phase.PAUSED)))
    _, first = await store.commands.submit("run_a", command_id="c1", payload=b"1", limit=9)
    await store.commands.submit("run_a", command_id="c2", payload=b"2", limit=9)
    assert first is not None

    await store.leases.release("worker", "run_a", epoch=1, heard=first.ordinal)

    assert [claim.run_id for claim in await _claim(store, "other")] == ["run_a"]


async def test_a_run_that_is_not_paused_needs_a_worker_whatever_was_heard(store: Store):
    await store.journal.create(new_run())
    _, row = await store.commands.submit("run_a", command_id="c1", payload=b"1", limit=9)
    assert row is not None

    await store.leases.release("worker", "run_a", epoch=1, heard=row.ordinal)

    assert [claim.run_id for claim in await _claim(store, "other")] == ["run_a"]
