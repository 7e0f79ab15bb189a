"""The Runs port: rows by id, by request and by page."""

from dataclasses import replace

import pytest

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import OTHER_TENANT, append, finish, head, new_run


async def test_another_tenants_run_is_as_absent_as_one_that_never_was(store: Store):
    await store.journal.create(new_run())

    assert await store.runs.get(OTHER_TENANT, "run_a") is None
    assert await store.runs.get(DEFAULT_TENANT, "run_nobody") is None


async def test_a_request_id_leads_to_its_run_and_fingerprint_in_its_tenant_only(store: Store):
    await store.journal.create(new_run(request_id="order-1", fingerprint=b"\x00\xff"))

    assert await store.runs.find_request(DEFAULT_TENANT, "order-1") == ("run_a", b"\x00\xff")
    assert await store.runs.find_request(OTHER_TENANT, "order-1") is None
    assert await store.runs.find_request(DEFAULT_TENANT, "order-2") is None


async def test_a_page_is_newest_first_by_creation_time_then_id(store: Store):
    await _three_and_a_stranger(store)

    assert await _ids(store) == ["run_c", "run_b", "run_a"]
    assert await _ids(store, oldest_first=True) == ["run_a", "run_b", "run_c"]


@pytest.mark.parametrize("oldest_first", [False, True])
async def test_pages_continue_after_the_last_run_and_count_all(store: Store, oldest_first: bool):
    await _three_and_a_stranger(store)
    everything = await _ids(store, oldest_first=oldest_first)

    collected: list[str] = []
    before: tuple[int, str] | None = None
    for _ in range(3):
        page = await store.runs.page(
            RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=1, before=before, oldest_first=oldest_first)
        )
        assert page.total == 3
        (row,) = page.rows
        collected.append(row.run_id)
        before = (row.created_unix_ms, row.run_id)

    assert collected == everything
    end = await store.runs.page(
        RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=1, before=before, oldest_first=oldest_first)
    )
    assert (list(end.rows), end.total) == ([], 3)


async def test_phases_filter(store: Store):
    await _three_and_a_stranger(store)
    await store.journal.append(finish("run_a"))
    await store.journal.append(append("run_b", at=head(Phase.PAUSED)))

    assert await _ids(store, phases=frozenset({Phase.SUCCEEDED})) == ["run_a"]
    assert await _ids(store, phases=frozenset({Phase.SUCCEEDED, Phase.PAUSED})) == ["run_b", "run_a"]
    assert await _ids(store, phases=frozenset({Phase.FAILED})) == []


async def test_the_workflow_filters(store: Store):
    await _three_and_a_stranger(store)

    assert await _ids(store, workflow="triage") == ["run_b"]


async def test_all_labels_have_to_match(store: Store):
    await _three_and_a_stranger(store)

    assert await _ids(store, labels={"team": "red"}) == ["run_b", "run_a"]
    assert await _ids(store, labels={"team": "red", "tier": "gold"}) == ["run_b"]
    assert await _ids(store, labels={"team": "blue", "tier": "gold"}) == []
    assert await _ids(store, labels={"' OR 1=1 --": "x"}) == []


async def test_creation_time_filters_from_a_time_and_before_another(store: Store):
    await _three_and_a_stranger(store)

    assert await _ids(store, created_from_unix_ms=2_000) == ["run_c", "run_b"]
    assert await _ids(store, created_until_unix_ms=2_000) == ["run_a"]


async def test_open_interrupts_filter(store: Store):
    await _three_and_a_stranger(store)
    await store.journal.append(append("run_c", at=head(Phase.WAITING, interrupts=2)))

    assert await _ids(store, with_interrupts=True) == ["run_c"]
    await store.journal.append(append("run_c", after=2, at=head()))
    assert await _ids(store, with_interrupts=True) == []


async def test_delayed_runs_may_be_left_out(store: Store):
    await _three_and_a_stranger(store)
    delayed = replace(head(Phase.QUEUED, wake=9_000), is_delayed=True)
    await store.journal.create(new_run("run_d", created_unix_ms=4_000, owner=None, head=delayed))

    assert await _ids(store) == ["run_d", "run_c", "run_b", "run_a"]
    assert await _ids(store, without_delayed=True) == ["run_c", "run_b", "run_a"]


async def _three_and_a_stranger(store: Store) -> None:
    await store.journal.create(new_run("run_b", created_unix_ms=2_000, workflow="triage", labels=_RED_GOLD))
    await store.journal.create(new_run("run_a", created_unix_ms=1_000, labels={"team": "red"}))
    await store.journal.create(new_run("run_c", created_unix_ms=2_000, labels={"team": "blue"}))
    await store.journal.create(new_run("run_x", created_unix_ms=3_000, tenant=OTHER_TENANT, labels=_RED_GOLD))


_RED_GOLD = {"team": "red", "tier": "gold"}


async def _ids(store: Store, **filters: object) -> list[str]:
    given: dict[str, object] = {"labels": {}, "limit": 100, **filters}
    query = RunQuery(tenant=DEFAULT_TENANT, **given)  # pyright: ignore[reportArgumentType] - filters of the test
    page = await store.runs.page(query)
    assert page.total == len(page.rows)
    return [row.run_id for row in page.rows]
