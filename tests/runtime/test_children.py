"""Child runs: started once, held to their share, ended with their parent; whatever dies when."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.core.bounds import Ledger
from jackline_server.core.commands import Abort
from jackline_server.core.facts import (
    AbortMode,
    CallProblem,
    CallStatus,
    ChildFinished,
    ChildStarted,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Phase,
    RunRecovered,
    RunStarted,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.plan import AgentTool, Effect, SharePlan
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Stage
from jackline_server.testing.harness import Process, process
from jackline_server.testing.plans import agent, child, entry, plan_of, tool
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
    played,
    put_all,
    says,
    scene,
    sealed,
    turns,
)

SECONDS = 20


async def all_runs(jackline: Process) -> list[str]:
    page = await jackline.runtime.runs.page(RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=100))
    return [row.run_id for row in page.rows]


async def test_a_workflow_as_a_tool_is_a_run_of_its_own_whose_result_its_parent_sees() -> None:
    here = scene()
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        log = await jackline.follow(run_id)
        (below,) = children_of(log)
        below_log = await jackline.follow(below)
        snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
    started = below_log[0].fact
    assert isinstance(started, RunStarted)
    assert started.parent is not None
    assert (started.parent.run_id, started.parent.root_run_id) == (run_id, run_id)
    assert started.input_json == '{"n":0}'
    assert all(record.envelope.parent_run_id == run_id for record in below_log)
    assert end_of(below_log).result_json == '"child: \\"seen\\""'
    assert end_of(log).result_json == '"parent: \\"child: \\\\\\"seen\\\\\\"\\""'
    (ended,) = ends_of(log)
    assert ended.phase is Phase.SUCCEEDED
    assert ended.tokens == _spent(below_log)
    ledger = snapshot.state.ledger
    assert (ledger.tokens, ledger.reserved_tokens) == (_spent(log) + _spent(below_log), 0)


async def test_a_parent_gives_up_its_place_while_a_child_lives() -> None:
    here = scene()
    async with process(here.world, max_active_runs=1) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
    assert end_of(log).phase is Phase.SUCCEEDED
    assert [record.fact.epoch for record in log if isinstance(record.fact, RunRecovered)] == [2]


async def test_children_of_one_reply_run_side_by_side_and_share_what_is_left() -> None:
    here = scene(parent_plan(token_budget=9_000), child_plan(), answering=turns(children=3))
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
    kinds = [type(record.fact) for record in log]
    last_start = max(at for at, kind in enumerate(kinds) if kind is ChildStarted)
    assert kinds.index(ChildFinished) > last_start
    shares = [record.fact.tokens for record in log if isinstance(record.fact, ChildStarted)]
    replied = 9_000 - 15
    assert shares == [replied // 4] * 3
    assert end_of(log).phase is Phase.SUCCEEDED


async def test_a_child_is_held_to_the_share_that_its_step_declares() -> None:
    share = SharePlan(token_budget=20, cost_budget_micros=None, run_timeout_ms=7_000)
    here = scene(parent_plan(share=share, token_budget=9_000), child_plan())
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
        (below,) = children_of(log)
        below_log = await jackline.follow(below)
    started = below_log[0].fact
    assert isinstance(started, RunStarted)
    assert (started.bounds.token_budget, started.bounds.run_timeout_ms) == (20, 7_000)
    assert (end_of(below_log).signal, end_of(below_log).stop_leaf) == ("budget_exceeded", "run.token_budget")
    (failed,) = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
    assert failed.status is CallStatus.FAILED
    assert "budget_exceeded" in failed.error
    assert end_of(log).phase is Phase.SUCCEEDED, "an error of a tool is for the model to judge"


async def test_no_run_is_started_below_the_last_level() -> None:
    here = scene(parent_plan(child_depth=0), child_plan())
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        log = await jackline.follow(run_id)
        assert await all_runs(jackline) == [run_id]
    (refused,) = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
    assert (refused.status, refused.problem) == (CallStatus.DENIED, CallProblem.CHILD_DEPTH)


async def test_a_workflow_that_calls_itself_ends_at_the_last_level() -> None:
    own = parent_plan(child_depth=2)
    plan = sealed(replace(own, steps={**own.steps, "ask": child("ask", PARENT)}))
    here = scene(plan)
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
        assert len(await all_runs(jackline)) == 3
    assert end_of(log).phase is Phase.SUCCEEDED


async def test_a_child_of_a_workflow_that_is_not_there_is_an_error_of_the_call() -> None:
    here = scene()
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        log = await jackline.follow(await jackline.start(PARENT))
    assert children_of(log) == []
    (failed,) = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
    assert failed.status is CallStatus.FAILED
    assert end_of(log).phase is Phase.SUCCEEDED


async def test_an_input_that_does_not_fit_the_workflow_is_an_error_of_the_call() -> None:
    picky = sealed(replace(child_plan(), input_schema_json='{"type":"object","required":["what"]}'))
    here = scene(parent_plan(), picky)
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
    assert children_of(log) == []
    (failed,) = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
    assert failed.status is CallStatus.FAILED
    assert "what" in failed.error


async def test_an_agent_as_a_tool_is_a_run_of_that_agent_alone() -> None:
    helper = agent(
        step_id="ask",
        system=says(CHILD),
        tools=(entry("look"),),
        routes={"*": "answer"},
        as_tool=AgentTool(effect=Effect.READ),
    )
    boss = agent(system=says(PARENT), tools=(entry("ask"),))
    plan = sealed(plan_of(boss, helper, tool("look"), name=PARENT, bounds=parent_plan().bounds))
    here = scene(plan)
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        log = await jackline.follow(await jackline.start(PARENT))
        (below,) = children_of(log)
        snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, below)
    assert set(snapshot.state.plan.steps) == {"ask", "look"}
    assert snapshot.state.plan.flow == ("ask",)
    assert [summary.step_id for summary in snapshot.state.summaries] == ["ask"]
    assert [played(request) for request in here.models.requests] == [PARENT, CHILD, CHILD, PARENT]
    assert end_of(log).phase is Phase.SUCCEEDED


@pytest.mark.parametrize("mode", list(AbortMode))
async def test_an_abort_ends_the_children_first_and_nothing_more_is_called(mode: AbortMode) -> None:
    here = scene(parent_plan(effect=Effect.READ), child_plan(), answering=turns(children=2))
    here.tools.wait_ms = lambda _: 1_000_000 if mode is AbortMode.NOW else 20
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        await here.tools.called.wait()
        asked = len(here.models.requests)
        abort = Abort(mode=mode, skip_routes=False)
        receipt = await jackline.control(run_id, abort, command_id="stop", wait=Stage.SETTLED)
        log = await jackline.follow(run_id)
        logs = [await jackline.log(below) for below in children_of(log)]
    assert receipt.reached
    assert end_of(log).phase is Phase.ABORTED
    assert end_of(log).stop_reason is StopReason.OPERATOR
    assert [end_of(one).stop_reason for one in logs] == [StopReason.PARENT] * 2
    assert [fact.phase for fact in ends_of(log)] == [Phase.ABORTED] * 2
    assert len(here.models.requests) <= asked + 1, "the other child may have been on its way to its model"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("children", [1, 2])
async def test_a_crash_at_any_commit_of_the_family_leaves_one_child_a_call_and_every_budget(
    children: int, after: bool
) -> None:
    """Each commit of the parent and of its children in turn is the one at which the process dies."""
    number = 0
    while True:
        number += 1
        late, life = Late(), Life(dies_at=number, after=after)
        store = late.store()
        plans = (parent_plan(token_budget=9_000), child_plan())
        dying = scene(*plans, store=mortal(store, life), answering=turns(children=children))
        async with process(dying.world, drain_grace_ms=1) as jackline, asyncio.timeout(SECONDS):
            await put_all(jackline)
            run_id = await jackline.start(PARENT)
            follow = asyncio.ensure_future(jackline.follow(run_id))
            died = asyncio.ensure_future(life.dead.wait())
            await asyncio.wait({follow, died}, return_when=asyncio.FIRST_COMPLETED)
            follow.cancel()
            died.cancel()
        if not life.dead.is_set():
            break
        late.ahead_ms = 60_000
        next_life = scene(
            *plans,
            store=replace(store, revisions=dying.world.store.revisions),
            answering=turns(children=children),
        )
        async with process(next_life.world, worker="worker-2") as jackline, asyncio.timeout(SECONDS):
            log = await jackline.follow(run_id)
            logs = {below: await jackline.follow(below) for below in children_of(log)}
            everyone = await all_runs(jackline)
            snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
        assert len(logs) == children, (number, after)
        assert sorted(everyone) == sorted([run_id, *logs])
        _check_ledgers(log, logs, snapshot.state.ledger)
    assert number > 8, "the process lived through its last commit"


def _check_ledgers(log: list[Record], logs: dict[str, list[Record]], ledger: Ledger) -> None:
    spent = {below: _spent(one) for below, one in logs.items()}
    assert end_of(log).phase is Phase.SUCCEEDED
    assert {fact.child_run_id: fact.tokens for fact in ends_of(log)} == spent
    assert ledger.reserved_tokens == 0
    assert ledger.tokens == _spent(log) + sum(spent.values()) <= 9_000


def _spent(log: list[Record]) -> int:
    """The tokens of a run's own calls: as they were told, or held when its worker went away."""
    total, held = 0, 0
    for record in log:
        match record.fact:
            case ModelCallStarted(reserved_tokens=reserved):
                held = reserved
            case RunRecovered():
                total, held = total + held, 0
            case ModelReplied(usage=usage) | ModelCallFailed(usage=usage):
                total, held = total + usage.total, 0
            case _:
                pass
    return total
