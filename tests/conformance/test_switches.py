"""The Switches port: one commit halts a tenant and tells every run that lives, and nothing slips past it."""

import asyncio

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.journal import Created, Creation
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.switches import Engaging, Releasing
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from tests.conformance.stores import OTHER_TENANT, append, finish, head, new_run


def engaging(
    command_id: str = "kill 1", *, tenant: Tenant = DEFAULT_TENANT, unix_ms: int = 5_000
) -> Engaging:
    return Engaging(
        tenant=tenant,
        unix_ms=unix_ms,
        principal="ann",
        reason="it spends",
        command_id=command_id,
        payload=b"end",
    )


def releasing() -> Releasing:
    return Releasing(tenant=DEFAULT_TENANT, unix_ms=9_000, principal="bob", reason="mended")


async def pending(store: Store, run_id: str) -> list[tuple[str, bytes]]:
    return [(row.command_id, row.payload) for row in await store.commands.pending(run_id)]


async def test_engaging_tells_every_run_that_lives_and_no_other(store: Store):
    for run_id, phase in (("run_q", Phase.QUEUED), ("run_p", Phase.PAUSED), ("run_w", Phase.WAITING)):
        await store.journal.create(new_run(run_id, owner=None, head=head(phase)))
    await store.journal.create(new_run("run_a"))
    await store.journal.create(new_run("run_end"))
    await store.journal.append(finish("run_end"))
    await store.journal.create(new_run("run_other", tenant=OTHER_TENANT))

    engaged = await store.switches.engage(engaging())

    assert sorted(engaged.living) == ["run_a", "run_p", "run_q", "run_w"]
    assert engaged.fresh
    told = {run_id: await pending(store, run_id) for run_id in (*engaged.living, "run_end", "run_other")}
    assert told == {
        **{run_id: [("kill 1", b"end")] for run_id in engaged.living},
        "run_end": [],
        "run_other": [],
    }


async def test_runs_that_were_told_need_a_worker_whatever_they_wait_for(store: Store):
    await store.journal.create(new_run("run_p", owner=None, head=head(Phase.PAUSED)))
    assert await store.leases.claim("worker", limit=10, now_unix_ms=0) == []

    await store.switches.engage(engaging())

    claims = await store.leases.claim("worker", limit=10, now_unix_ms=0)
    assert [claim.run_id for claim in claims] == ["run_p"]


async def test_no_run_is_created_while_the_switch_is_engaged_and_what_was_is_still_known(store: Store):
    await store.journal.create(new_run("run_a", request_id="r"))
    await store.switches.engage(engaging())

    refused = await store.journal.create(new_run("run_b"))
    known = await store.journal.create(new_run("run_c", request_id="r"))
    other = await store.journal.create(new_run("run_d", tenant=OTHER_TENANT))
    await store.switches.release(releasing())
    again = await store.journal.create(new_run("run_b"))

    assert [one.creation for one in (refused, known, other, again)] == [
        Creation.HALTED,
        Creation.DUPLICATE,
        Creation.CREATED,
        Creation.CREATED,
    ]


async def test_a_child_that_is_born_under_the_switch_has_its_command_from_birth(store: Store):
    await store.journal.create(new_run("run_a"))
    await store.switches.engage(engaging())

    born = new_run("run_b", owner=None, parent_run_id="run_a")
    await store.journal.append(append("run_a", births=[born]))

    assert await pending(store, "run_b") == [("kill 1", b"end")]


async def test_a_child_that_is_born_after_the_release_has_no_command(store: Store):
    await store.journal.create(new_run("run_a"))
    await store.switches.engage(engaging())
    await store.switches.release(releasing())

    born = new_run("run_b", owner=None, parent_run_id="run_a")
    await store.journal.append(append("run_a", births=[born]))

    assert await pending(store, "run_b") == []


async def test_engaging_twice_keeps_who_and_why_and_tells_nobody_twice(store: Store):
    await store.journal.create(new_run("run_a"))
    first = await store.switches.engage(engaging())

    second = await store.switches.engage(engaging("kill 2", unix_ms=6_000))

    assert (second.fresh, second.engagement, second.living) == (False, first.engagement, ["run_a"])
    assert await pending(store, "run_a") == [("kill 1", b"end")]


async def test_a_switch_is_released_once_and_says_who_did_what_and_when(store: Store):
    assert await store.switches.newest(DEFAULT_TENANT) is None
    assert await store.switches.release(releasing()) is None
    await store.switches.engage(engaging())
    held = await store.switches.newest(DEFAULT_TENANT)
    ended = await store.switches.release(releasing())

    assert held is not None
    assert (held.engaged, held.engaged_by, held.reason, held.engaged_unix_ms) == (
        True,
        "ann",
        "it spends",
        5_000,
    )
    assert ended is not None
    assert (ended.engaged, ended.released_by, ended.release_reason, ended.released_unix_ms) == (
        False,
        "bob",
        "mended",
        9_000,
    )
    assert await store.switches.release(releasing()) is None
    assert await store.switches.newest(DEFAULT_TENANT) == ended
    assert await store.switches.newest(OTHER_TENANT) is None


async def test_a_switch_that_is_engaged_anew_gives_a_new_command(store: Store):
    await store.journal.create(new_run("run_a"))
    await store.switches.engage(engaging())
    await store.switches.release(releasing())

    again = await store.switches.engage(engaging("kill 2"))

    assert again.fresh
    assert [command_id for command_id, _ in await pending(store, "run_a")] == ["kill 1", "kill 2"]


async def test_of_starts_that_race_the_switch_each_is_told_or_refused(store: Store):
    starts = [store.journal.create(new_run(f"run_{number}")) for number in range(20)]
    results = await asyncio.gather(*starts[:10], store.switches.engage(engaging()), *starts[10:])

    created = [one.run_id for one in results if isinstance(one, Created) and one.run_id]
    for run_id in created:
        assert await pending(store, run_id) == [("kill 1", b"end")]
    assert len(created) < 20
