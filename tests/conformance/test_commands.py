"""The Commands port: unique by run and command id, ordered, bounded, settled by appends."""

import asyncio

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.command_table import CommandState, Submission
from jackline_server.runtime.ports.store import Store
from tests.conformance.stores import append, applied, finish, head, log, new_run, rejected


async def test_a_submitted_command_is_pending_with_the_next_ordinal(store: Store):
    await store.journal.create(new_run())

    first, row = await store.commands.submit("run_a", command_id="one", payload=b"\x00p", limit=64)
    await store.commands.submit("run_a", command_id="two", payload=b"q", limit=64)

    assert first is Submission.ACCEPTED
    assert row is not None
    assert (row.command_id, row.ordinal, row.payload) == ("one", 1, b"\x00p")
    assert (row.state, row.sequence, row.rejection) == (CommandState.PENDING, 0, "")
    pending = await store.commands.pending("run_a")
    assert [(found.command_id, found.ordinal) for found in pending] == [("one", 1), ("two", 2)]
    assert await store.commands.get("run_a", "one") == row


async def test_a_known_id_answers_with_the_stored_row_and_stores_nothing(store: Store):
    await store.journal.create(new_run())
    _, first = await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)

    again, row = await store.commands.submit("run_a", command_id="one", payload=b"other", limit=1)

    assert again is Submission.REPEATED
    assert row == first
    assert len(await store.commands.pending("run_a")) == 1


async def test_a_hundred_simultaneous_submits_of_one_id_store_one_command(store: Store):
    await store.journal.create(new_run())

    outcomes = await asyncio.gather(
        *(store.commands.submit("run_a", command_id="one", payload=b"p", limit=64) for _ in range(100))
    )

    assert [kind for kind, _ in outcomes].count(Submission.ACCEPTED) == 1
    assert len({row.ordinal for _, row in outcomes if row is not None}) == 1


async def test_command_ids_of_different_runs_do_not_meet(store: Store):
    await store.journal.create(new_run("run_a"))
    await store.journal.create(new_run("run_b"))

    one, _ = await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)
    other, row = await store.commands.submit("run_b", command_id="one", payload=b"p", limit=64)

    assert (one, other) == (Submission.ACCEPTED, Submission.ACCEPTED)
    assert row is not None
    assert row.ordinal == 1


async def test_a_full_table_takes_no_more_until_one_is_settled(store: Store):
    await store.journal.create(new_run())
    for command_id in ("one", "two"):
        await store.commands.submit("run_a", command_id=command_id, payload=b"p", limit=2)

    full = await store.commands.submit("run_a", command_id="three", payload=b"p", limit=2)
    await store.journal.append(append(settled=[applied("one", 2)]))
    free, row = await store.commands.submit("run_a", command_id="three", payload=b"p", limit=2)

    assert full == (Submission.FULL, None)
    assert free is Submission.ACCEPTED
    assert row is not None
    assert row.ordinal == 3


async def test_a_terminal_run_takes_no_command_but_still_knows_the_old_ones(store: Store):
    await store.journal.create(new_run())
    await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)
    await store.journal.append(finish(settled=[rejected("one", 2, "too_late")]))

    assert await store.commands.submit("run_a", command_id="two", payload=b"p", limit=64) == (
        Submission.TERMINAL,
        None,
    )
    again, row = await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)
    assert again is Submission.REPEATED
    assert row is not None
    assert (row.state, row.sequence, row.rejection) == (CommandState.REJECTED, 2, "too_late")


async def test_a_run_that_is_not_there_takes_no_command(store: Store):
    assert await store.commands.submit("run_nobody", command_id="one", payload=b"p", limit=64) == (
        Submission.TERMINAL,
        None,
    )
    assert await store.commands.get("run_nobody", "one") is None
    assert list(await store.commands.pending("run_nobody")) == []


async def test_an_append_settles_commands_in_its_own_commit(store: Store):
    await store.journal.create(new_run())
    for command_id in ("one", "two"):
        await store.commands.submit("run_a", command_id=command_id, payload=b"p", limit=64)

    await store.journal.append(append(settled=[applied("one", 2)]))

    one = await store.commands.get("run_a", "one")
    assert one is not None
    assert (one.state, one.sequence, one.rejection) == (CommandState.APPLIED, 2, "")
    assert [row.command_id for row in await store.commands.pending("run_a")] == ["two"]


async def test_a_settled_command_keeps_its_first_outcome(store: Store):
    await store.journal.create(new_run())
    await store.commands.submit("run_a", command_id="one", payload=b"p", limit=64)
    await store.journal.append(append(settled=[applied("one", 2)]))
    await store.journal.append(append(after=2, settled=[rejected("one", 3, "no"), applied("unknown", 3)]))

    one = await store.commands.get("run_a", "one")
    assert one is not None
    assert (one.state, one.sequence) == (CommandState.APPLIED, 2)
    assert await store.commands.get("run_a", "unknown") is None


async def test_a_submit_and_a_finish_at_once_never_both_succeed_unheard(store: Store):
    for number in range(20):
        run_id = f"run_{number}"
        await store.journal.create(new_run(run_id))
        submitted, finished = await asyncio.gather(
            store.commands.submit(run_id, command_id="one", payload=b"p", limit=64),
            store.journal.append(finish(run_id)),
            return_exceptions=True,
        )
        accepted = not isinstance(submitted, BaseException) and submitted[0] is Submission.ACCEPTED
        assert accepted == isinstance(finished, Exception)
        assert len(await log(store, run_id)) == (1 if accepted else 2)


async def test_runs_whose_commands_nobody_has_heard_are_told_oldest_first(store: Store):
    for age, run_id in enumerate(("run_c", "run_b", "run_a", "run_d")):
        await store.journal.create(new_run(run_id, created_unix_ms=1_000 + age, owner=None))
    for run_id in ("run_a", "run_c", "run_d"):
        await store.commands.submit(run_id, command_id="one", payload=b"p", limit=64)
    (claim,) = await store.leases.claim("worker", limit=1, now_unix_ms=0, called={"run_c"})

    assert await store.commands.unheard(limit=9) == ["run_c", "run_a", "run_d"]
    assert await store.commands.unheard(limit=2) == ["run_c", "run_a"]

    await store.journal.append(append("run_c", epoch=claim.epoch, at=head(Phase.PAUSED)))
    await store.leases.release("worker", "run_c", epoch=claim.epoch, heard=1)
    assert await store.commands.unheard(limit=9) == ["run_a", "run_d"]
