"""Runs that wait for a place at a model: what they hold, who sees it, and what ends the wait."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from jackline_server.core.commands import Abort, Action, AdjustBounds, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    CommandApplied,
    ModelCallStarted,
    Phase,
    RunFinished,
    StopReason,
)
from jackline_server.core.new_bounds import NewRunBounds
from jackline_server.core.plan import ModelPlan
from jackline_server.models.places import Places
from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.ports.journal import Append, Created, Journal, NewRun, StoredEvent
from jackline_server.runtime.ports.models import ModelPlace
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import LiveDelta, Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import Process, World, process, start_request
from jackline_server.testing.plans import MODEL, agent_plan, model, run_bounds


@dataclass
class Queue:
    """The places of a profile, of which the test holds some; `asked` is set once somebody waits."""

    inner: Places
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, plan: ModelPlan, *, tokens: int) -> ModelPlace | None:
        return self.inner.take(plan, tokens=tokens)

    async def wait(self, plan: ModelPlan, *, tokens: int) -> ModelPlace:
        self.asked.set()
        return await self.inner.wait(plan, tokens=tokens)


@dataclass
class SlowToBegin:
    """A journal that holds back the first facts behind a run's start: `held` once it does, until `go`."""

    journal: Journal
    held: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, append: Append) -> None:
        if append.after_sequence == 1:
            self.held.set()
            await self.go.wait()
        await self.journal.append(append)

    async def create(self, new: NewRun) -> Created:
        return await self.journal.create(new)

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        return await self.journal.read(run_id, after_sequence=after_sequence, limit=limit)

    async def plan(self, digest: str) -> bytes:
        return await self.journal.plan(digest)


@asynccontextmanager
async def crowded(
    *, run_timeout_ms: int | None = None, store: Store | None = None
) -> AsyncGenerator[tuple[Process, Queue, ModelPlace]]:
    """A process whose model has one place, and that place, taken."""
    plan = agent_plan()
    plan = replace(plan, models={MODEL: model(retries=0)}, bounds=run_bounds(run_timeout_ms=run_timeout_ms))
    queue = Queue(Places({MODEL: ModelProfile(concurrency=1)}))
    taken = queue.take(plan.models[MODEL], tokens=1)
    assert taken is not None
    world = World(
        store=store or memory_store(),
        models=FakeModels(answering=lambda _: ScriptedReply(text="done")),
        toolbox=FakeTools(tools={}),
        plans={"plan": plan},
        places=queue,
    )
    async with process(world) as jackline, asyncio.timeout(10):
        yield jackline, queue, taken


async def end_of(jackline: Process, run_id: str) -> RunFinished:
    last = (await jackline.follow(run_id))[-1].fact
    assert isinstance(last, RunFinished)
    return last


async def calls_in(jackline: Process, run_id: str) -> int:
    return sum(isinstance(record.fact, ModelCallStarted) for record in await jackline.log(run_id))


async def test_a_run_without_a_place_announces_nothing_and_goes_on_once_there_is_one() -> None:
    async with crowded() as (jackline, queue, taken):
        run_id = await jackline.start()
        await queue.asked.wait()
        assert await calls_in(jackline, run_id) == 0
        taken.release(None)
        assert (await end_of(jackline, run_id)).phase is Phase.SUCCEEDED
        assert await calls_in(jackline, run_id) == 1


async def test_a_watcher_is_shown_what_a_run_waits_for() -> None:
    async with crowded() as (jackline, _queue, taken):
        shown: list[LiveDelta] = []
        first = await jackline.start()
        async for frame in jackline.runtime.runs.watch(DEFAULT_TENANT, first, after_sequence=0, deltas=True):
            shown += frame.deltas
            if any(delta.waits_for for delta in frame.deltas):
                taken.release(None)
        waits = [delta for delta in shown if delta.waits_for]
        assert [(delta.waits_for, delta.attempt_id, delta.iteration) for delta in waits] == [(MODEL, 0, 1)]


async def test_a_run_that_waits_spends_no_active_time() -> None:
    async with crowded(run_timeout_ms=100) as (jackline, queue, taken):
        run_id = await jackline.start()
        await queue.asked.wait()
        loop = asyncio.get_running_loop()
        waited = loop.create_future()
        loop.call_later(0.3, waited.set_result, None)
        await waited
        taken.release(None)
        end = await end_of(jackline, run_id)
        assert end.phase is Phase.SUCCEEDED
        assert (await jackline.log(run_id))[-1].envelope.active_ms < 100


@pytest.mark.parametrize("mode", list(AbortMode))
async def test_an_abort_ends_the_wait_at_once(mode: AbortMode) -> None:
    async with crowded() as (jackline, queue, taken):
        run_id = await jackline.start()
        await queue.asked.wait()
        await jackline.control(
            run_id, Abort(mode=mode, skip_routes=False), command_id="stop", wait=Stage.SETTLED, wait_ms=2_000
        )
        assert (await end_of(jackline, run_id)).phase is Phase.ABORTED
        assert await calls_in(jackline, run_id) == 0
        taken.release(None)
        assert queue.take(model(), tokens=1) is not None, "the run that has gone holds no place"


@pytest.mark.parametrize(
    "action", [Abort(mode=AbortMode.NOW, skip_routes=False), AdjustBounds(run=NewRunBounds(steps=9))]
)
async def test_what_was_decided_before_a_command_is_not_announced_behind_it(action: Action) -> None:
    store = memory_store()
    journal = SlowToBegin(store.journal)
    async with crowded(store=replace(store, journal=journal)) as (jackline, _queue, taken):
        run_id = await jackline.start()
        await journal.held.wait()  # what led to the call is written before the run waits for a place
        await jackline.control(run_id, action)
        await until_idle()
        taken.release(None)
        journal.go.set()
        await jackline.follow(run_id)
        facts = [record.fact for record in await jackline.log(run_id)]
    settled = [place for place, fact in enumerate(facts) if isinstance(fact, CommandApplied)]
    calls = [place for place, fact in enumerate(facts) if isinstance(fact, ModelCallStarted)]
    assert len(calls) == (0 if isinstance(action, Abort) else 1)
    assert all(call > settled[-1] for call in calls)


async def until_idle() -> None:
    """Let everything happen that can happen without time."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_run_that_waits_is_paused_at_once_and_gets_into_line_again() -> None:
    async with crowded() as (jackline, queue, taken):
        run_id = await jackline.start()
        await queue.asked.wait()
        receipt = await jackline.control(run_id, Pause(), command_id="pause", wait=Stage.EFFECTIVE)
        assert receipt.reached
        taken.release(None)
        assert await calls_in(jackline, run_id) == 0
        await jackline.control(run_id, Resume(), command_id="resume")
        assert (await end_of(jackline, run_id)).phase is Phase.SUCCEEDED


async def test_guidance_reaches_the_call_that_waits_for_its_place() -> None:
    async with crowded() as (jackline, queue, taken):
        run_id = await jackline.start()
        await queue.asked.wait()
        receipt = await jackline.control(
            run_id, Steer(text="be brief"), command_id="steer", wait=Stage.EFFECTIVE
        )
        assert receipt.reached
        taken.release(None)
        assert (await end_of(jackline, run_id)).phase is Phase.SUCCEEDED
        models = jackline.world.models
        assert isinstance(models, FakeModels)
        (request,) = models.requests
        assert "be brief" in request.messages[-1].text


async def test_a_deadline_ends_the_wait() -> None:
    async with crowded() as (jackline, _queue, _taken):
        request = replace(start_request("plan"), deadline_unix_ms=int(time.time() * 1000) + 200)
        run_id = (await jackline.runtime.runs.start(request)).row.run_id
        end = await end_of(jackline, run_id)
        assert (end.signal, end.stop_reason) == ("time_exceeded", StopReason.DEADLINE)
        assert await calls_in(jackline, run_id) == 0


async def test_a_drain_lets_a_run_go_that_waits() -> None:
    async with crowded() as (jackline, queue, _taken):
        run_id = await jackline.start()
        await queue.asked.wait()
        await jackline.runtime.scheduler.drain()
        log = await jackline.log(run_id)
        assert type(log[-1].fact).__name__ == "RunSuspended"
        assert await calls_in(jackline, run_id) == 0
