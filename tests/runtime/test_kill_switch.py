"""The kill switch over the real runtime: every run ends without its cleanup path, and none begins."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort, Pause
from jackline_server.core.facts import (
    AbortMode,
    CommandApplied,
    ModelCallStarted,
    Phase,
    RunFinished,
    StepStarted,
    StopReason,
)
from jackline_server.core.plan import Effect
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import ForkRun, OnBusy, Stage, ThreadRequest, TighterBounds
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import CALLER, Process, World, process, start_request
from jackline_server.testing.plans import agent, agent_plan, entry, plan_of, tool
from tests.runtime.families import PARENT, children_of, end_of, put_all, scene, sealed

SECONDS = 20
LOOKS = ScriptedReply(calls=(("l", "look", "{}"),))
CLEANS = agent(tools=(entry("look"),), routes={"aborted": "tidy"})


def world(*, cleans: bool = False) -> tuple[World, FakeModels, FakeTools]:
    """Runs whose first tool call takes for ever; with a cleanup path if asked."""
    models = FakeModels(answering=lambda _: LOOKS)
    tools = FakeTools(
        tools={"look": returns('"seen"'), "tidy": returns('"tidied"')}, wait_ms=lambda _: 1_000_000
    )
    plan = (
        plan_of(CLEANS, tool("look"), tool("tidy", Effect.IDEMPOTENT)) if cleans else agent_plan(tool("look"))
    )
    found = World(
        store=memory_store(),
        models=models,
        toolbox=tools,
        plans={"plan": sealed(plan)},
        masks=PiiMasks(),
    )
    return found, models, tools


async def called(tools: FakeTools, name: str, *, times: int = 1) -> None:
    """Wait until the tool was called so often."""
    while sum(call.step.step_id == name for call in tools.ledger) < times:  # noqa: ASYNC110 - a turn of the loop is a step
        await asyncio.sleep(0)


async def all_ended(jackline: Process, run_ids: Sequence[str]) -> list[list[Record]]:
    """The logs of the runs, once they have ended."""
    return [await jackline.follow(run_id) for run_id in run_ids]


async def test_every_run_ends_by_the_switch_whatever_it_was_doing_and_asks_nobody_any_more():
    here, models, tools = world()
    async with process(here, max_active_runs=1) as jackline, asyncio.timeout(SECONDS):
        busy = await jackline.start()
        await tools.called.wait()
        queued = [await jackline.start() for _ in range(9)]
        asked = len(models.requests)

        done = await jackline.runtime.kill_switch.engage(CALLER, reason="it spends")

        logs = await all_ended(jackline, [busy, *queued])
    assert (done.changed, done.told) == (True, 10)
    assert len(models.requests) == asked
    ends = {(end_of(log).phase, end_of(log).stop_reason, end_of(log).stop_leaf) for log in logs}
    assert ends == {(Phase.ABORTED, StopReason.KILL_SWITCH, "kill_switch")}
    (applied,) = [one.fact for one in logs[0] if isinstance(one.fact, CommandApplied)]
    assert (applied.principal, applied.reason, applied.skip_routes) == ("tester", "it spends", True)


async def test_runs_are_told_the_reason_without_personal_data_and_the_switch_keeps_it_as_it_was_said():
    here, _, tools = world()
    said = "ann@example.org of +31 20 123 4567 was billed, see 10.0.0.1"
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        await tools.called.wait()
        done = await jackline.runtime.kill_switch.engage(CALLER, reason=said)
        log = await jackline.follow(run_id)
        (applied,) = [one.fact for one in log if isinstance(one.fact, CommandApplied)]
        row = await here.store.commands.get(run_id, applied.command_id)
    assert done.engagement is not None
    assert done.engagement.reason == said
    assert applied.reason == "[email] of [phone] was billed, see [ip]"
    assert row is not None
    assert b"ann@" not in row.payload


async def test_a_paused_run_and_a_family_end_by_it_too():
    here = scene()
    here.tools.wait_ms = lambda _: 1_000_000
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        paused = await jackline.start(PARENT)
        await here.tools.called.wait()
        await jackline.control(paused, Pause(), wait=Stage.EFFECTIVE)
        await jackline.runtime.kill_switch.engage(CALLER, reason="stop")
        log = await jackline.follow(paused)
        (below,) = children_of(log)
        child = await jackline.follow(below)
    assert [end_of(one).stop_reason for one in (log, child)] == [StopReason.KILL_SWITCH] * 2


async def test_no_cleanup_path_is_taken_and_one_under_way_is_left():
    here, _, tools = world(cleans=True)
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        first, second = await jackline.start(), await jackline.start()
        await called(tools, "look", times=2)
        await jackline.control(first, Abort(mode=AbortMode.NOW, skip_routes=False), wait=Stage.EFFECTIVE)
        await called(tools, "tidy")

        await jackline.runtime.kill_switch.engage(CALLER, reason="stop")

        cleaning, working = await all_ended(jackline, [first, second])
    reasons = [end_of(one).stop_reason for one in (cleaning, working)]
    assert reasons == [StopReason.OPERATOR, StopReason.KILL_SWITCH]
    assert not tools.finished
    assert [one.envelope.step_id for one in working if isinstance(one.fact, StepStarted)] == ["answer"]


async def test_an_abort_after_the_switch_brings_no_cleanup_path_back():
    here, _, tools = world(cleans=True)
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        await tools.called.wait()
        stops = Abort(mode=AbortMode.NOW, skip_routes=False)
        await asyncio.gather(
            jackline.runtime.kill_switch.engage(CALLER, reason="stop"), jackline.control(run_id, stops)
        )
        log = await jackline.follow(run_id)
    assert end_of(log).stop_reason is StopReason.KILL_SWITCH
    assert [one.envelope.step_id for one in log if isinstance(one.fact, StepStarted)] == ["answer"]


@pytest.mark.parametrize("skips", [(True, False), (False, True)])
async def test_a_cleanup_path_that_one_abort_leaves_out_is_brought_back_by_no_other(skips: tuple[bool, bool]):
    here, _, tools = world(cleans=True)
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        await tools.called.wait()
        await asyncio.gather(
            *(jackline.control(run_id, Abort(mode=AbortMode.NOW, skip_routes=skip)) for skip in skips)
        )
        log = await jackline.follow(run_id)
    assert [one.envelope.step_id for one in log if isinstance(one.fact, StepStarted)] == ["answer"]


async def test_nothing_begins_while_it_is_engaged_and_all_does_once_it_is_released():
    here, models, _ = world()
    models.answering = lambda _: ScriptedReply(text="done")
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        origin = await jackline.start(request_id="before")
        await jackline.follow(origin)
        await jackline.runtime.kill_switch.engage(CALLER, reason="stop")
        runs, reasons = jackline.runtime.runs, set[Reason]()
        thread = ThreadRequest(thread_id="t", on_busy=OnBusy.STEER)
        fork = ForkRun(
            caller=CALLER,
            run_id=origin,
            sequence=1,
            request_id="",
            fingerprint=b"",
            workflow="",
            bounds=TighterBounds(),
            labels={},
            steer="",
            deadline_unix_ms=None,
        )
        for attempt in (
            runs.start(start_request()),
            runs.start(replace(start_request(), thread=thread)),
            runs.fork(fork),
        ):
            with pytest.raises(Refused) as caught:
                await attempt
            reasons.add(caught.value.reason)
        known = await jackline.start(request_id="before")
        view = await jackline.runtime.kill_switch.look(DEFAULT_TENANT)

        released = await jackline.runtime.kill_switch.release(CALLER, reason="mended")

        again = await jackline.runtime.kill_switch.release(CALLER, reason="mended")
        log = await jackline.follow(await jackline.start())
    assert reasons == {Reason.KILL_SWITCH_ENGAGED}
    assert known == origin
    assert (view.living, view.engagement is not None and view.engagement.engaged) == (0, True)
    assert (released.changed, again.changed) == (True, False)
    assert end_of(log).phase is Phase.SUCCEEDED


async def test_a_start_cant_become_guidance_for_a_run_that_is_being_ended():
    here, _, tools = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        thread = ThreadRequest(thread_id="t", on_busy=OnBusy.STEER)
        started = await jackline.runtime.runs.start(replace(start_request(), thread=thread))
        await tools.called.wait()
        waits = await jackline.runtime.runs.start(
            replace(start_request(), thread=replace(thread, on_busy=OnBusy.ENQUEUE))
        )
        await jackline.runtime.kill_switch.engage(CALLER, reason="stop")
        with pytest.raises(Refused) as caught:
            await jackline.runtime.runs.start(replace(start_request(), thread=thread))
        first, second = await all_ended(jackline, [started.row.run_id, waits.row.run_id])
    assert caught.value.reason is Reason.KILL_SWITCH_ENGAGED
    assert [end_of(one).stop_reason for one in (first, second)] == [StopReason.KILL_SWITCH] * 2


async def test_runs_of_a_process_that_died_end_where_they_are_taken_up_without_another_call():
    here, models, tools = world()
    async with asyncio.timeout(SECONDS):
        async with process(here, worker="dead", drain_grace_ms=0) as jackline:
            run_id = await jackline.start()
            await tools.called.wait()
        async with process(here, worker="switch", max_active_runs=0) as jackline:
            await jackline.runtime.kill_switch.engage(CALLER, reason="stop")
        asked = len(models.requests)
        async with process(here, worker="next") as jackline:
            log = await jackline.follow(run_id)
    assert end_of(log).stop_reason is StopReason.KILL_SWITCH
    assert len(models.requests) == asked
    started = [one.fact for one in log if isinstance(one.fact, ModelCallStarted)]
    assert len(started) == 1


async def test_starts_that_race_the_switch_are_refused_or_ended():
    here, _, _ = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        reasons = set[Reason]()

        async def begun() -> bool:
            try:
                await jackline.start()
            except Refused as refused:
                reasons.add(refused.reason)
                return False
            return True

        starts = [begun() for _ in range(12)]
        engages = jackline.runtime.kill_switch.engage(CALLER, reason="stop")
        results = await asyncio.gather(*starts[:6], engages, *starts[6:])
        rows = (await jackline.runtime.runs.page(RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=50))).rows
        logs = await all_ended(jackline, [row.run_id for row in rows])
    assert len(rows) == sum(result is True for result in results)
    assert reasons <= {Reason.KILL_SWITCH_ENGAGED}
    assert all(
        isinstance(log[-1].fact, RunFinished) and log[-1].fact.stop_reason is StopReason.KILL_SWITCH
        for log in logs
    )
