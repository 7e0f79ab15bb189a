"""Forks: a new run goes on from a recorded run's first facts, and does nothing twice that they did."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict, Unpack

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort, Answer, Pause, Resume
from jackline_server.core.facts import (
    AbortMode,
    Fact,
    ForkOrigin,
    InterruptRaised,
    Phase,
    RecoveryCause,
    RunFinished,
    RunRecovered,
    RunStarted,
    Steered,
    StopReason,
    TimerFired,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import GatesPlan, MaskPlan, Pii
from jackline_server.core.messages import ToolMessage, UserMessage
from jackline_server.core.plan import Effect, ModelStep, Plan, PromptSection
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.journal import Created, Journal, NewRun, RunHead
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.forking import MOST_BYTES
from jackline_server.runtime.use_cases import Caller, Disposition, ForkRun, Stage, Started, TighterBounds
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import CALLER, Process, World, process, start_request
from jackline_server.testing.plans import (
    AGENT,
    agent,
    agent_plan,
    entry,
    plan_of,
    run_bounds,
    step_bounds,
    tool,
)

SECONDS = 10
CODEC = ProtoCodec()
PLAN = CODEC.decode_plan(  # its digest is that of its bytes then, and a second process finds it
    CODEC.encode_plan(
        agent_plan(
            tool("look", Effect.READ), tool("change", Effect.WRITE), tools=(entry("look"), entry("change"))
        )
    )
)
FORKER = Caller(tenant=DEFAULT_TENANT, principal="forker")


def looks_changes_answers(request: ModelRequest) -> ScriptedReply:
    results = [message for message in request.messages if isinstance(message, ToolMessage)]
    if not results:
        return ScriptedReply(calls=(("a", "look", "{}"),))
    if len(results) == 1:
        return ScriptedReply(calls=(("b", "change", "{}"),))
    told = [message.text for message in request.messages if isinstance(message, UserMessage)]
    return ScriptedReply(text=" ".join(told[1:]) or "done")


@dataclass
class Scene:
    world: World
    models: FakeModels
    tools: FakeTools


class Given(TypedDict, total=False):
    request_id: str
    workflow: str
    bounds: TighterBounds
    labels: dict[str, str]
    steer: str
    deadline_unix_ms: int | None
    caller: Caller


def scene(*, store: Store | None = None, plan: Plan = PLAN, others: dict[str, Plan] | None = None) -> Scene:
    models = FakeModels(answering=looks_changes_answers)
    tools = FakeTools(tools={"look": returns('{"found":1}'), "change": returns('{"ok":true}')})
    world = World(
        store=store or memory_store(),
        models=models,
        toolbox=tools,
        plans={"plan": plan, **(others or {})},
        masks=PiiMasks(),
    )
    return Scene(world=world, models=models, tools=tools)


async def fork(jackline: Process, run_id: str, sequence: int, **given: Unpack[Given]) -> Started:
    request = ForkRun(
        caller=given.get("caller", FORKER),
        run_id=run_id,
        sequence=sequence,
        request_id=given.get("request_id", ""),
        fingerprint=repr((run_id, sequence, sorted(given))).encode(),
        workflow=given.get("workflow", ""),
        bounds=given.get("bounds", TighterBounds()),
        labels=given.get("labels", {}),
        steer=given.get("steer", ""),
        deadline_unix_ms=given.get("deadline_unix_ms"),
    )
    return await jackline.runtime.runs.fork(request)


def query_of(*, with_interrupts: bool = False) -> RunQuery:
    return RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=50, with_interrupts=with_interrupts)


async def refused(jackline: Process, run_id: str, sequence: int, **given: Unpack[Given]) -> Refused:
    with pytest.raises(Refused) as caught:
        await fork(jackline, run_id, sequence, **given)
    return caught.value


async def finished_run(jackline: Process) -> tuple[str, list[Record]]:
    run_id = await jackline.start(message="hello")
    return run_id, await jackline.follow(run_id)


def at(log: list[Record], kind: type[Fact], *, number: int = 1) -> int:
    """The sequence of the so-manieth fact of a kind."""
    found = [one.envelope.sequence for one in log if isinstance(one.fact, kind)]
    return found[number - 1]


def first_of(log: list[Record]) -> RunStarted:
    fact = log[0].fact
    assert isinstance(fact, RunStarted)
    return fact


def end_of(log: list[Record]) -> RunFinished:
    fact = log[-1].fact
    assert isinstance(fact, RunFinished)
    return fact


@asynccontextmanager
async def running(here: Scene, *, max_active_runs: int = 100) -> AsyncGenerator[Process]:
    async with process(here.world, max_active_runs=max_active_runs) as jackline, asyncio.timeout(SECONDS):
        yield jackline


# --- what a fork is ----------------------------------------------------------------------------


async def test_a_fork_takes_the_facts_over_and_does_none_of_it_again() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point = at(log, ToolCallFinished)
        done = await fork(jackline, run_id, point)
        forked = await jackline.follow(done.row.run_id)
        origin = await jackline.log(run_id)
    assert done.disposition is Disposition.STARTED
    assert done.row.run_id != run_id
    assert [one.envelope.sequence for one in forked] == list(range(1, len(forked) + 1))
    assert [one.fact for one in forked[1:point]] == [one.fact for one in log[1:point]]
    assert [one.envelope.active_ms for one in forked[:point]] == [
        one.envelope.active_ms for one in log[:point]
    ]
    assert {one.envelope.run_id for one in forked} == {done.row.run_id}
    assert first_of(forked).forked_from == ForkOrigin(run_id=run_id, sequence=point)
    assert first_of(forked).principal == "forker"
    assert end_of(forked).phase is Phase.SUCCEEDED
    assert [call.step.step_id for call in here.tools.ledger] == ["look", "change", "change"]
    assert origin == log


async def test_calls_of_a_fork_have_its_own_keys() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        done = await fork(jackline, run_id, at(log, ToolCallFinished))
        await jackline.follow(done.row.run_id)
    assert [call.call_key for call in here.tools.ledger] == [
        f"{run_id}.1",
        f"{run_id}.2",
        f"{done.row.run_id}.2",
    ]


async def test_every_boundary_of_a_run_can_be_forked_and_every_other_event_names_the_nearest() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        good: list[int] = []
        near: dict[int, dict[str, str]] = {}
        reasons: set[Reason] = set()
        for sequence in range(1, len(log) + 1):
            try:
                done = await fork(jackline, run_id, sequence)
            except Refused as error:
                near[sequence] = error.metadata
                reasons.add(error.reason)
                continue
            good.append(sequence)
            forked = await jackline.follow(done.row.run_id)
            assert end_of(forked).phase is Phase.SUCCEEDED
            assert end_of(forked).result_json == '"done"'
    called = at(log, ToolCallRequested)
    assert reasons == {Reason.FORK_POINT}
    assert {1, 2, called} <= set(good)
    assert len(log) not in good
    assert near[called - 1] == {"sequence": str(called - 1), "before": "2", "after": str(called)}
    assert near[len(log)] == {"sequence": str(len(log)), "before": str(len(log) - 1)}
    for sequence, told in near.items():
        points = {int(value) for name, value in told.items() if name != "sequence"}
        assert points <= set(good)
        assert points == {
            max((one for one in good if one < sequence), default=0),
            min((one for one in good if one > sequence), default=0),
        } - {0}


async def test_what_the_prefix_spent_counts() -> None:
    here = scene(plan=change(PLAN, bounds=run_bounds(token_budget=100_000)))
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point = at(log, ToolCallFinished)
        done = await fork(jackline, run_id, point, bounds=TighterBounds(token_budget=20))
        forked = await jackline.follow(done.row.run_id)
        snapshot = await jackline.runtime.runs.get(DEFAULT_TENANT, done.row.run_id)
    assert first_of(forked).bounds == run_bounds(token_budget=20)
    assert end_of(forked).phase is Phase.EXHAUSTED
    assert end_of(forked).stop_reason is StopReason.TOKEN_BUDGET
    assert snapshot.state.ledger.tokens == 15
    assert len(here.models.requests) == 3


async def test_bounds_may_be_wider_than_the_runs_and_never_than_the_workflows() -> None:
    here = scene(plan=change(PLAN, bounds=run_bounds(steps=50)))
    async with running(here) as jackline:
        started = await jackline.runtime.runs.start(replace(start_request(), bounds=TighterBounds(steps=3)))
        await jackline.follow(started.row.run_id)
        wider = await fork(jackline, started.row.run_id, 2, bounds=TighterBounds(steps=50))
        same = await fork(jackline, started.row.run_id, 2)
        error = await refused(jackline, started.row.run_id, 2, bounds=TighterBounds(steps=51))
        logs = [await jackline.follow(one.row.run_id) for one in (wider, same)]
    assert [first_of(log).bounds.steps for log in logs] == [50, 3]
    assert error.reason is Reason.BOUND_TOO_HIGH
    assert error.metadata == {"field": "changes.bounds.steps", "limit": "50"}


async def test_labels_are_set_over_those_of_the_run() -> None:
    here = scene()
    async with running(here) as jackline:
        started = await jackline.runtime.runs.start(
            replace(start_request(), labels={"team": "a", "mail": "1"})
        )
        await jackline.follow(started.row.run_id)
        done = await fork(jackline, started.row.run_id, 2, labels={"team": "b"})
        many = {f"label-{number}": "" for number in range(31)}
        error = await refused(jackline, started.row.run_id, 2, labels=many)
        row = await here.world.store.runs.get(DEFAULT_TENANT, done.row.run_id)
    assert row is not None
    assert row.labels == {"team": "b", "mail": "1"}
    assert (error.reason, error.violations[0].field) == (Reason.INVALID_REQUEST, "changes.labels")


async def test_a_deadline_of_the_run_is_none_of_the_forks() -> None:
    here = scene()
    soon = here.world.clock.unix_ms() + 60_000
    async with running(here) as jackline:
        started = await jackline.runtime.runs.start(replace(start_request(), deadline_unix_ms=soon))
        await jackline.follow(started.row.run_id)
        without = await fork(jackline, started.row.run_id, 2)
        within = await fork(jackline, started.row.run_id, 2, deadline_unix_ms=soon + 1)
        logs = [await jackline.follow(one.row.run_id) for one in (without, within)]
    assert [first_of(log).deadline_unix_ms for log in logs] == [None, soon + 1]


# --- guidance ----------------------------------------------------------------------------------


async def test_guidance_is_the_first_own_fact_and_the_model_is_told() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point = at(log, ToolCallFinished, number=2)
        done = await fork(jackline, run_id, point, steer="Be brief.")
        forked = await jackline.follow(done.row.run_id)
    assert forked[point].fact == Steered(principal="forker", text="Be brief.")
    assert (forked[point].envelope.step_id, forked[point].envelope.sequence) == (AGENT, point + 1)
    assert "Be brief." in (end_of(forked).result_json or "")


async def test_guidance_is_masked_as_the_forks_own_revision_says_before_it_is_stored() -> None:
    masks = GatesPlan(mask_input=MaskPlan(kinds=frozenset({Pii.EMAIL})))
    here = scene(others={"masked": change(PLAN, digest="2" * 64, gates=masks)})
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point, name = at(log, ToolCallFinished, number=2), await put(jackline, "masked")
        given = Given(request_id="once", workflow=name, steer="Ask ann@example.org of 10.0.0.1.")
        done = await fork(jackline, run_id, point, **given)
        again = await fork(jackline, run_id, point, **given)
        forked = await jackline.follow(done.row.run_id)
        events = await here.world.store.journal.read(done.row.run_id, after_sequence=0, limit=100)
    assert forked[point].fact == Steered(principal="forker", text="Ask [email] of 10.0.0.1.")
    assert "ann@" not in repr(here.models.requests)
    assert b"ann@" not in b"".join(event.meta + event.content for event in events)
    assert (again.row.run_id, again.disposition) == (done.row.run_id, Disposition.DEDUPLICATED)


async def test_guidance_is_refused_where_a_call_is_open() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        error = await refused(jackline, run_id, at(log, ToolCallRequested), steer="Be brief.")
    assert error.reason is Reason.FORK_POINT
    assert error.metadata == {
        "sequence": str(at(log, ToolCallRequested)),
        "before": "2",
        "after": str(at(log, ToolCallFinished)),
    }


async def test_guidance_that_no_turn_follows_is_refused() -> None:
    here = scene(plan=change(PLAN, bounds=run_bounds(token_budget=100_000)))
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point = at(log, ToolCallFinished)
        error = await refused(jackline, run_id, point, steer="Go on.", bounds=TighterBounds(token_budget=20))
        rows = await here.world.store.runs.get(DEFAULT_TENANT, run_id)
    assert (error.reason, error.metadata) == (Reason.FORK_POINT, {"sequence": str(point)})
    assert rows is not None


# --- another revision --------------------------------------------------------------------------


def revised(plan: Plan, *, digest: str, **fields: object) -> Plan:
    step = plan.steps[AGENT]
    assert isinstance(step, ModelStep)
    return change(
        plan, digest=digest * 64, revision=digest * 64, steps={**plan.steps, AGENT: change(step, **fields)}
    )


async def put(jackline: Process, name: str) -> str:
    done = await jackline.runtime.workflows.put(
        CALLER, Source(yaml=name, files={}), alias=name, expect_digest=""
    )
    return f"{done.revision.name}@{name}"


async def test_a_fork_goes_on_under_a_newer_revision() -> None:
    newer = revised(PLAN, digest="2", system=(PromptSection(title="", text="You answer kindly."),))
    here = scene(others={"kind": newer})
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        reference = await put(jackline, "kind")
        done = await fork(jackline, run_id, at(log, ToolCallFinished), workflow=reference)
        forked = await jackline.follow(done.row.run_id)
        asked = here.models.requests[-1]
    assert first_of(forked).plan_digest == newer.digest
    assert end_of(forked).phase is Phase.SUCCEEDED
    assert "You answer kindly." in asked.messages[0].text


async def test_a_revision_that_lacks_a_step_or_a_tool_of_the_prefix_is_refused() -> None:
    lacking = plan_of(
        agent(tools=(entry("change"),)),
        tool("change", Effect.WRITE),
        digest="2" * 64,
        revision="2" * 64,
    )
    other = plan_of(agent(step_id="another"), digest="3" * 64, revision="3" * 64)
    turned = plan_of(tool(AGENT, Effect.READ), digest="4" * 64, revision="4" * 64)
    here = scene(others={"lacking": lacking, "other": other, "turned": turned})
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        called = at(log, ToolCallRequested)
        for name, sequence, fact in (
            ("lacking", called, "tool_call_requested"),
            ("other", 2, "step_started"),
            ("turned", 2, "step_started"),
        ):
            reference = await put(jackline, name)
            error = await refused(jackline, run_id, at(log, ToolCallFinished), workflow=reference)
            assert error.reason is Reason.PREFIX_MISFIT
            assert (error.metadata["sequence"], error.metadata["fact"]) == (str(sequence), fact)
            assert error.violations[0].field == "changes.workflow"
        early = await fork(jackline, run_id, 2, workflow=await put(jackline, "lacking"))
        assert early.disposition is Disposition.STARTED


async def test_an_input_that_the_revision_does_not_take_is_the_first_misfit() -> None:
    strict = change(PLAN, digest="2" * 64, revision="2" * 64, input_schema_json='{"required":["order"]}')
    here = scene(others={"strict": strict})
    async with running(here) as jackline:
        run_id, _ = await finished_run(jackline)
        error = await refused(jackline, run_id, 2, workflow=await put(jackline, "strict"))
    assert error.reason is Reason.PREFIX_MISFIT
    assert (error.metadata["sequence"], error.metadata["fact"]) == ("1", "run_started")


async def test_another_workflow_is_no_revision() -> None:
    here = scene(others={"foreign": change(PLAN, name="foreign", digest="2" * 64)})
    async with running(here) as jackline:
        run_id, _ = await finished_run(jackline)
        error = await refused(jackline, run_id, 2, workflow=await put(jackline, "foreign"))
        missing = await refused(jackline, run_id, 2, workflow="nothing")
    assert (error.reason, error.violations[0].reason) == (Reason.INVALID_REQUEST, "OTHER_WORKFLOW")
    assert missing.reason is Reason.WORKFLOW_NOT_FOUND


# --- runs that are held, and those that end ----------------------------------------------------


async def test_a_fork_of_a_paused_place_is_paused_until_it_is_resumed() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 50
    async with running(here) as jackline:
        run_id = await jackline.start()
        await jackline.control(run_id, Pause(), wait=Stage.EFFECTIVE)
        held = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
        done = await fork(jackline, run_id, held.state.sequence)
        assert done.row.phase is Phase.PAUSED
        await jackline.control(done.row.run_id, Resume(), wait=Stage.EFFECTIVE)
        forked = await jackline.follow(done.row.run_id)
        origin = await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)
    assert end_of(forked).phase is Phase.SUCCEEDED
    assert origin.state.phase is Phase.PAUSED


async def test_an_aborted_run_is_forked_before_its_abort() -> None:
    here = scene()
    here.tools.wait_ms = lambda _: 50
    async with running(here) as jackline:
        run_id = await jackline.start()
        await here.tools.called.wait()
        await jackline.control(run_id, Abort(mode=AbortMode.GRACEFUL, skip_routes=False), wait=Stage.SETTLED)
        log = await jackline.follow(run_id)
        error = await refused(jackline, run_id, len(log) - 1)
        done = await fork(jackline, run_id, int(error.metadata["before"]))
        forked = await jackline.follow(done.row.run_id)
    assert end_of(log).phase is Phase.ABORTED
    assert "after" not in error.metadata
    assert end_of(forked).phase is Phase.SUCCEEDED


def lost_once(found: list[Invocation]) -> FakeTools:
    def change_tool(invocation: Invocation) -> ToolResult:
        found.append(invocation)
        if len(found) == 1:
            return ToolResult(ending=ToolEnding.UNCERTAIN, error="the answer was lost")
        return ToolResult(ending=ToolEnding.COMPLETED, output_json='{"ok":true}')

    return FakeTools(tools={"look": returns("1"), "change": change_tool})


async def test_an_open_question_is_open_in_the_fork_for_as_long_and_a_retry_keeps_the_first_key() -> None:
    here = scene()
    calls: list[Invocation] = []
    world = replace(here.world, toolbox=lost_once(calls))
    async with running(replace(here, world=world)) as jackline:
        run_id = await jackline.start()
        question = await until(jackline, run_id, InterruptRaised)
        done = await fork(jackline, run_id, question.envelope.sequence)
        theirs = question.fact
        ours = (await jackline.log(done.row.run_id))[question.envelope.sequence - 1]
        assert isinstance(theirs, InterruptRaised)
        assert isinstance(ours.fact, InterruptRaised)
        assert theirs.expires_unix_ms is not None
        assert ours.fact.expires_unix_ms is not None
        assert ours.fact.expires_unix_ms - ours.envelope.unix_ms == (
            theirs.expires_unix_ms - question.envelope.unix_ms
        )
        assert done.row.phase is Phase.WAITING
        page = await jackline.runtime.runs.page(query_of(with_interrupts=True))
        await jackline.control(
            done.row.run_id, Answer(interrupt_id=ours.fact.interrupt_id, option="retry", text="")
        )
        forked = await jackline.follow(done.row.run_id)
    assert {row.run_id for row in page.rows} == {run_id, done.row.run_id}
    assert end_of(forked).phase is Phase.SUCCEEDED
    assert [call.call_key for call in calls] == [f"{run_id}.2", f"{run_id}.2"]
    assert [call.run_id for call in calls] == [run_id, done.row.run_id]


async def until(jackline: Process, run_id: str, kind: type[Fact]) -> Record:
    """The first fact of that kind, once it is there."""
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async for frame in frames:
        for event in frame.events:
            record = CODEC.decode(event)
            if isinstance(record.fact, kind):
                return record
    raise AssertionError(f"no {kind.__name__}")


# --- once --------------------------------------------------------------------------------------


async def test_a_repeated_request_finds_its_fork_and_another_content_is_refused() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, _ = await finished_run(jackline)
        results = await asyncio.gather(*(fork(jackline, run_id, 2, request_id="once") for _ in range(20)))
        other = await refused(jackline, run_id, 1, request_id="once")
        page = await jackline.runtime.runs.page(query_of())
    assert len({one.row.run_id for one in results}) == 1
    assert [one.disposition for one in results].count(Disposition.DEDUPLICATED) == 19
    assert (other.reason, other.metadata["run_id"]) == (
        Reason.REQUEST_ID_REUSED,
        results[0].row.run_id,
    )
    assert page.total == 2


async def test_a_run_that_is_not_there_or_not_the_callers_has_one_answer() -> None:
    here = scene()
    stranger = Caller(tenant=Tenant("other"), principal="stranger")
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        missing = await refused(jackline, "run_" + "0" * 26, 1)
        foreign = await refused(jackline, run_id, 1, caller=stranger)
        beyond = await refused(jackline, run_id, len(log) + 1)
    assert (missing.reason, missing.message) == (foreign.reason, foreign.message)
    assert missing.reason is Reason.RUN_NOT_FOUND
    assert (beyond.reason, beyond.metadata) == (
        Reason.SEQUENCE_IN_FUTURE,
        {"head_sequence": str(len(log))},
    )


async def test_a_fork_without_a_free_place_is_queued_and_recovered() -> None:
    here = scene()
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
    point = at(log, ToolCallFinished)
    here.tools.wait_ms = lambda call: 200 if call.run_id != run_id else 0
    async with running(here, max_active_runs=1) as jackline:
        busy = await jackline.start()
        done = await fork(jackline, run_id, point)
        assert (done.disposition, done.row.phase, done.row.epoch) == (Disposition.QUEUED, Phase.QUEUED, 0)
        assert done.row.head_sequence == point
        forked = await jackline.follow(done.row.run_id)
        await jackline.follow(busy)
    assert forked[point].fact == RunRecovered(epoch=1, cause=RecoveryCause.QUEUE)
    assert end_of(forked).phase is Phase.SUCCEEDED


async def test_takeovers_of_the_run_are_of_the_forks_own_epoch() -> None:
    """The epochs of a log never fall, and a fork begins anew."""
    here = scene()
    store = here.world.store
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        cut = at(log, ToolCallStarted, number=2)
    events = await store.journal.read(run_id, after_sequence=0, limit=cut)
    recovered = CODEC.encode(
        Record(
            envelope=replace(log[cut - 1].envelope, sequence=cut + 1),
            fact=RunRecovered(epoch=7, cause=RecoveryCause.CRASH),
        )
    )
    other = memory_store()
    await other.journal.create(
        NewRun(
            tenant=DEFAULT_TENANT,
            run_id=run_id,
            workflow=PLAN.name,
            plan_digest=PLAN.digest,
            plan=CODEC.encode_plan(PLAN),
            labels={},
            created_unix_ms=0,
            request_id="",
            fingerprint=b"",
            owner="somebody",
            first=events[0],
            rest=[*events[1:], recovered],
            head=RunHead(phase=Phase.RUNNING, wake_unix_ms=None, open_interrupts=0),
            summary=b"",
        )
    )
    async with running(scene(store=other)) as jackline:
        done = await fork(jackline, run_id, cut + 1)
        forked = await jackline.log(done.row.run_id)
    assert forked[cut].fact == RunRecovered(epoch=1, cause=RecoveryCause.CRASH)
    assert done.row.epoch == 1


async def test_a_prefix_that_is_too_large_is_refused() -> None:
    here = scene()
    big = "x" * 1_000_000
    here.tools.tools = {"look": returns(f'"{big}"'), "change": returns("1")}
    here.models.answering = lambda request: ScriptedReply(
        calls=(("", "look", "{}"),) if len(here.tools.ledger) < MOST_BYTES // len(big) + 1 else (),
        text="done",
    )
    plan = agent_plan(
        tool("look", Effect.READ, result_chars=100),
        bounds=step_bounds(max_iterations=100, model_requests=200, tool_calls=200),
    )
    here = replace(here, world=replace(here.world, plans={"plan": plan}))
    async with process(here.world) as jackline, asyncio.timeout(60):
        run_id, log = await finished_run(jackline)
        error = await refused(jackline, run_id, len(log) - 1)
        early = await fork(jackline, run_id, at(log, ToolCallFinished, number=3))
    assert (error.reason, error.violations[0].reason) == (Reason.INVALID_REQUEST, "TOO_LARGE")
    assert early.disposition is Disposition.STARTED


# --- crashes -----------------------------------------------------------------------------------


@dataclass
class LosingJournal:
    """A journal whose creates end in doubt: before or after they were written."""

    inner: Journal
    lose: str = ""
    created: list[NewRun] = field(default_factory=list[NewRun])

    async def create(self, new: NewRun) -> Created:
        if self.lose == "before":
            raise StoreUnavailable("lost")
        done = await self.inner.create(new)
        self.created.append(new)
        if self.lose == "after":
            raise StoreUnavailable("lost")
        return done

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


@pytest.mark.parametrize(("lose", "disposition"), [("before", "started"), ("after", "deduplicated")])
async def test_a_fork_whose_answer_was_lost_is_found_by_its_request_id_whole_or_not_at_all(
    lose: str, disposition: str, tmp_path: Path
) -> None:
    opened = await open_sqlite(tmp_path / "data")
    journal = LosingJournal(inner=opened.store.journal)
    here = scene(store=replace(opened.store, journal=journal))  # pyright: ignore[reportArgumentType] - the port, by its methods
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point = at(log, ToolCallFinished)
        journal.lose = lose
        error = await refused(jackline, run_id, point, request_id="once")
        journal.lose = ""
        done = await fork(jackline, run_id, point, request_id="once")
        page = await jackline.runtime.runs.page(query_of())
        row = await opened.store.runs.get(DEFAULT_TENANT, done.row.run_id)
        events = await opened.store.journal.read(done.row.run_id, after_sequence=0, limit=point)
    await opened.close()
    assert error.reason is Reason.STORE_UNAVAILABLE
    assert done.disposition.value == disposition
    assert page.total == 2
    assert row is not None
    assert len(events) == point


async def test_a_fork_that_was_created_by_a_process_that_died_is_driven_by_the_next(tmp_path: Path) -> None:
    """The commit that makes a fork is all there is of it: whoever opens the store goes on with it."""
    opened = await open_sqlite(tmp_path / "data")
    journal = LosingJournal(inner=opened.store.journal)
    here = scene(store=replace(opened.store, journal=journal))  # pyright: ignore[reportArgumentType] - see above
    async with running(here) as jackline:
        run_id, log = await finished_run(jackline)
        point = at(log, ToolCallFinished)
        journal.lose = "after"
        await refused(jackline, run_id, point, request_id="once")
    await opened.close()
    again = await open_sqlite(tmp_path / "data")
    new_run = journal.created[-1].run_id
    there = scene(store=again.store)
    async with running(there) as jackline:
        forked = await jackline.follow(new_run)
    await again.close()
    assert [one.fact for one in forked[1:point]] == [one.fact for one in log[1:point]]
    assert end_of(forked).phase is Phase.SUCCEEDED
    assert [call.step.step_id for call in there.tools.ledger] == ["change"]
    assert isinstance(forked[point].fact, RunRecovered)
    assert not any(isinstance(one.fact, TimerFired) for one in forked)
