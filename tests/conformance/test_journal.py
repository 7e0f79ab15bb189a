"""The Journal port: one log per run, one commit per append, one writer per epoch."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.command_table import CommandState
from jackline_server.runtime.ports.journal import READ_BYTES, Creation, StoredEvent
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import CommandsWaiting, Fenced, HeadMismatch, StoreDamaged
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import (
    OTHER_TENANT,
    append,
    applied,
    event,
    finish,
    head,
    log,
    new_run,
    rejected,
)


async def test_a_created_run_has_its_first_event_its_plan_and_its_row(store: Store):
    created = await store.journal.create(new_run(labels={"team": "support"}))

    assert (created.creation, created.run_id) == (Creation.CREATED, "run_a")
    assert await log(store) == [event(1)]
    assert await store.journal.plan("digest") == b"plan"
    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.tenant, row.run_id, row.workflow) == (DEFAULT_TENANT, "run_a", "refunds")
    assert (row.plan_digest, row.labels, row.created_unix_ms) == ("digest", {"team": "support"}, 1_000)
    assert (row.epoch, row.owner, row.head_sequence) == (1, "worker", 1)
    assert (row.phase, row.summary, row.finished_unix_ms) == (Phase.RUNNING, b"summary", None)


async def test_a_run_without_owner_is_queued_at_epoch_zero(store: Store):
    await store.journal.create(new_run(owner=None))

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.epoch, row.owner, row.phase) == (0, None, Phase.QUEUED)


async def test_a_run_can_be_created_with_events_after_its_first_and_goes_on_after_them(store: Store):
    new = new_run(request_id="fork-1", rest=[event(2), event(3, content=b"")])
    assert (await store.journal.create(new)).creation is Creation.CREATED
    again = await store.journal.create(replace(new, run_id="run_b"))

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.head_sequence, row.epoch) == (3, 1)
    assert await log(store) == [event(1), event(2), event(3, content=b"")]
    assert (again.creation, again.run_id) == (Creation.DUPLICATE, "run_a")
    assert await store.runs.get(DEFAULT_TENANT, "run_b") is None
    with pytest.raises(HeadMismatch):
        await store.journal.append(append(after=1))
    await store.journal.append(append(after=3))
    assert (await log(store))[-1] == event(4)


async def test_events_of_a_new_run_are_numbered_from_one_without_a_hole(store: Store):
    for rest in ([event(3)], [event(1)], [event(2), event(4)]):
        with pytest.raises(ValueError, match="belongs"):
            await store.journal.create(new_run(rest=rest))
    assert await store.runs.get(DEFAULT_TENANT, "run_a") is None


async def test_a_repeated_request_finds_its_run_and_creates_nothing(store: Store):
    await store.journal.create(new_run("run_a", request_id="order-1"))
    again = await store.journal.create(new_run("run_b", request_id="order-1"))

    assert (again.creation, again.run_id) == (Creation.DUPLICATE, "run_a")
    assert await store.runs.get(DEFAULT_TENANT, "run_b") is None
    assert await log(store, "run_b") == []


async def test_a_request_id_with_another_content_is_a_conflict_and_creates_nothing(store: Store):
    await store.journal.create(new_run("run_a", request_id="order-1"))
    again = await store.journal.create(new_run("run_b", request_id="order-1", fingerprint=b"other"))

    assert (again.creation, again.run_id) == (Creation.CONFLICT, "run_a")
    assert await store.runs.get(DEFAULT_TENANT, "run_b") is None


async def test_a_request_id_belongs_to_one_tenant(store: Store):
    await store.journal.create(new_run("run_a", request_id="order-1"))
    other = await store.journal.create(new_run("run_b", tenant=OTHER_TENANT, request_id="order-1"))

    assert other.creation is Creation.CREATED


async def test_an_empty_request_id_was_never_used(store: Store):
    first = await store.journal.create(new_run("run_a"))
    second = await store.journal.create(new_run("run_b"))

    assert (first.creation, second.creation) == (Creation.CREATED, Creation.CREATED)


async def test_a_run_id_that_is_taken_is_a_conflict_and_changes_nothing(store: Store):
    await store.journal.create(new_run())
    again = await store.journal.create(new_run(workflow="other", request_id="order-9"))

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert again.creation is Creation.CONFLICT
    assert row is not None
    assert row.workflow == "refunds"
    assert await store.runs.find_request(DEFAULT_TENANT, "order-9") is None


async def test_two_hundred_simultaneous_creates_of_one_request_make_one_run(store: Store):
    made = await asyncio.gather(
        *(store.journal.create(new_run(f"run_{number}", request_id="order-1")) for number in range(200))
    )

    assert [created.creation for created in made].count(Creation.CREATED) == 1
    assert len({created.run_id for created in made}) == 1
    page = await _all_ids(store)
    assert page == [made[0].run_id]


async def test_appended_events_are_read_back_byte_for_byte(store: Store):
    await store.journal.create(new_run())
    odd = StoredEvent(2, bytes(range(256)), b"")
    await store.journal.append(replace(append(), events=[odd, event(3)]))

    assert await log(store) == [event(1), odd, event(3)]


async def test_a_read_starts_after_a_sequence_and_stops_at_its_limit(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(append(count=9))

    page = await store.journal.read("run_a", after_sequence=3, limit=4)

    assert [found.sequence for found in page] == [4, 5, 6, 7]


@pytest.mark.parametrize("after", [2, 3, 1_000])
async def test_a_read_at_or_beyond_the_head_is_empty(store: Store, after: int):
    await store.journal.create(new_run())
    await store.journal.append(append())

    assert list(await store.journal.read("run_a", after_sequence=after, limit=10)) == []


async def test_an_unknown_run_has_an_empty_log(store: Store):
    assert await log(store, "run_nobody") == []


async def test_an_append_brings_the_row_up_to_date(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(append(count=3, at=head(Phase.PAUSED, interrupts=1), summary=b"later"))

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.head_sequence, row.phase, row.summary) == (4, Phase.PAUSED, b"later")


@pytest.mark.parametrize("epoch", [0, 2])
async def test_an_append_under_another_epoch_is_fenced_without_effect(store: Store, epoch: int):
    await store.journal.create(new_run())

    with pytest.raises(Fenced):
        await store.journal.append(append(epoch=epoch, summary=b"stale"))

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert await log(store) == [event(1)]
    assert row is not None
    assert row.summary == b"summary"


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_an_append_elsewhere_than_at_the_head_is_refused_without_effect(store: Store, after: int):
    await store.journal.create(new_run())
    await store.journal.append(append())

    with pytest.raises(HeadMismatch) as refusal:
        await store.journal.append(append(after=after))

    assert (refusal.value.expected, refusal.value.found) == (after, 2)
    assert await log(store) == [event(1), event(2)]


async def test_an_append_to_a_run_that_is_not_there_finds_a_head_of_zero(store: Store):
    with pytest.raises(HeadMismatch) as refusal:
        await store.journal.append(append("run_nobody", after=7))

    assert (refusal.value.expected, refusal.value.found) == (7, 0)


async def test_events_out_of_order_are_the_callers_mistake(store: Store):
    await store.journal.create(new_run())
    swapped = replace(append(), events=[event(3), event(2)])

    with pytest.raises(ValueError, match="run_a"):
        await store.journal.append(swapped)
    with pytest.raises(ValueError, match="run_a"):
        await store.journal.create(new_run(first=event(2)))

    assert await log(store) == [event(1)]


async def test_of_two_simultaneous_appends_at_one_head_one_wins(store: Store):
    await store.journal.create(new_run())

    outcomes = await asyncio.gather(
        store.journal.append(append()), store.journal.append(append()), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes].count(HeadMismatch) == 1
    assert await log(store) == [event(1), event(2)]


async def test_one_refused_append_does_not_harm_its_neighbours(store: Store):
    for number in range(50):
        await store.journal.create(new_run(f"run_{number}"))

    outcomes = await asyncio.gather(
        *(
            store.journal.append(append(f"run_{number}", epoch=1 if number % 3 else 7))
            for number in range(50)
        ),
        return_exceptions=True,
    )

    for number, outcome in enumerate(outcomes):
        assert isinstance(outcome, Fenced) == (number % 3 == 0)
        assert len(await log(store, f"run_{number}")) == (1 if number % 3 == 0 else 2)


async def test_appends_of_one_run_in_one_group_follow_each_other(store: Store):
    await store.journal.create(new_run())

    await asyncio.gather(*(store.journal.append(append(after=after)) for after in range(1, 40)))

    assert await log(store) == [event(sequence) for sequence in range(1, 41)]


async def test_an_append_that_finishes_gives_up_the_lease_and_ends_the_run(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(finish())

    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.phase, row.owner, row.finished_unix_ms) == (Phase.SUCCEEDED, None, 9_000)
    assert await store.leases.renew("worker", ["run_a"]) == {"run_a"}


async def test_nothing_can_be_appended_behind_the_end(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(finish())

    with pytest.raises(Fenced):
        await store.journal.append(append(after=2))
    with pytest.raises(HeadMismatch):
        await store.journal.append(finish())

    assert len(await log(store)) == 2


async def test_a_finish_that_missed_a_command_is_refused_without_effect(store: Store):
    await store.journal.create(new_run())
    for command_id in ("one", "two"):
        await store.commands.submit("run_a", command_id=command_id, payload=b"p", limit=64)

    with pytest.raises(CommandsWaiting):
        await store.journal.append(finish(settled=[rejected("one", 2, "too_late")]))

    assert await log(store) == [event(1)]
    assert len(await store.commands.pending("run_a")) == 2
    row = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert row is not None
    assert (row.phase, row.owner) == (Phase.RUNNING, "worker")


async def test_a_finish_that_settles_every_command_is_accepted(store: Store):
    await store.journal.create(new_run())
    for command_id in ("one", "two"):
        await store.commands.submit("run_a", command_id=command_id, payload=b"p", limit=64)

    await store.journal.append(finish(settled=[rejected("one", 2, "too_late"), applied("two", 2)]))

    assert list(await store.commands.pending("run_a")) == []
    one = await store.commands.get("run_a", "one")
    assert one is not None
    assert (one.state, one.sequence, one.rejection) == (CommandState.REJECTED, 2, "too_late")


async def test_a_missing_plan_is_damage(store: Store):
    with pytest.raises(StoreDamaged):
        await store.journal.plan("nowhere")


async def test_equal_plans_are_stored_once_and_both_runs_read_theirs(store: Store):
    await store.journal.create(new_run("run_a", plan_digest="d1", plan=b"one"))
    await store.journal.create(new_run("run_b", plan_digest="d2", plan=b"two"))
    await store.journal.create(new_run("run_c", plan_digest="d1", plan=b"one"))

    assert (await store.journal.plan("d1"), await store.journal.plan("d2")) == (b"one", b"two")


async def test_a_cancelled_append_was_applied_wholly_or_not_at_all(store: Store):
    await store.journal.create(new_run())
    writing = asyncio.ensure_future(store.journal.append(append(count=5)))
    other = asyncio.ensure_future(store.journal.create(new_run("run_b")))
    await asyncio.sleep(0)  # both have begun, and nothing has come of either
    writing.cancel()
    await asyncio.wait({writing})
    async with asyncio.timeout(5):
        await other  # what came with the cancelled one comes to its end

    assert len(await log(store)) in (1, 6)


async def test_odd_values_come_back_as_they_went_in(store: Store):
    labels = {"a'; DROP TABLE runs; --": "ü\u202e\x1b[31m", "": "", "nul\0key": "nul\0value"}
    await store.journal.create(new_run("run_nul\0a", labels=labels, request_id="r\0one"))
    await store.journal.create(new_run("run_nul\0b", request_id="r\0two"))

    row = await store.runs.get(DEFAULT_TENANT, "run_nul\0a")
    assert row is not None
    assert row.labels == labels
    assert await store.runs.find_request(DEFAULT_TENANT, "r\0one") == ("run_nul\0a", b"fingerprint")
    assert await store.runs.find_request(DEFAULT_TENANT, "r") is None
    assert await store.runs.get(DEFAULT_TENANT, "run_nul") is None


async def _all_ids(store: Store) -> list[str]:
    page = await store.runs.page(RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=500))
    return [row.run_id for row in page.rows]


async def test_one_read_holds_a_bounded_number_of_bytes_and_at_least_one_event(store: Store):
    await store.journal.create(new_run())
    large = [event(sequence, content=bytes(READ_BYTES * 2 // 3)) for sequence in (2, 3)]
    huge = event(4, content=bytes(READ_BYTES * 2))
    await store.journal.append(replace(append(), events=[*large, huge]))

    reads = [await store.journal.read("run_a", after_sequence=after, limit=100) for after in range(4)]

    assert [[one.sequence for one in read] for read in reads] == [[1, 2], [2], [3], [4]]
