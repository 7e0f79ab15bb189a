"""What a command's sender is told: how far it has come, what became of it, and the same when asked again."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort, Action, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    CommandApplied,
    CommandRejected,
    ModelCallStarted,
    Rejection,
)
from jackline_server.core.plan import Effect
from jackline_server.models.limits import Guarded
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import ControlRun, Receipt, Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import CALLER, Process, World, process

FOR_EVER_MS = 1_000_000
ABORT = Abort(mode=AbortMode.NOW, skip_routes=False)
LOOK = plans.tool("look", Effect.READ)


@asynccontextmanager
async def at_its_model(*, first_ms: int = FOR_EVER_MS) -> AsyncGenerator[tuple[Process, str]]:
    """A process and a run that waits for its first reply, a call of a tool; the second one ends it."""

    def answering(request: ModelRequest) -> ScriptedReply:
        if len(request.messages) > 2:
            return ScriptedReply(text="done")
        return ScriptedReply(calls=(("a", "look", "{}"),), wait_ms=first_ms)

    world = World(
        store=memory_store(),
        models=Guarded(FakeModels(answering=answering)),
        toolbox=FakeTools(tools={"look": returns("{}")}),
        plans={"plan": plans.agent_plan(LOOK)},
    )
    async with process(world) as jackline, asyncio.timeout(20):
        run_id = await jackline.start()
        async for _ in jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False):
            if any(isinstance(record.fact, ModelCallStarted) for record in await jackline.log(run_id)):
                break
        yield jackline, run_id


def order(run_id: str, action: Action, *, command_id: str = "one") -> ControlRun:
    return ControlRun(
        caller=CALLER,
        run_id=run_id,
        command_id=command_id,
        reason="",
        expect_phase=None,
        expect_sequence=None,
        action=action,
        wait=Stage.ACCEPTED,
        wait_ms=10_000,
    )


async def head(jackline: Process, run_id: str) -> int:
    return len(await jackline.log(run_id))


async def test_a_wait_that_is_over_first_says_that_it_was_not_reached() -> None:
    async with at_its_model() as (jackline, run_id):
        pause = replace(order(run_id, Pause()), wait=Stage.EFFECTIVE, wait_ms=50)
        receipt = await jackline.runtime.runs.control(pause)
        assert (receipt.stage, receipt.reached, receipt.sequence) == (Stage.ACCEPTED, False, 0)
        asked_again = await jackline.runtime.runs.control(replace(pause, wait=Stage.ACCEPTED))
        assert (asked_again.reached, asked_again.repeated) == (True, True)


@pytest.mark.parametrize(
    "wrong", [{"expect_phase": "paused"}, {"expect_sequence": 1}], ids=["state", "sequence"]
)
async def test_what_is_not_as_expected_now_is_refused_and_nothing_is_kept(wrong: dict[str, object]) -> None:
    async with at_its_model() as (jackline, run_id):
        expecting = replace(order(run_id, ABORT), **wrong)  # pyright: ignore[reportArgumentType] - by the table
        with pytest.raises(Refused) as refused:
            await jackline.runtime.runs.control(expecting)
        assert refused.value.reason is Reason.EXPECTATION_FAILED
        assert refused.value.metadata == {"state": "running", "sequence": str(await head(jackline, run_id))}
        assert await jackline.world.store.commands.get(run_id, "one") is None


async def test_what_is_no_longer_as_expected_when_its_turn_comes_is_rejected() -> None:
    async with at_its_model(first_ms=200) as (jackline, run_id):
        expecting = replace(
            order(run_id, Pause()), expect_sequence=await head(jackline, run_id), wait=Stage.SETTLED
        )
        receipt = await jackline.runtime.runs.control(expecting)
        assert (receipt.applied, receipt.rejection, receipt.reached) == (False, "EXPECTATION_FAILED", True)
        facts = [record.fact for record in await jackline.follow(run_id)]
    (rejected,) = (fact for fact in facts if isinstance(fact, CommandRejected))
    assert facts.index(rejected) == receipt.sequence - 1
    assert rejected.rejection is Rejection.EXPECTATION_FAILED


async def test_a_repeat_is_told_the_first_outcome_whatever_the_run_has_come_to() -> None:
    async with at_its_model() as (jackline, run_id):
        abort = replace(
            order(run_id, ABORT), expect_sequence=await head(jackline, run_id), wait=Stage.SETTLED
        )
        first = await jackline.runtime.runs.control(abort)
        again = await jackline.runtime.runs.control(abort)
        assert (first.applied, first.repeated, first.already_terminal) == (True, False, False)
        assert again == replace(first, repeated=True)
        with pytest.raises(Refused) as refused:
            await jackline.runtime.runs.control(order(run_id, Resume()))
        assert refused.value.reason is Reason.COMMAND_ID_REUSED


async def test_commands_are_settled_in_the_order_in_which_they_were_accepted() -> None:
    async with at_its_model(first_ms=300) as (jackline, run_id):
        sent: list[Receipt] = [
            await jackline.runtime.runs.control(order(run_id, action, command_id=str(number)))
            for number, action in enumerate((Pause(), Steer(text="Be brief."), Resume(), Pause(), Resume()))
        ]
        assert not any(receipt.applied for receipt in sent)
        facts = [record.fact for record in await jackline.follow(run_id)]
    applied = [fact.command_id for fact in facts if isinstance(fact, CommandApplied)]
    assert [one for one in applied if one != "1"] == ["0", "2", "3", "4"]
    assert "1" in applied  # a steer waits until the conversation can take it
