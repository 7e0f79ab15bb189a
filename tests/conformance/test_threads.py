"""The Threads port, and how runs take their turns: one active run a thread, in the commits of runs."""

from dataclasses import replace
from typing import Any

import pytest

from jackline_server.core.facts import Phase, Usage
from jackline_server.runtime.ports.command_table import CommandState
from jackline_server.runtime.ports.journal import Append, Creation
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import BlobMissing
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.ports.thread_turns import AbortOrder, Joining, NewMessage, ThreadShare, Turn
from jackline_server.runtime.ports.threads import (
    Appending,
    AppendOutcome,
    Steering,
    SteerOutcome,
    ThreadRow,
    ThreadView,
)
from tests.conformance.stores import OTHER_TENANT, ManualTime, finish, head, new_run

ABORT = AbortOrder(command_id="replace", payload=b"abort")


async def message(
    store: Store, text: bytes, *, role: str = "user", tenant: Tenant = DEFAULT_TENANT
) -> NewMessage:
    return NewMessage(digest=await store.blobs.put(tenant, text), role=role, size=len(text))


async def join(
    store: Store, run_id: str, turn: Turn, *, position: int = 0, thread_id: str = "t", **more: Any
) -> Creation:
    joining = Joining(
        thread_id=thread_id, turn=turn, position=position, abort=ABORT if turn is Turn.NEXT else None
    )
    owner = "worker" if turn is Turn.NOW else None
    created = await store.journal.create(new_run(run_id, owner=owner, thread=joining, **more))
    return created.creation


def ending(run_id: str, *messages: NewMessage, epoch: int = 1) -> Append:
    share = ThreadShare(messages=messages, usage=Usage(prompt_tokens=10, completion_tokens=5), cost_micros=7)
    return replace(finish(run_id, epoch=epoch), thread=share)


async def view(store: Store, thread_id: str = "t", tenant: Tenant = DEFAULT_TENANT) -> ThreadView:
    found = await store.threads.after(tenant, thread_id, 0, limit=100, size=1_000_000)
    assert found is not None
    return found


async def row(store: Store, thread_id: str = "t") -> ThreadRow:
    return (await view(store, thread_id)).row


async def ready(store: Store) -> list[str]:
    claims = await store.leases.claim("other", limit=10, now_unix_ms=0)
    return [claim.run_id for claim in claims]


def appending(*messages: NewMessage, request_id: str = "", fingerprint: bytes = b"f") -> Appending:
    return Appending(
        tenant=DEFAULT_TENANT,
        thread_id="t",
        messages=messages,
        principal="ada",
        request_id=request_id,
        fingerprint=fingerprint,
        unix_ms=2_000,
    )


def steering(run_id: str, *, request_id: str = "r", fingerprint: bytes = b"f", limit: int = 8) -> Steering:
    return Steering(
        tenant=DEFAULT_TENANT,
        thread_id="t",
        run_id=run_id,
        request_id=request_id,
        fingerprint=fingerprint,
        command_id=f"steer-{request_id}",
        payload=b"steer",
        limit=limit,
        unix_ms=2_000,
    )


async def test_a_thread_comes_to_be_with_its_first_run_which_is_active(store: Store):
    assert await store.threads.newest(DEFAULT_TENANT, "t", limit=10, size=100) is None
    assert await join(store, "run_a", Turn.NOW) is Creation.CREATED

    found = await row(store)
    assert (found.active_run, found.messages, found.waiting, found.ended) == ("run_a", 0, 0, 0)
    run = await store.runs.get(DEFAULT_TENANT, "run_a")
    assert run is not None
    assert (run.thread_id, run.waits_for_turn) == ("t", False)


async def test_a_second_active_run_is_refused_and_leaves_nothing(store: Store):
    await join(store, "run_a", Turn.NOW)

    assert await join(store, "run_b", Turn.NOW, request_id="r") is Creation.MOVED
    assert await store.runs.get(DEFAULT_TENANT, "run_b") is None
    assert await store.runs.find_request(DEFAULT_TENANT, "r") is None


async def test_a_run_that_was_drafted_for_fewer_messages_is_refused(store: Store):
    await store.threads.append(appending(await message(store, b"one")))

    assert await join(store, "run_a", Turn.NOW, position=0) is Creation.MOVED
    assert await join(store, "run_a", Turn.NOW, position=1) is Creation.CREATED


@pytest.mark.parametrize("turn", [Turn.LAST, Turn.NEXT])
async def test_nothing_waits_in_an_idle_thread(store: Store, turn: Turn):
    assert await join(store, "run_a", turn) is Creation.MOVED


async def test_a_repeated_request_finds_its_run_whatever_the_thread_does(store: Store):
    await join(store, "run_a", Turn.NOW, request_id="r")

    assert await join(store, "run_b", Turn.NOW, request_id="r") is Creation.DUPLICATE


async def test_runs_that_wait_need_no_worker_and_get_their_turns_in_order(store: Store):
    await join(store, "run_a", Turn.NOW)
    await join(store, "run_b", Turn.LAST)
    await join(store, "run_c", Turn.LAST)
    assert await ready(store) == []

    await store.journal.append(ending("run_a", await message(store, b"a")))
    assert (await row(store)).active_run == "run_b"
    assert await ready(store) == ["run_b"]
    await store.journal.append(ending("run_b", await message(store, b"b")))
    assert await ready(store) == ["run_c"]


async def test_the_end_of_a_run_adds_its_messages_and_what_it_used(store: Store):
    await join(store, "run_a", Turn.NOW)
    said = [await message(store, b"hello"), await message(store, b"hi", role="assistant")]
    await store.journal.append(ending("run_a", *said))

    found = await view(store)
    assert [(one.position, one.digest, one.role, one.run_id) for one in found.messages] == [
        (1, said[0].digest, "user", "run_a"),
        (2, said[1].digest, "assistant", "run_a"),
    ]
    assert (found.row.ended, found.row.usage.total, found.row.cost_micros) == (1, 15, 7)
    assert (found.row.active_run, found.row.messages) == ("", 2)


async def test_an_end_without_a_share_still_ends_the_turn(store: Store):
    await join(store, "run_a", Turn.NOW)
    await store.journal.append(finish("run_a"))

    assert (await row(store)).active_run == ""


async def test_an_end_that_names_a_missing_message_changes_nothing(store: Store):
    await join(store, "run_a", Turn.NOW)
    with pytest.raises(BlobMissing):
        await store.journal.append(ending("run_a", NewMessage(digest="0" * 64, role="user", size=1)))

    assert (await row(store)).active_run == "run_a"
    await store.journal.append(ending("run_a"))


async def test_a_run_that_ends_while_it_waits_adds_nothing_and_gives_its_place_up(store: Store):
    await join(store, "run_a", Turn.NOW)
    await join(store, "run_b", Turn.LAST)
    await store.commands.submit("run_b", command_id="abort", payload=b"x", limit=9)
    assert await ready(store) == ["run_b"]
    await store.journal.append(
        replace(
            ending("run_b", await message(store, b"b")), settled=[], finishing=False, head=head(Phase.ABORTED)
        )
    )

    found = await view(store)
    assert (found.messages, found.row.active_run, found.row.waiting) == ([], "run_a", 0)


async def test_a_replacement_comes_first_and_its_abort_waits_for_the_active_run(store: Store):
    await join(store, "run_a", Turn.NOW)
    await join(store, "run_b", Turn.LAST)
    await join(store, "run_c", Turn.NEXT)
    await join(store, "run_d", Turn.NEXT)

    for run_id, expected in (("run_a", 1), ("run_b", 0), ("run_c", 1), ("run_d", 0)):
        assert len(await store.commands.pending(run_id)) == expected, run_id
    command = await store.commands.get("run_a", "replace")
    assert command is not None
    assert (command.payload, command.state) == (b"abort", CommandState.PENDING)
    assert await ready(store) == ["run_c"]
    assert (await row(store)).waiting == 3


async def test_messages_from_outside_follow_those_of_the_active_run(store: Store):
    await join(store, "run_a", Turn.NOW)
    own, other = await message(store, b"own"), await message(store, b"other")
    appended = await store.threads.append(appending(other))
    assert (appended.outcome, appended.row.pending, appended.row.messages) == (AppendOutcome.PENDING, 1, 0)
    await store.journal.append(ending("run_a", own))

    found = await view(store)
    assert [(one.digest, one.run_id, one.principal) for one in found.messages] == [
        (own.digest, "run_a", ""),
        (other.digest, "", "ada"),
    ]
    assert found.row.pending == 0


async def test_an_append_is_made_once_for_its_request_id(store: Store):
    one = await message(store, b"one")
    outcomes = [
        (await store.threads.append(appending(one, request_id="r", fingerprint=mark))).outcome
        for mark in (b"f", b"f", b"g")
    ]

    assert outcomes == [AppendOutcome.ADDED, AppendOutcome.REPEATED, AppendOutcome.CONFLICT]
    assert (await row(store)).messages == 1


async def test_an_append_that_names_a_missing_message_makes_no_thread(store: Store):
    with pytest.raises(BlobMissing):
        await store.threads.append(appending(NewMessage(digest="0" * 64, role="user", size=1)))

    assert await store.threads.page(DEFAULT_TENANT, before=None, limit=10) == []


async def test_guidance_reaches_the_active_run_once_for_its_request_id(store: Store):
    await join(store, "run_a", Turn.NOW)
    outcomes = [
        (await store.threads.steer(steering("run_a", fingerprint=mark))).outcome
        for mark in (b"f", b"f", b"g")
    ]

    assert outcomes == [SteerOutcome.ACCEPTED, SteerOutcome.DUPLICATE, SteerOutcome.CONFLICT]
    assert len(await store.commands.pending("run_a")) == 1
    assert await store.runs.find_request(DEFAULT_TENANT, "r") == ("run_a", b"f")


async def test_guidance_for_a_run_whose_turn_is_over_comes_to_nothing(store: Store):
    await join(store, "run_a", Turn.NOW)
    await store.journal.append(ending("run_a"))

    assert (await store.threads.steer(steering("run_a"))).outcome is SteerOutcome.MOVED
    assert await store.runs.find_request(DEFAULT_TENANT, "r") is None


async def test_guidance_is_refused_where_enough_waits(store: Store):
    await join(store, "run_a", Turn.NOW)
    await store.threads.steer(steering("run_a", request_id="r1", limit=1))

    assert (
        await store.threads.steer(steering("run_a", request_id="r2", limit=1))
    ).outcome is SteerOutcome.FULL


async def test_a_thread_belongs_to_one_tenant(store: Store):
    await join(store, "run_a", Turn.NOW)

    assert await store.threads.newest(OTHER_TENANT, "t", limit=10, size=100) is None
    assert await store.threads.page(OTHER_TENANT, before=None, limit=10) == []
    assert await join(store, "run_b", Turn.NOW, tenant=OTHER_TENANT) is Creation.CREATED


async def test_pages_of_threads_and_messages_have_each_once(store: Store):
    texts = [b"%d" % number for number in range(7)]
    await store.threads.append(appending(*[await message(store, text) for text in texts]))
    for number, name in enumerate(("run_a", "run_b", "run_c")):
        await join(store, name, Turn.NOW, thread_id=f"t{number}", created_unix_ms=5_000 + number)
    threads: list[str] = []
    before = None
    while page := await store.threads.page(DEFAULT_TENANT, before=before, limit=2):
        threads += [one.thread_id for one in page]
        before = page[-1].created_unix_ms, page[-1].thread_id
    positions: list[int] = []
    while (
        found := await store.threads.after(DEFAULT_TENANT, "t", len(positions), limit=3, size=2)
    ) and found.messages:
        positions += [one.position for one in found.messages]
    newest = await store.threads.newest(DEFAULT_TENANT, "t", limit=5, size=3)

    assert threads == ["t2", "t1", "t0", "t"]
    assert positions == [1, 2, 3, 4, 5, 6, 7]
    assert newest is not None
    assert [one.position for one in newest.messages] == [5, 6, 7]


async def test_runs_are_listed_by_their_thread(store: Store):
    await join(store, "run_a", Turn.NOW)
    await store.journal.create(new_run("run_b"))
    query = RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=10, thread_id="t")

    assert [one.run_id for one in (await store.runs.page(query)).rows] == ["run_a"]


async def test_the_messages_of_a_thread_are_never_swept(store: Store, time: ManualTime):
    await join(store, "run_a", Turn.NOW)
    said = await message(store, b"hello")
    await store.journal.append(ending("run_a", said))
    time.advance(3 * 24 * 3_600_000)

    assert await store.blobs.sweep(limit=10) == 0
    assert await store.blobs.size(DEFAULT_TENANT, said.digest) == 5
