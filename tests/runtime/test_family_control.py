"""What is done to a run reaches its children: abort, pause, resume, deadlines. Their questions are seen."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort, AdjustBounds, Pause, Resume, Steer
from jackline_server.core.evolve import evolve
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    CommandApplied,
    ModelCallStarted,
    Paused,
    Phase,
    StopReason,
    ToolCallFinished,
    ToolCallStarted,
)
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import Effect, OnLimit, SharePlan
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.driving.kin import Kin
from jackline_server.runtime.driving.results import Results
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Stage
from jackline_server.signals.in_process import InProcessSignals
from jackline_server.testing.doubles import ScriptedReply
from jackline_server.testing.harness import Process, process, start_request
from jackline_server.testing.plans import agent, child, entry, plan_of, run_bounds, tool
from tests.runtime.families import (
    CHILD,
    PARENT,
    Late,
    Life,
    child_plan,
    children_of,
    end_of,
    ends_of,
    mortal,
    parent_plan,
    put_all,
    says,
    scene,
    sealed,
    turns,
)

SECONDS = 20
STOP = Abort(mode=AbortMode.NOW, skip_routes=False)


async def in_phase(jackline: Process, run_id: str, phase: Phase) -> None:
    """Wait until the run is there."""
    while (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state.phase is not phase:  # noqa: ASYNC110 - a turn of the loop is a step
        await asyncio.sleep(0)


async def living(jackline: Process, run_id: str) -> list[str]:
    """The children of a run, once it has one."""
    while not (found := children_of(await jackline.log(run_id))):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)
    return found


async def test_a_pause_reaches_the_children_and_so_does_going_on() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 30
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (below,) = await living(jackline, run_id)
        await here.tools.called.wait()
        await jackline.control(run_id, Pause(), wait=Stage.SETTLED)
        await in_phase(jackline, below, Phase.PAUSED)
        await in_phase(jackline, run_id, Phase.PAUSED)
        asked = len(here.models.requests)
        await jackline.control(run_id, Resume(), wait=Stage.SETTLED)
        log, told = await jackline.follow(run_id), await jackline.follow(below)
    assert len(here.models.requests) > asked
    assert [sum(isinstance(one.fact, Paused) for one in each) for each in (log, told)] == [1, 1]
    assert end_of(log).phase is end_of(told).phase is Phase.SUCCEEDED


async def test_an_abort_at_the_top_reaches_the_bottom_and_all_end_from_there_up() -> None:
    """Three levels; the tool of the lowest is under way and would take for ever."""
    middle = agent(system=says("middle"), tools=(entry("ask"),))
    plans = (
        parent_plan(),
        sealed(plan_of(middle, child("ask", "lowest"), name=CHILD, bounds=run_bounds())),
        sealed(replace(child_plan(), name="lowest")),
    )
    here = scene(*plans, answering=turns())
    here.tools.wait_ms = lambda _: 1_000_000
    async with process(here.world, max_active_runs=1) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        await here.tools.called.wait()
        asked = len(here.models.requests)
        await jackline.control(run_id, STOP, command_id="stop", wait=Stage.SETTLED)
        log = await jackline.follow(run_id)
        (below,) = children_of(log)
        second = await jackline.log(below)
        (lowest,) = children_of(second)
        third = await jackline.log(lowest)
    assert [end_of(one).phase for one in (log, second, third)] == [Phase.ABORTED] * 3
    assert len(here.models.requests) == asked
    applied = [one.fact for one in third if isinstance(one.fact, CommandApplied)]
    assert [(fact.command_id, fact.abort_cause) for fact in applied] == [
        (f"above {run_id} stop", StopReason.PARENT)
    ]
    (call,) = [one.fact for one in log if isinstance(one.fact, ToolCallFinished)]
    assert call.status is CallStatus.CANCELLED


async def test_why_a_run_is_aborted_is_said_to_it_alone_and_to_no_child() -> None:
    """Whether the command's own commit tells the child or that by which it is applied."""
    here = scene()
    here.tools.wait_ms = lambda _: 1_000_000
    codec, store = ProtoCodec(), here.world.store
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (below,) = await living(jackline, run_id)
        await here.tools.called.wait()
        before = (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state
        await jackline.control(run_id, STOP, command_id="stop", reason="ann asked", wait=Stage.SETTLED)
        (applied,) = [
            one
            for one in await jackline.follow(run_id)
            if isinstance(one.fact, CommandApplied) and one.fact.reason == "ann asked"
        ]
        row = await store.commands.get(below, f"above {run_id} stop")
    after = evolve(before, applied.fact, active_ms=applied.envelope.active_ms)
    results = Results(blobs=store.blobs, clock=here.world.clock)
    kin = Kin(codec=codec, signals=InProcessSignals(), masks=PiiMasks(), results=results)
    (message,) = kin.messages([(applied, before)], after)
    assert row is not None
    assert (message.run_id, message.command_id) == (below, row.command_id)
    told = [codec.decode_command(one, ordinal=0) for one in (row.payload, message.payload)]
    assert [(one.reason, one.principal) for one in told] == [("", "tester")] * 2


async def test_a_child_that_is_aborted_by_itself_is_an_error_for_its_parent() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 1_000_000
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        await here.tools.called.wait()
        (below,) = await living(jackline, run_id)
        await jackline.control(below, STOP, wait=Stage.SETTLED)
        log = await jackline.follow(run_id)
    (call,) = [one.fact for one in log if isinstance(one.fact, ToolCallFinished)]
    assert call.status is CallStatus.FAILED
    assert "aborted" in call.error
    assert end_of(log).phase is Phase.SUCCEEDED


async def test_the_deadline_of_a_run_is_that_of_its_children() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 50
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        soon = here.world.clock.unix_ms() + 1_500
        request = replace(start_request(PARENT), deadline_unix_ms=soon)
        run_id = (await jackline.runtime.runs.start(request)).row.run_id
        (below,) = await living(jackline, run_id)
        await jackline.control(below, Pause(), wait=Stage.SETTLED)
        log = await jackline.follow(run_id)
        told = await jackline.log(below)
    assert [end_of(one).stop_reason for one in (log, told)] == [StopReason.DEADLINE] * 2
    assert [fact.stop_reason for fact in ends_of(log)] == [StopReason.DEADLINE]


async def test_a_question_of_a_child_waits_with_its_parent_and_names_it() -> None:
    """The write of the child is cut off by the death of the process: whoever goes on has to ask."""
    late, life = Late(), Life(dies_at=10_000, after=False)
    store = late.store()
    plan = child_plan()
    step = replace(plan.steps["look"], effect=Effect.WRITE)  # pyright: ignore[reportArgumentType] - a tool step
    plan = sealed(replace(plan, steps={**plan.steps, "look": step}))
    dying = scene(parent_plan(), plan, store=mortal(store, life))
    dying.tools.wait_ms = lambda _: 1_000_000
    async with process(dying.world, drain_grace_ms=1) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        await dying.tools.called.wait()
        life.end()
    late.ahead_ms = 60_000
    there = scene(parent_plan(), plan, store=store)
    async with process(there.world, worker="worker-2") as jackline, asyncio.timeout(SECONDS):
        (below,) = await living(jackline, run_id)
        await in_phase(jackline, below, Phase.WAITING)
        asking = await jackline.runtime.runs.get(DEFAULT_TENANT, below)
        waiting = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
        await jackline.control(run_id, STOP, wait=Stage.SETTLED)
        log = await jackline.follow(run_id)
    assert len(asking.state.oversight.interrupts) == 1
    assert asking.state.started.parent is not None
    assert asking.state.started.parent.run_id == run_id
    assert waiting.state.phase is Phase.WAITING
    assert end_of(log).phase is Phase.ABORTED


@pytest.mark.parametrize("after", [False, True])
async def test_a_crash_at_any_commit_of_an_abort_ends_every_run_and_starts_nothing_more(after: bool) -> None:
    number = 0
    while True:
        number += 1
        late, life = Late(), Life(dies_at=10_000, after=after)
        store = late.store()
        dying = scene(parent_plan(), child_plan(), store=mortal(store, life), answering=turns(children=2))
        dying.tools.wait_ms = lambda _: 1_000_000
        async with process(dying.world, drain_grace_ms=1) as jackline, asyncio.timeout(SECONDS):
            await put_all(jackline)
            run_id = await jackline.start(PARENT)
            await dying.tools.called.wait()
            life.dies_at = life.commits + number
            await jackline.control(run_id, STOP, command_id="stop")
            ended = asyncio.ensure_future(jackline.follow(run_id))
            died = asyncio.ensure_future(life.dead.wait())
            await asyncio.wait({ended, died}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            died.cancel()
        if not life.dead.is_set():
            break
        late.ahead_ms = 60_000
        there = scene(parent_plan(), child_plan(), store=store, answering=_never)
        async with process(there.world, worker="worker-2") as jackline, asyncio.timeout(SECONDS):
            log = await jackline.follow(run_id)
            logs = [await jackline.log(one) for one in children_of(log)]
        assert [end_of(one).phase for one in (log, *logs)] == [Phase.ABORTED] * 3, (number, after)
        assert len(ends_of(log)) == 2
        assert not any(_goes_on(one) for one in (log, *logs))
    assert number > 3, "the process lived through the last commit of the abort"


def _never(request: ModelRequest) -> ScriptedReply:
    raise AssertionError(f"a run that was aborted asks its model: {request.messages[0]}")


def _goes_on(log: list[Record]) -> bool:
    """True if anything was called after the abort was applied."""
    facts = [one.fact for one in log]
    applied = next(at for at, fact in enumerate(facts) if isinstance(fact, CommandApplied))
    return any(isinstance(fact, ModelCallStarted | ToolCallStarted) for fact in facts[applied:])


TOO_MUCH = (
    AdjustBounds(run=NewRunBounds(token_budget=501)),
    AdjustBounds(run=NewRunBounds(run_timeout_ms=7_001)),
    AdjustBounds(visit=NewVisitBounds(token_budget=501)),
)


@pytest.mark.parametrize("beyond", TOO_MUCH)
async def test_no_bound_of_a_child_is_raised_above_its_share(beyond: AdjustBounds) -> None:
    share = SharePlan(token_budget=500, run_timeout_ms=7_000)
    here = scene(parent_plan(share=share, token_budget=9_000), child_plan(token_budget=200))
    here.tools.wait_ms = lambda _: 1_000_000
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (below,) = await living(jackline, run_id)
        await here.tools.called.wait()
        with pytest.raises(Refused) as refused:
            await jackline.control(below, beyond, command_id="more")
        assert refused.value.reason is Reason.BOUND_TOO_HIGH
        within = AdjustBounds(run=NewRunBounds(token_budget=500, run_timeout_ms=7_000))
        receipt = await jackline.control(below, within, command_id="all", wait=Stage.SETTLED)
        assert receipt.applied
        await jackline.control(run_id, STOP, command_id="stop", wait=Stage.SETTLED)


async def test_a_child_at_the_end_of_its_share_is_not_offered_to_have_it_raised() -> None:
    asking = agent(system=says(CHILD), tools=(entry("look"),), on_limit=OnLimit.ASK, limit_expiry_ms=60_000)
    asks = sealed(plan_of(asking, tool("look"), name=CHILD, bounds=run_bounds()))
    share = SharePlan(token_budget=20)
    here = scene(parent_plan(share=share, token_budget=9_000), asks)
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (below,) = await living(jackline, run_id)
        await in_phase(jackline, below, Phase.WAITING)
        (question,) = (
            await jackline.runtime.runs.get(DEFAULT_TENANT, below)
        ).state.oversight.interrupts.values()
        await jackline.control(run_id, STOP, wait=Stage.SETTLED)
    assert question.limit_leaf == "run.token_budget"
    assert "raise" not in question.options


async def test_an_id_that_was_used_on_a_child_keeps_no_abort_of_its_parent_from_it() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 1_000_000
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (below,) = await living(jackline, run_id)
        await here.tools.called.wait()
        guidance = Steer(text="Be brief.")
        await jackline.control(below, guidance, command_id="stop", wait=Stage.ACCEPTED)
        await jackline.control(run_id, STOP, command_id="stop", wait=Stage.SETTLED)
        log, told = await jackline.follow(run_id), await jackline.follow(below)
    assert end_of(log).phase is end_of(told).phase is Phase.ABORTED
    assert end_of(told).stop_reason is StopReason.PARENT


async def test_an_id_that_came_from_above_is_no_callers_and_leaves_theirs_to_them() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 30
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        (below,) = await living(jackline, run_id)
        await here.tools.called.wait()
        await jackline.control(run_id, Pause(), command_id="mine", wait=Stage.SETTLED)
        await in_phase(jackline, below, Phase.PAUSED)
        receipt = await jackline.control(below, STOP, command_id="mine", wait=Stage.SETTLED)
        await jackline.control(run_id, Resume(), wait=Stage.SETTLED)
        log, told = await jackline.follow(run_id), await jackline.follow(below)
    assert receipt.reached
    assert end_of(told).stop_reason is StopReason.OPERATOR
    assert end_of(log).phase is Phase.SUCCEEDED
