"""A delayed run is there at once and begins at its time, whoever is there then; nobody drives it before."""

import asyncio
import hashlib
import time
from dataclasses import replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort, Pause, Resume
from jackline_server.core.facts import (
    AbortMode,
    CommandApplied,
    Fact,
    ForkOrigin,
    Phase,
    Resumed,
    RunFinished,
    RunRecovered,
    RunStarted,
    StepStarted,
    StopReason,
    TimerFired,
    TimerKind,
)
from jackline_server.core.frozen import change
from jackline_server.core.plan import Plan
from jackline_server.core.recorded.forking import Fork, started_anew
from jackline_server.models.limits import Guarded
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.use_cases import Disposition, Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import Process, World, process, start_request

SOON_MS, LATER_MS = 300, 3_600_000
ABORT = Abort(mode=AbortMode.NOW, skip_routes=False)


def stored(plan: Plan) -> Plan:
    """The plan with the digest of its bytes, so that a second process finds it."""
    return replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())


def world(*, limits: RunLimits | None = None) -> World:
    return World(
        store=memory_store(),
        models=Guarded(FakeModels(answering=lambda _: ScriptedReply(text="done"))),
        toolbox=FakeTools(tools={}),
        plans={"plan": stored(plans.agent_plan())},
        limits=limits or RunLimits(),
    )


async def started(jackline: Process, delay_ms: int) -> RunRow:
    answer = await jackline.runtime.runs.start(replace(start_request(), start_delay_ms=delay_ms))
    assert answer.disposition is Disposition.QUEUED
    return answer.row


async def row(jackline: Process, run_id: str) -> RunRow:
    found = await jackline.world.store.runs.get(DEFAULT_TENANT, run_id)
    assert found is not None
    return found


def start_of(facts: list[Fact]) -> int:
    first = facts[0]
    assert isinstance(first, RunStarted)
    assert first.start_unix_ms is not None
    return first.start_unix_ms


async def test_it_is_queued_and_begins_at_its_time() -> None:
    asked_ms = int(time.time() * 1000)
    async with process(world()) as jackline, asyncio.timeout(20):
        run = await started(jackline, SOON_MS)
        assert (run.phase, run.owner, run.epoch) == (Phase.QUEUED, None, 0)
        records = await jackline.follow(run.run_id)
    facts = [record.fact for record in records]
    (fired,) = (record for record in records if isinstance(record.fact, TimerFired))
    assert fired.fact == TimerFired(kind=TimerKind.START)
    assert start_of(facts) >= asked_ms + SOON_MS
    assert fired.envelope.unix_ms >= start_of(facts)
    assert all(
        record.envelope.sequence > fired.envelope.sequence
        for record in records
        if isinstance(record.fact, StepStarted)
    )
    assert fired.envelope.active_ms == 0
    assert isinstance(facts[-1], RunFinished)
    assert facts[-1].phase is Phase.SUCCEEDED


async def test_who_comes_later_begins_it_even_if_nobody_was_there_at_its_time() -> None:
    a_world = world()
    async with process(a_world, worker="one") as jackline:
        run_id = (await started(jackline, SOON_MS)).run_id
    facts = [record.fact for record in await jackline.log(run_id)]
    assert len(facts) == 1
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(max(start_of(facts) / 1000 - time.time(), 0), over.set)
    await over.wait()
    async with process(a_world, worker="two") as jackline, asyncio.timeout(20):
        end = (await jackline.follow(run_id))[-1].fact
    assert isinstance(end, RunFinished)
    assert end.phase is Phase.SUCCEEDED


async def test_an_abort_ends_it_before_it_has_begun() -> None:
    async with process(world()) as jackline, asyncio.timeout(20):
        run_id = (await started(jackline, LATER_MS)).run_id
        receipt = await jackline.control(run_id, ABORT, wait=Stage.SETTLED)
        assert receipt.applied
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert [type(fact) for fact in facts] == [RunStarted, RunRecovered, CommandApplied, RunFinished]
    assert isinstance(facts[-1], RunFinished)
    assert (facts[-1].phase, facts[-1].stop_reason) == (Phase.ABORTED, StopReason.OPERATOR)


async def test_going_on_before_its_time_begins_nothing() -> None:
    async with process(world()) as jackline, asyncio.timeout(20):
        run_id = (await started(jackline, LATER_MS)).run_id
        for action, phase in ((Pause(), Phase.PAUSED), (Resume(), Phase.QUEUED)):
            await jackline.control(run_id, action, wait=Stage.EFFECTIVE)
            assert (await row(jackline, run_id)).phase is phase
        await jackline.control(run_id, ABORT, wait=Stage.SETTLED)
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert any(isinstance(fact, Resumed) for fact in facts)
    assert not any(isinstance(fact, StepStarted) for fact in facts)


async def test_a_pause_before_it_has_begun_holds_it_at_its_time() -> None:
    async with process(world()) as jackline, asyncio.timeout(20):
        run_id = (await started(jackline, SOON_MS)).run_id
        await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
        assert (await row(jackline, run_id)).phase is Phase.PAUSED
        watching = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
        facts: list[Fact] = []
        async for _ in watching:
            facts = [record.fact for record in await jackline.log(run_id)]
            if any(isinstance(fact, TimerFired) for fact in facts):
                break
        assert (await row(jackline, run_id)).phase is Phase.PAUSED
        assert not any(isinstance(fact, StepStarted) for fact in facts)
        await jackline.control(run_id, Resume(), wait=Stage.EFFECTIVE)
        end = (await jackline.follow(run_id))[-1].fact
    assert isinstance(end, RunFinished)
    assert end.phase is Phase.SUCCEEDED


async def test_a_delay_that_the_operator_does_not_allow_is_refused() -> None:
    async with process(world(limits=RunLimits(start_delay_ms=SOON_MS))) as jackline:
        with pytest.raises(Refused) as refused:
            await jackline.runtime.runs.start(replace(start_request(), start_delay_ms=SOON_MS + 1))
        await started(jackline, SOON_MS)
    assert refused.value.reason is Reason.INVALID_REQUEST
    assert [one.field for one in refused.value.violations] == ["start_delay"]


async def test_delayed_runs_are_no_part_of_the_queue() -> None:
    async with process(world(), max_active_runs=1) as jackline, asyncio.timeout(20):
        for _ in range(11):  # the queue has room for ten
            await started(jackline, LATER_MS)
        with jackline.runtime.scheduler.place():  # the only one
            answer = await jackline.runtime.runs.start(start_request())
        assert answer.disposition is Disposition.QUEUED


def test_a_fork_of_a_delayed_run_begins_at_once() -> None:
    plan = plans.agent_plan()
    first = change(plans.started(plan), start_unix_ms=10**12)
    fork = Fork(
        origin=ForkOrigin(run_id="run_a", sequence=1),
        principal="somebody",
        bounds=first.bounds,
        on_question=first.on_question,
        deadline_unix_ms=None,
        epoch=1,
        unix_ms=0,
    )
    assert started_anew(first, plan, fork).start_unix_ms is None
