"""Deliveries: owed by commits, claimed by one at a time, settled once, and over some time."""

from pathlib import Path

import pytest

from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import Fenced, HeadMismatch
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.webhooks import (
    LOG_ATTEMPTS,
    AttemptOutcome,
    DeliveryQuery,
    DeliveryRow,
    DeliveryState,
    DueDelivery,
    NewDelivery,
    Settled,
    Sweep,
)
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import OTHER_TENANT, ManualTime, append, finish, new_run

PENDING, DELIVERED, DEAD = DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.DEAD


def owed(name: str = "msg_a", *, endpoint: str = "ops", sequence: int = 2, at: int = 1_000) -> NewDelivery:
    return NewDelivery(
        delivery_id=name,
        endpoint=endpoint,
        event="run.finished",
        sequence=sequence,
        created_unix_ms=at,
        body=b"body of " + name.encode(),
    )


async def owing(store: Store, *deliveries: NewDelivery) -> None:
    """A run whose second event owes these."""
    await store.journal.create(new_run())
    await store.journal.append(append(deliveries=deliveries))


async def claimed(
    store: Store, *, endpoint: str = "ops", now: int = 5_000, until: int = 60_000, limit: int = 10
) -> list[DueDelivery]:
    found = await store.deliveries.claim(endpoint, now_unix_ms=now, until_unix_ms=until, limit=limit)
    return list(found.due)


def settled(
    name: str = "msg_a",
    *,
    attempt: int = 1,
    state: DeliveryState = DELIVERED,
    at: int = 6_000,
    due: int | None = None,
) -> Settled:
    outcome = AttemptOutcome.DELIVERED if state is DELIVERED else AttemptOutcome.SERVER_ERROR
    return Settled(
        delivery_id=name,
        attempt=attempt,
        ended_unix_ms=at,
        took_ms=7,
        outcome=outcome,
        status=204 if state is DELIVERED else 503,
        state=state,
        due_unix_ms=due,
    )


async def rows(store: Store, **more: object) -> list[DeliveryRow]:
    query = DeliveryQuery(tenant=DEFAULT_TENANT, limit=100, **more)  # pyright: ignore[reportArgumentType] - a test names only what it is about
    return list(await store.deliveries.page(query))


def sweep(*, delivered: int = 0, dead: int = 0, pending: int = 0, limit: int = 100) -> Sweep:
    return Sweep(
        now_unix_ms=90_000,
        delivered_before=delivered,
        dead_before=dead,
        pending_before=pending,
        limit=limit,
    )


async def test_a_commit_writes_what_it_owes_with_its_run(store: Store):
    await owing(store, owed())

    (row,) = await rows(store)
    assert (row.delivery_id, row.endpoint, row.event) == ("msg_a", "ops", "run.finished")
    assert (row.tenant, row.run_id, row.sequence) == (DEFAULT_TENANT, "run_a", 2)
    assert (row.state, row.due_unix_ms, row.settled_unix_ms) == (PENDING, 1_000, None)
    assert (row.attempts, list(row.log)) == (0, [])


async def test_the_last_commit_of_a_run_owes_too(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(
        append(deliveries=[owed()], finishing=True, finished_unix_ms=9, at=finish().head)
    )

    assert [row.delivery_id for row in await rows(store)] == ["msg_a"]


async def test_a_commit_that_is_refused_owes_nothing(store: Store):
    await store.journal.create(new_run())

    with pytest.raises(HeadMismatch):
        await store.journal.append(append(after=3, deliveries=[owed()]))
    with pytest.raises(Fenced):
        await store.journal.append(append(epoch=7, deliveries=[owed()]))

    assert await rows(store) == []


async def test_what_is_due_is_claimed_oldest_first_with_its_body_and_counts_as_attempted(store: Store):
    await owing(store, owed("msg_b", at=2_000), owed("msg_a", at=1_000), owed("msg_c", at=9_000))

    due = await claimed(store)

    assert [(one.delivery_id, one.attempt, one.tries, one.body) for one in due] == [
        ("msg_a", 1, 1, b"body of msg_a"),
        ("msg_b", 1, 1, b"body of msg_b"),
    ]
    assert {row.delivery_id: row.attempts for row in await rows(store)} == {
        "msg_a": 1,
        "msg_b": 1,
        "msg_c": 0,
    }


async def test_a_claim_takes_no_more_than_asked_and_nothing_of_another_endpoint(store: Store):
    await owing(store, owed("msg_a"), owed("msg_b"), owed("msg_c", endpoint="other"))

    assert [one.delivery_id for one in await claimed(store, limit=1)] == ["msg_a"]
    assert [one.delivery_id for one in await claimed(store)] == ["msg_b"]
    assert [one.delivery_id for one in await claimed(store, endpoint="other")] == ["msg_c"]


async def test_what_is_claimed_is_not_claimed_again_until_its_time_is_over(store: Store):
    await owing(store, owed())
    await claimed(store, now=5_000, until=60_000)

    assert await claimed(store, now=59_999) == []
    assert [(one.attempt, one.tries) for one in await claimed(store, now=60_000)] == [(2, 2)]


async def test_a_claim_says_when_the_next_one_is_due(store: Store):
    await owing(store, owed("msg_a", at=7_000))
    found = await store.deliveries.claim("ops", now_unix_ms=6_999, until_unix_ms=60_000, limit=5)
    assert (list(found.due), found.next_unix_ms) == ([], 7_000)

    found = await store.deliveries.claim("ops", now_unix_ms=7_000, until_unix_ms=60_000, limit=5)
    assert (len(found.due), found.next_unix_ms) == (1, 60_000)

    nothing = await store.deliveries.claim("other", now_unix_ms=7_000, until_unix_ms=60_000, limit=5)
    assert (list(nothing.due), nothing.next_unix_ms) == ([], None)


async def test_what_is_delivered_is_never_due_again(store: Store):
    await owing(store, owed())
    await claimed(store)

    assert await store.deliveries.settle(settled())

    assert await claimed(store, now=10**15) == []
    (row,) = await rows(store)
    assert (row.state, row.due_unix_ms, row.settled_unix_ms) == (DELIVERED, None, 6_000)
    (attempt,) = row.log
    assert (attempt.attempt, attempt.ended_unix_ms, attempt.took_ms) == (1, 6_000, 7)
    assert (attempt.outcome, attempt.status) == (AttemptOutcome.DELIVERED, 204)


async def test_what_failed_is_due_when_it_was_said(store: Store):
    await owing(store, owed())
    await claimed(store)
    await store.deliveries.settle(settled(state=PENDING, due=11_000))

    assert await claimed(store, now=10_999) == []
    assert [one.attempt for one in await claimed(store, now=11_000)] == [2]


async def test_an_attempt_that_another_has_overtaken_settles_nothing(store: Store):
    await owing(store, owed())
    await claimed(store, until=60_000)
    await claimed(store, now=60_000, until=120_000)

    assert not await store.deliveries.settle(settled(attempt=1))
    assert not await store.deliveries.settle(settled("msg_unknown"))

    (row,) = await rows(store)
    assert (row.state, row.attempts, list(row.log)) == (PENDING, 2, [])
    assert await store.deliveries.settle(settled(attempt=2))
    assert not await store.deliveries.settle(settled(attempt=2, state=DEAD)), "it is settled"


async def test_the_log_has_the_newest_attempts(store: Store):
    await owing(store, owed())
    for attempt in range(1, LOG_ATTEMPTS + 3):
        await claimed(store, now=attempt * 10_000)
        await store.deliveries.settle(settled(attempt=attempt, state=PENDING, due=0))

    (row,) = await rows(store)
    assert [one.attempt for one in row.log] == list(range(3, LOG_ATTEMPTS + 3))


@pytest.mark.parametrize("state", [DELIVERED, DEAD])
async def test_a_settled_delivery_that_is_resent_is_due_at_once_with_all_its_tries(
    state: DeliveryState, store: Store
):
    await owing(store, owed())
    await claimed(store)
    await store.deliveries.settle(settled(state=state))

    row = await store.deliveries.resend(DEFAULT_TENANT, "msg_a", now_unix_ms=20_000)

    assert row is not None
    assert (row.state, row.due_unix_ms, row.settled_unix_ms, row.attempts) == (PENDING, 20_000, None, 1)
    (due,) = await claimed(store, now=20_000)
    assert (due.attempt, due.tries, due.body) == (2, 1, b"body of msg_a")


async def test_a_resend_while_it_is_being_sent_does_not_have_it_sent_by_two(store: Store):
    await owing(store, owed())
    await claimed(store, until=60_000)

    await store.deliveries.resend(DEFAULT_TENANT, "msg_a", now_unix_ms=20_000)

    assert await claimed(store, now=59_999) == []
    assert await store.deliveries.settle(settled())


async def test_another_tenant_neither_sees_nor_resends_nor_counts(store: Store):
    await owing(store, owed())

    assert await store.deliveries.resend(OTHER_TENANT, "msg_a", now_unix_ms=9) is None
    assert await store.deliveries.resend(DEFAULT_TENANT, "msg_x", now_unix_ms=9) is None
    assert list(await store.deliveries.page(DeliveryQuery(tenant=OTHER_TENANT, limit=9))) == []
    assert not any((await store.deliveries.count(OTHER_TENANT, "ops")).values())
    assert (await rows(store))[0].due_unix_ms == 1_000, "it is as it was"


async def test_a_page_filters_and_goes_on_before_the_last_one(store: Store):
    await owing(store, owed("msg_a"), owed("msg_b", endpoint="other"), owed("msg_c"))
    await claimed(store, endpoint="other")
    await store.deliveries.settle(settled("msg_b"))

    def ids(found: list[DeliveryRow]) -> list[str]:
        return [row.delivery_id for row in found]

    everything = await rows(store)
    assert ids(everything) == ["msg_c", "msg_b", "msg_a"]
    assert ids(await rows(store, endpoint="ops")) == ["msg_c", "msg_a"]
    assert ids(await rows(store, state=DELIVERED)) == ["msg_b"]
    assert ids(await rows(store, run_id="run_a", state=PENDING)) == ["msg_c", "msg_a"]
    assert ids(await rows(store, run_id="run_b")) == []
    assert ids(await rows(store, before=everything[0].position)) == ["msg_b", "msg_a"]
    first = await store.deliveries.page(DeliveryQuery(tenant=DEFAULT_TENANT, limit=2))
    assert ids(list(first)) == ["msg_c", "msg_b"]


async def test_deliveries_are_counted_by_where_they_stand(store: Store):
    await owing(store, owed("msg_a"), owed("msg_b"), owed("msg_c"), owed("msg_d", endpoint="other"))
    await claimed(store)
    await store.deliveries.settle(settled("msg_a"))
    await store.deliveries.settle(settled("msg_b", state=DEAD))

    counts = await store.deliveries.count(DEFAULT_TENANT, "ops")

    assert {state: counts.get(state, 0) for state in DeliveryState} == {PENDING: 1, DELIVERED: 1, DEAD: 1}


async def test_what_is_over_is_removed_and_what_nobody_sends_dies(store: Store):
    await owing(store, *(owed(f"msg_{one}") for one in "abcd"))
    await claimed(store, limit=2)
    await store.deliveries.settle(settled("msg_a", at=6_000))
    await store.deliveries.settle(settled("msg_b", state=DEAD, at=6_000))
    await claimed(store, limit=1)

    assert await store.deliveries.sweep(sweep(delivered=6_000, dead=6_000, pending=1_000)) == 0
    assert await store.deliveries.sweep(sweep(delivered=6_001, dead=6_001, pending=1_001)) == 3

    found = {row.delivery_id: (row.state, row.settled_unix_ms) for row in await rows(store)}
    assert found == {"msg_c": (PENDING, None), "msg_d": (DEAD, 90_000)}, "the one being sent stays"
    assert await claimed(store, now=59_999) == []


async def test_a_sweep_takes_no_more_than_asked(store: Store):
    await owing(store, *(owed(f"msg_{one}") for one in "abcde"))

    assert await store.deliveries.sweep(sweep(pending=2_000, limit=2)) == 2
    assert await store.deliveries.sweep(sweep(pending=2_000, limit=4)) == 3


async def test_a_resent_one_waits_anew(store: Store):
    await owing(store, owed())
    await store.deliveries.resend(DEFAULT_TENANT, "msg_a", now_unix_ms=50_000)

    assert await store.deliveries.sweep(sweep(pending=50_000)) == 0
    assert await store.deliveries.sweep(sweep(pending=50_001)) == 1


async def test_a_boot_has_sent_at_once_what_was_being_sent_when_the_last_process_ended(
    tmp_path: Path, time: ManualTime
):
    settings = SqliteSettings(clock=time.clock())
    opened = await open_sqlite(tmp_path / "data", settings)
    try:
        await owing(opened.store, owed("msg_a"), owed("msg_b"), owed("msg_c"))
        await claimed(opened.store, until=10**15, limit=2)
        await opened.store.deliveries.settle(settled("msg_a"))
    finally:
        await opened.close()

    opened = await open_sqlite(tmp_path / "data", settings)
    try:
        due = await claimed(opened.store, now=time.unix)
        assert [(one.delivery_id, one.attempt) for one in due] == [("msg_c", 1), ("msg_b", 2)]
    finally:
        await opened.close()
