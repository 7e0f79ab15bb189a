"""A run that has owners ends once the last of them was away for longer than its grace, and not before."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest

from jackline_server.core.commands import OWNERS_GONE
from jackline_server.core.facts import CommandApplied, Phase, StopReason
from jackline_server.core.frozen import change
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.ports.command_table import Below, CommandRow, Commands, Submission
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.owning import PRESENT_MS
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import agent_plan, tool
from tests.runtime.families import end_of, sealed

SECONDS = 20
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Later(SystemClock):
    """The clock of a process that looks at the store so much later."""

    by_ms: int = 0

    def unix_ms(self) -> int:
        """See Clock."""
        return SystemClock().unix_ms() + self.by_ms


def world() -> World:
    """Runs whose tool call takes for ever."""
    models = FakeModels(answering=lambda _: ScriptedReply(calls=(("l", "look", "{}"),)))
    tools = FakeTools(tools={"look": returns('"seen"')}, wait_ms=lambda _: 1_000_000)
    plans = {"plan": sealed(agent_plan(tool("look")))}
    return World(store=memory_store(), models=models, toolbox=tools, plans=plans)


def own(jackline: Process, run_id: str, *, grace_ms: int = 0, after: int = 0):
    return jackline.runtime.runs.own(DEFAULT_TENANT, run_id, after_sequence=after, grace_ms=grace_ms)


async def nobody_is_left(jackline: Process, run_id: str) -> None:
    """Own a run and go away; it ends, which says that this process has looked at all owners since."""
    async with own(jackline, run_id):
        pass
    await jackline.follow(run_id)


async def lives(jackline: Process, run_id: str) -> bool:
    return not (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state.phase.terminal


async def test_a_run_ends_when_its_last_owner_is_gone_and_says_why():
    async with process(world()) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        async with own(jackline, run_id):
            pass
        log = await jackline.follow(run_id)
    end = end_of(log)
    assert (end.phase, end.stop_reason, end.stop_leaf) == (
        Phase.ABORTED,
        StopReason.CLIENT_GONE,
        "owner.gone",
    )
    (applied,) = [one.fact for one in log if isinstance(one.fact, CommandApplied)]
    assert (applied.abort_cause, applied.principal) == (StopReason.CLIENT_GONE, "")


async def test_one_owner_that_stays_keeps_the_run_and_so_does_a_grace():
    async with process(world()) as jackline, asyncio.timeout(SECONDS):
        kept, patient = await jackline.start(), await jackline.start()
        async with AsyncExitStack() as stays:
            await stays.enter_async_context(own(jackline, kept))
            async with own(jackline, kept), own(jackline, patient, grace_ms=HOUR_MS):
                pass
            await nobody_is_left(jackline, await jackline.start())
            both = await lives(jackline, kept), await lives(jackline, patient)
        log = await jackline.follow(kept)
        left = await lives(jackline, patient)
    assert (both, left) == ((True, True), True)
    assert end_of(log).stop_reason is StopReason.CLIENT_GONE


async def test_a_run_that_nobody_ever_owned_lives_on_without_watchers():
    async with process(world()) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
        async for _ in frames:
            break
        await nobody_is_left(jackline, await jackline.start())
        assert await lives(jackline, run_id)


async def test_an_owner_that_comes_back_within_the_grace_keeps_the_run():
    """What it left before must not follow what it holds now."""
    here = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        await nobody_is_left(jackline, await jackline.start())  # what is open has just been renewed
        async with own(jackline, run_id, grace_ms=HOUR_MS):
            pass
        async with own(jackline, run_id, grace_ms=HOUR_MS):
            await nobody_is_left(jackline, await jackline.start())
            then = SystemClock().unix_ms() + HOUR_MS + PRESENT_MS // 2
            assert await here.store.owners.abandoned(now_unix_ms=then, limit=9) == []


async def test_the_run_of_an_owner_whose_worker_died_is_ended_by_another():
    here = world()
    async with asyncio.timeout(SECONDS):
        async with AsyncExitStack() as dies:
            first = await dies.enter_async_context(process(here, worker="dead", drain_grace_ms=0))
            run_id = await first.start()
            present = own(first, run_id, grace_ms=1_000)
            await present.__aenter__()
        early = replace(here, clock=Later(PRESENT_MS // 2))
        async with process(early, worker="early") as jackline:
            await nobody_is_left(jackline, await jackline.start())
            kept = await lives(jackline, run_id)
        late = replace(here, clock=Later(2 * PRESENT_MS))
        async with process(late, worker="late") as jackline:
            log = await jackline.follow(run_id)
        await present.__aexit__(None, None, None)
    assert kept
    assert end_of(log).stop_reason is StopReason.CLIENT_GONE


@dataclass
class RefusingOrders:
    """A command table that can't be reached when the first abort for want of owners is given."""

    commands: Commands
    refused: bool = False

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        if command_id == OWNERS_GONE and not self.refused:
            self.refused = True
            raise StoreUnavailable("the store can't be reached")
        return await self.commands.submit(
            run_id, command_id=command_id, payload=payload, limit=limit, below=below
        )

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        return await self.commands.pending(run_id)

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        return await self.commands.get(run_id, command_id)

    async def unheard(self, *, limit: int) -> Sequence[str]:
        return await self.commands.unheard(limit=limit)


async def test_an_abort_that_could_not_be_given_is_given_again():
    here = world()
    orders = RefusingOrders(here.store.commands)
    here = replace(here, store=change(here.store, commands=orders))
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        async with own(jackline, run_id):
            pass
        log = await jackline.follow(run_id)
    assert orders.refused
    assert end_of(log).stop_reason is StopReason.CLIENT_GONE


async def test_an_ended_run_is_told_nothing_and_is_forgotten():
    here = replace(world(), models=FakeModels(answering=lambda _: ScriptedReply(text="done")))
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        async with own(jackline, run_id):
            log = await jackline.follow(run_id)
        far = SystemClock().unix_ms() + 10 * HOUR_MS
        while await here.store.owners.abandoned(now_unix_ms=far, limit=9):  # noqa: ASYNC110 - a turn of the loop is a step
            await asyncio.sleep(0)
        assert await here.store.commands.pending(run_id) == []
    assert end_of(log).phase is Phase.SUCCEEDED


async def test_a_stream_that_can_t_begin_owns_nothing():
    here = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        reasons: list[Reason] = []
        for wanted, after in ((run_id, 99), ("run_" + "0" * 26, 0)):
            with pytest.raises(Refused) as caught:
                async with own(jackline, wanted, after=after):
                    pass
            reasons.append(caught.value.reason)
        far = SystemClock().unix_ms() + 10 * HOUR_MS
        assert await here.store.owners.abandoned(now_unix_ms=far, limit=9) == []
    assert reasons == [Reason.SEQUENCE_IN_FUTURE, Reason.RUN_NOT_FOUND]
