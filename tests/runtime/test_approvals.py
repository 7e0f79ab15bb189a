"""Approvals in a process: who may, what is refused at once, and a run that waits outlives its process."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import json_text
from jackline_server.core.commands import Approve, Decision, EditAndApprove, Reject
from jackline_server.core.facts import InterruptRaised, Phase, RunFinished
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.use_cases import Caller, ControlRun, Receipt, Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import CALLER, Process, World, process
from tests.runtime.families import sealed

SCHEMA = '{"type":"object","properties":{"sum":{"type":"integer"}},"required":["sum"]}'
SOMEBODY = Caller(tenant=DEFAULT_TENANT, principal="somebody else")


@dataclass
class Scene:
    """A world whose model pays once, and its tools' ledger."""

    tools: FakeTools = field(default_factory=lambda: FakeTools(tools={"pay": returns('"paid"')}))

    def world(self, store: Store | None = None, limits: RunLimits | None = None) -> World:
        entry = plans.entry("pay", parameters_json=SCHEMA, approval=plans.approval())
        step = plans.agent(tools=(entry,))
        plan = plans.plan_of(step, plans.tool("pay", Effect.DESTRUCTIVE, input={"shop": "/input/shop"}))
        return World(
            store=store or memory_store(),
            models=FakeModels(answering=pays_once),
            toolbox=self.tools,
            plans={"plan": sealed(plan)},
            limits=limits or RunLimits(),
        )


def pays_once(request: ModelRequest) -> ScriptedReply:
    is_first = not any(isinstance(message, ToolMessage) for message in request.messages)
    return ScriptedReply(calls=(("", "pay", '{"sum":7}'),)) if is_first else ScriptedReply(text="done")


async def asked(jackline: Process, run_id: str) -> InterruptRaised:
    """The question, once it is open."""
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async for frame in frames:
        for event in frame.events:
            fact = ProtoCodec().decode(event).fact
            if isinstance(fact, InterruptRaised):
                return fact
    raise AssertionError("the run asked nothing")


async def decide(
    jackline: Process, run_id: str, decision: Decision, caller: Caller = SOMEBODY, command_id: str = ""
) -> Receipt:
    return await jackline.runtime.runs.control(
        ControlRun(
            caller=caller,
            run_id=run_id,
            command_id=command_id,
            reason="",
            expect_phase=None,
            expect_sequence=None,
            action=decision,
            wait=Stage.SETTLED,
            wait_ms=10_000,
        )
    )


async def refusal(jackline: Process, run_id: str, decision: Decision, caller: Caller = SOMEBODY) -> Refused:
    with pytest.raises(Refused) as refused:
        await decide(jackline, run_id, decision, caller)
    return refused.value


def approval(question: InterruptRaised) -> Approve:
    return Approve(interrupt_id=question.interrupt_id, digest=question.digest)


def edit(question: InterruptRaised, arguments_json: str) -> EditAndApprove:
    return EditAndApprove(
        interrupt_id=question.interrupt_id, digest=question.digest, arguments_json=arguments_json
    )


async def test_the_tool_is_given_the_very_bytes_that_were_approved() -> None:
    scene = Scene()
    async with process(scene.world()) as jackline, asyncio.timeout(60):
        run_id = await jackline.start(shop="north")
        question = await asked(jackline, run_id)
        first = await decide(jackline, run_id, approval(question), command_id="once")
        again = await decide(jackline, run_id, approval(question), command_id="once")
        end = (await jackline.follow(run_id))[-1].fact
    (call,) = scene.tools.ledger
    assert json_text.write(call.values) == question.arguments_json == '{"shop":"north","sum":7}'
    assert (first.applied, again.applied, again.repeated) == (True, True, True)
    assert isinstance(end, RunFinished)
    assert end.phase is Phase.SUCCEEDED


async def test_whoever_started_a_run_may_reject_its_calls_and_not_approve_them() -> None:
    scene = Scene()
    async with process(scene.world()) as jackline, asyncio.timeout(60):
        run_id = await jackline.start(shop="north")
        question = await asked(jackline, run_id)
        refused = await refusal(jackline, run_id, approval(question), CALLER)
        edited = await refusal(jackline, run_id, edit(question, '{"sum":1}'), CALLER)
        rejection = Reject(interrupt_id=question.interrupt_id, text="no")
        receipt = await decide(jackline, run_id, rejection, CALLER)
        await jackline.follow(run_id)
    assert (refused.reason, edited.reason) == (Reason.OWN_RUN, Reason.OWN_RUN)
    assert (receipt.applied, scene.tools.ledger) == (True, [])


@pytest.mark.parametrize("own", [None, frozenset({CALLER.principal})])
async def test_whoever_started_a_run_may_approve_its_calls_where_the_operator_says_so(
    own: frozenset[str] | None,
) -> None:
    scene = Scene()
    world = scene.world(limits=RunLimits(own_approvals=own))
    async with process(world) as jackline, asyncio.timeout(60):
        run_id = await jackline.start(shop="north")
        assert (await decide(jackline, run_id, approval(await asked(jackline, run_id)), CALLER)).applied
        await jackline.follow(run_id)
    assert len(scene.tools.ledger) == 1


async def test_what_can_come_to_nothing_is_refused_with_its_reason_and_the_call_still_waits() -> None:
    scene = Scene()
    async with process(scene.world()) as jackline, asyncio.timeout(60):
        run_id = await jackline.start(shop="north")
        question = await asked(jackline, run_id)
        stale = Approve(interrupt_id=question.interrupt_id, digest="0" * 64)
        unknown = Approve(interrupt_id="approval-9-9", digest=question.digest)
        reasons = [
            (await refusal(jackline, run_id, decision)).reason
            for decision in (stale, unknown, edit(question, "[]"), edit(question, '{"sum":"all"}'))
        ]
        misfit = await refusal(jackline, run_id, edit(question, "{}"))
        await decide(jackline, run_id, edit(question, '{"sum":5,"shop":"north"}'))
        await jackline.follow(run_id)
    assert reasons == [
        Reason.ARGUMENTS_CHANGED,
        Reason.INTERRUPT_NOT_FOUND,
        Reason.INVALID_ANSWER,
        Reason.INVALID_ANSWER,
    ]
    assert [one.field for one in misfit.violations] == ["edit_and_approve.arguments_json"]
    assert [call.values for call in scene.tools.ledger] == [{"shop": "north", "sum": 5}]


async def test_a_call_that_waits_outlives_the_process_that_asked(tmp_path: Path) -> None:
    scene, opened = Scene(), await open_sqlite(tmp_path / "data")
    try:
        async with process(scene.world(opened.store)) as jackline, asyncio.timeout(60):
            run_id = await jackline.start(shop="north")
            question = await asked(jackline, run_id)
        async with process(scene.world(opened.store)) as other, asyncio.timeout(60):
            await decide(other, run_id, approval(question))
            await other.follow(run_id)
    finally:
        await opened.close()
    assert len(scene.tools.ledger) == 1
