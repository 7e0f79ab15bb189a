"""A call that is cut off is paid for and gives back what it held; a run that meets a bug ends as well."""

import asyncio
from dataclasses import dataclass

from jackline_server.core.commands import Abort
from jackline_server.core.facts import (
    AbortMode,
    FailureClass,
    ModelCallFailed,
    ModelCallStarted,
    Phase,
    RunFinished,
    StopReason,
)
from jackline_server.core.plan import ModelPlan
from jackline_server.models.limits import Guarded
from jackline_server.runtime.ports.models import ModelPlace, ModelPlaces, ModelRequest, NoLimits
from jackline_server.runtime.use_cases import Stage
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import World, process

FOR_EVER_MS = 1_000_000
ABORT = Abort(mode=AbortMode.NOW, skip_routes=False)


@dataclass(slots=True)
class OnePlace:
    """A place at a model, and how often it is taken and given back. Both ModelPlaces and ModelPlace."""

    taken: int = 0
    released: int = 0

    def take(self, plan: ModelPlan, *, tokens: int) -> ModelPlace | None:
        del plan, tokens
        self.taken += 1
        return self

    async def wait(self, plan: ModelPlan, *, tokens: int) -> ModelPlace:
        raise AssertionError("there was a place")

    def release(self, used_tokens: int | None) -> None:
        del used_tokens
        self.released += 1


@dataclass(frozen=True, slots=True)
class BrokenPlaces(NoLimits):
    """A bug of ours."""

    def take(self, plan: ModelPlan, *, tokens: int) -> ModelPlace | None:
        raise ZeroDivisionError


def world(places: ModelPlaces, asked: asyncio.Event) -> World:
    def answering(_: ModelRequest) -> ScriptedReply:
        asked.set()
        return ScriptedReply(text="late", wait_ms=FOR_EVER_MS)

    return World(
        store=memory_store(),
        models=Guarded(FakeModels(answering=answering)),
        toolbox=FakeTools(tools={}),
        plans={"plan": plans.agent_plan()},
        places=places,
    )


async def test_a_reply_that_an_abort_cuts_off_is_charged_and_its_place_is_free() -> None:
    places, asked = OnePlace(), asyncio.Event()
    async with process(world(places, asked)) as jackline, asyncio.timeout(20):
        run_id = await jackline.start()
        await asked.wait()
        assert (places.taken, places.released) == (1, 0)
        await jackline.control(run_id, ABORT, wait=Stage.SETTLED)
        facts = [record.fact for record in await jackline.follow(run_id)]
    assert (places.taken, places.released) == (1, 1)
    (started,) = (fact for fact in facts if isinstance(fact, ModelCallStarted))
    (failed,) = (fact for fact in facts if isinstance(fact, ModelCallFailed))
    assert failed.failure is FailureClass.CANCELLED
    assert failed.usage.total == started.reserved_tokens > 0


async def test_a_run_that_meets_a_bug_of_the_server_ends_and_says_so() -> None:
    async with process(world(BrokenPlaces(), asyncio.Event())) as jackline, asyncio.timeout(20):
        end = (await jackline.follow(await jackline.start()))[-1].fact
    assert isinstance(end, RunFinished)
    assert (end.phase, end.stop_reason) == (Phase.FAILED, StopReason.INTERNAL)
    assert end.stop_leaf.startswith("inc_")
