"""What an attack from outside found once, held by the runtime from within."""

import asyncio
from pathlib import Path

import pytest

from jackline_server import failpoints
from jackline_server.core.commands import Abort, Pause, Steer
from jackline_server.core.decide import decide
from jackline_server.core.facts import (
    AbortMode,
    CommandKind,
    CommandRejected,
    Phase,
    Rejection,
    RunFinished,
    RunRecovered,
    StopReason,
)
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import Effect
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment, Step
from jackline_server.runtime.driving import runner
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Disposition, Stage
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process, start_request
from jackline_server.testing.plans import agent_plan, tool


def asks_once(request: ModelRequest) -> ScriptedReply:
    if len(request.messages) > 2:
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "change", "{}"),))


def world(tools: FakeTools, store: Store | None = None) -> World:
    return World(
        store=store or memory_store(),
        models=FakeModels(answering=asks_once),
        toolbox=tools,
        plans={"plan": agent_plan(tool("change", Effect.WRITE))},
    )


def tools_that_take(ms: int) -> FakeTools:
    return FakeTools(tools={"change": returns("{}")}, wait_ms=lambda _: ms)


async def test_no_flood_of_guidance_locks_out_an_abort() -> None:
    tools = tools_that_take(1_000_000)
    async with process(world(tools)) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await tools.called.wait()
        refused: list[Reason] = []
        for number in range(64):
            try:
                await jackline.control(run_id, Steer(text=f"guidance {number}"))
            except Refused as refusal:
                refused.append(refusal.reason)
        abort = Abort(mode=AbortMode.NOW, skip_routes=False)
        receipt = await jackline.control(run_id, abort, wait=Stage.SETTLED)
    assert set(refused) == {Reason.COMMAND_LIMIT}
    assert receipt.applied
    assert receipt.reached


async def test_starts_that_race_never_pass_the_limit_of_active_runs() -> None:
    tools = tools_that_take(1_000_000)
    async with process(world(tools), max_active_runs=2) as jackline, asyncio.timeout(10):
        starts = [jackline.runtime.runs.start(start_request()) for _ in range(12)]
        started = await asyncio.gather(*starts)
        await tools.called.wait()
        active = sum(jackline.runtime.scheduler.active().values())
    assert [one.disposition for one in started].count(Disposition.STARTED) == 2
    assert active == 2


async def test_a_process_that_was_held_up_past_its_lease_keeps_the_runs_it_drives() -> None:
    skew_ms = 0

    def monotonic_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000) + skew_ms

    tools = tools_that_take(300)
    store = memory_store(clock=StoreClock(monotonic_ms=monotonic_ms), lease_ms=1_500)
    async with process(world(tools, store), lease_ms=1_500) as jackline, asyncio.timeout(10):
        run_id = await jackline.start()
        await tools.called.wait()
        skew_ms = 60_000  # by the store's clock the lease is long over, and nobody has renewed it
        jackline.runtime.scheduler.nudge("another")
        seen = await jackline.follow(run_id)
    assert isinstance(seen[-1].fact, RunFinished)
    assert seen[-1].fact.phase is Phase.SUCCEEDED
    assert not [record for record in seen if isinstance(record.fact, RunRecovered)]
    assert len(tools.ledger) == 1


async def test_a_run_is_never_read_as_running_once_its_end_is_in_the_store(tmp_path: Path) -> None:
    opened = await open_sqlite(tmp_path / "data")
    failpoints.configure("store.after_send_before_reply=sleep(60)")
    try:
        async with process(world(tools_that_take(0), opened.store)) as jackline, asyncio.timeout(20):
            run_id = await jackline.start()
            while True:
                snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
                if snapshot.row.phase.terminal:
                    break
            assert snapshot.state.finished is not None
    finally:
        failpoints.configure("")
        await opened.close()


async def test_a_bug_ends_a_run_whatever_was_noted_of_a_command_just_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(state: RunState, *, now: Moment, instruments: Instruments) -> Step:
        if state.oversight.paused:
            raise ZeroDivisionError  # the pause is noted by now, and not durable
        return decide(state, now=now, instruments=instruments)

    monkeypatch.setattr(runner, "decide", broken)
    opened, tools = await open_sqlite(tmp_path / "data"), tools_that_take(300)
    try:
        async with process(world(tools, opened.store)) as jackline, asyncio.timeout(20):
            run_id = await jackline.start()
            await tools.called.wait()
            await jackline.control(run_id, Pause())
            facts = [record.fact for record in await jackline.follow(run_id)]
    finally:
        await opened.close()
    (rejected,) = (fact for fact in facts if isinstance(fact, CommandRejected))
    assert (rejected.kind, rejected.rejection) == (CommandKind.PAUSE, Rejection.RUN_TERMINAL)
    assert isinstance(facts[-1], RunFinished)
    assert facts[-1].stop_reason is StopReason.INTERNAL
