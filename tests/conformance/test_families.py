"""Parents and children: runs that an append creates, commands between runs, and who lives below."""

import pytest

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.command_table import Below, Submission
from jackline_server.runtime.ports.journal import Message, NewRun
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import Fenced, HeadMismatch
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import OTHER_TENANT, append, finish, head, log, new_run


def child(run_id: str = "run_b", *, parent: str = "run_a") -> NewRun:
    return new_run(
        run_id, owner=None, parent_run_id=parent, plan_digest=f"digest-{run_id}", labels={"a": "b"}
    )


def told(run_id: str, command_id: str = "told", payload: bytes = b"p") -> Message:
    return Message(run_id=run_id, command_id=command_id, payload=payload)


async def family(store: Store) -> None:
    """`run_a` has `run_b` and `run_c`, and `run_b` has `run_d`."""
    await store.journal.create(new_run())
    await store.journal.append(append(after=1, births=[child("run_b"), child("run_c")]))
    claims = await store.leases.claim("worker", limit=10, now_unix_ms=0)
    epochs = {claim.run_id: claim.epoch for claim in claims}
    await store.journal.append(
        append(run_id="run_b", epoch=epochs["run_b"], births=[child("run_d", parent="run_b")])
    )


async def pending(store: Store, run_id: str) -> list[str]:
    return [row.command_id for row in await store.commands.pending(run_id)]


async def test_an_append_creates_its_children_queued_with_plan_labels_and_parent(store: Store):
    await store.journal.create(new_run())

    await store.journal.append(append(after=1, births=[child()]))

    row = await store.runs.get(DEFAULT_TENANT, "run_b")
    assert row is not None
    assert (row.parent_run_id, row.owner, row.epoch, row.labels) == ("run_a", None, 0, {"a": "b"})
    assert await log(store, "run_b") == [child().first]
    assert await store.journal.plan("digest-run_b") == b"plan"
    parent = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert parent is not None
    assert parent.parent_run_id == ""
    claims = await store.leases.claim("other", limit=10, now_unix_ms=0)
    assert [claim.run_id for claim in claims] == ["run_b"]


async def test_a_refused_append_creates_nothing_and_tells_nobody(store: Store):
    await store.journal.create(new_run())
    await store.journal.create(new_run("run_c"))

    with pytest.raises(Fenced):
        await store.journal.append(append(after=1, epoch=7, births=[child()], messages=[told("run_c")]))
    with pytest.raises(HeadMismatch):
        await store.journal.append(append(after=2, births=[child()], messages=[told("run_c")]))

    assert await store.runs.get(DEFAULT_TENANT, "run_b") is None
    assert await pending(store, "run_c") == []


async def test_a_child_that_is_there_is_left_as_it_is(store: Store):
    await family(store)
    before = await store.runs.get(DEFAULT_TENANT, "run_b")

    await store.journal.append(append(after=2, births=[child("run_b")]))

    assert await store.runs.get(DEFAULT_TENANT, "run_b") == before


async def test_a_message_is_a_command_of_the_other_run_once_and_over_any_limit(store: Store):
    await family(store)
    await store.commands.submit("run_c", command_id="full", payload=b"f", limit=1)

    await store.journal.append(append(after=2, messages=[told("run_c")]))
    await store.journal.append(append(after=3, messages=[told("run_c", payload=b"other"), told("nobody")]))

    assert await pending(store, "run_c") == ["full", "told"]
    row = await store.commands.get("run_c", "told")
    assert row is not None
    assert row.payload == b"p"


async def test_a_message_to_a_run_that_has_ended_is_dropped(store: Store):
    await store.journal.create(new_run())
    await store.journal.create(new_run("run_c"))
    await store.journal.append(finish(after=1, run_id="run_c"))

    await store.journal.append(append(after=1, messages=[told("run_c")]))

    assert await store.commands.get("run_c", "told") is None


async def test_the_last_commit_of_a_child_wakes_a_parent_that_waits(store: Store):
    await store.journal.create(new_run())
    await store.journal.append(append(births=[child()], at=head(Phase.WAITING)))
    await store.leases.release("worker", "run_a", epoch=1)
    (claim,) = await store.leases.claim("worker", limit=10, now_unix_ms=0)
    assert claim.run_id == "run_b", "a parent that waits needs nobody"

    await store.journal.append(
        finish(run_id="run_b", epoch=claim.epoch, messages=[told("run_a", "ended run_b")])
    )

    claims = await store.leases.claim("worker", limit=10, now_unix_ms=0)
    assert [one.run_id for one in claims] == ["run_a"]
    assert await pending(store, "run_a") == ["ended run_b"]


async def test_an_accepted_command_comes_to_all_that_live_below_in_their_own_words(store: Store):
    await family(store)
    row = await store.runs.get(DEFAULT_TENANT, "run_c")
    assert row is not None
    await store.journal.append(finish(after=1, run_id="run_c", epoch=row.epoch))

    await store.commands.submit(
        "run_a", command_id="stop", payload=b"mine", limit=64, below=Below(command_id="on", payload=b"theirs")
    )
    again, _ = await store.commands.submit(
        "run_a", command_id="stop", payload=b"mine", limit=64, below=Below(command_id="on", payload=b"others")
    )

    assert again is Submission.REPEATED
    ids = {"run_a": "stop", "run_b": "on", "run_c": "on", "run_d": "on"}
    found = {one: await store.commands.get(one, given) for one, given in ids.items()}
    assert await store.commands.get("run_b", "stop") is None
    assert {one: row and row.payload for one, row in found.items()} == {
        "run_a": b"mine",
        "run_b": b"theirs",
        "run_c": None,
        "run_d": b"theirs",
    }
    assert sorted(await store.runs.living_below(DEFAULT_TENANT, "run_a")) == ["run_b", "run_d"]
    assert await store.runs.living_below(OTHER_TENANT, "run_a") == []


async def test_runs_are_listed_by_their_parent(store: Store):
    await family(store)

    page = await store.runs.page(RunQuery(tenant=DEFAULT_TENANT, labels={}, parent_run_id="run_a", limit=10))

    assert sorted(row.run_id for row in page.rows) == ["run_b", "run_c"]
    assert page.total == 2
    none = await store.runs.page(RunQuery(tenant=OTHER_TENANT, labels={}, parent_run_id="run_a", limit=10))
    assert none.total == 0


async def test_a_child_with_an_owner_or_a_request_is_a_mistake_of_the_caller(store: Store):
    await store.journal.create(new_run())

    with pytest.raises(ValueError, match="run_b"):
        await store.journal.append(append(after=1, births=[new_run("run_b", owner="worker")]))
