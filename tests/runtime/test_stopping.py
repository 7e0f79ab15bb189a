"""The runtime asks functions for stop conditions: what goes out, what is recorded, what is asked again."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort
from jackline_server.core.conditions import AskFunction
from jackline_server.core.facts import (
    AbortMode,
    ConsultAnswer,
    Consulted,
    NoticeCode,
    Noticed,
    Phase,
    RunFinished,
    StopReason,
)
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import agent_plan, step_bounds, tool

ASKS = AskFunction(function="checks:enough", timeout_ms=1_000)
WHO = "stop_when.function(checks:enough)"
LOOKS = ScriptedReply(text="looking", calls=(("", "look", "{}"),))


@dataclass(slots=True, kw_only=True)
class Functions:
    """Functions that answer by how often they were asked; a question is held until `released`."""

    answering: Callable[[int], ConsultReply]
    asked: list[Consultation] = field(default_factory=list[Consultation])
    called: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, question: Consultation) -> ConsultReply:
        """See Consultants."""
        self.asked.append(question)
        self.called.set()
        await self.released.wait()
        return self.answering(len(self.asked))


def says(*answers: ConsultReply, held: bool = False) -> Functions:
    functions = Functions(answering=lambda number: answers[number - 1])
    if not held:
        functions.released.set()
    return functions


YES, NO = ConsultReply(answer=True), ConsultReply(answer=False)
NOTHING = ConsultReply(answer=None, error="It broke.")


def world(functions: Functions) -> World:
    plan = agent_plan(tool("look"), stop_when=ASKS, bounds=step_bounds(max_iterations=3))
    codec = ProtoCodec()
    return World(
        store=memory_store(),
        models=FakeModels(answering=lambda _: LOOKS),
        toolbox=FakeTools(tools={"look": returns("1")}),
        plans={"plan": codec.decode_plan(codec.encode_plan(plan))},
        consultants=functions,
    )


async def run(jackline: Process) -> list[Record]:
    async with asyncio.timeout(10):
        return await jackline.follow(await jackline.start(mark="m"))


def consulted(log: list[Record]) -> list[Consulted]:
    return [record.fact for record in log if isinstance(record.fact, Consulted)]


def end_of(log: list[Record]) -> RunFinished:
    fact = log[-1].fact
    assert isinstance(fact, RunFinished)
    return fact


async def test_a_run_stops_when_the_function_says_so_and_the_log_says_who_said_it() -> None:
    functions = says(NO, YES)
    async with process(world(functions)) as jackline:
        log = await run(jackline)
    assert [(fact.who, fact.answer) for fact in consulted(log)] == [
        (WHO, ConsultAnswer.NO),
        (WHO, ConsultAnswer.YES),
    ]
    end = end_of(log)
    assert (end.signal, end.stop_reason, end.stop_leaf) == ("stopped", StopReason.STOP_CONDITION, WHO)
    assert [question.variables["iterations"] for question in functions.asked] == [1, 2]
    assert functions.asked[0].timeout_ms == 1_000


async def test_a_function_without_an_answer_is_false_and_noticed_once() -> None:
    async with process(world(says(NOTHING, NOTHING, NOTHING))) as jackline:
        log = await run(jackline)
    assert [fact.answer for fact in consulted(log)] == [ConsultAnswer.FAILED] * 3
    notices = [record.fact for record in log if isinstance(record.fact, Noticed)]
    assert [notice.code for notice in notices] == [NoticeCode.CONDITION_FAILED]
    assert end_of(log).signal == "max_iterations"


async def test_a_consultant_that_raises_is_no_end_of_the_run() -> None:
    def broken(number: int) -> ConsultReply:
        raise RuntimeError(f"question {number}")

    functions = Functions(answering=broken)
    functions.released.set()
    async with process(world(functions)) as jackline:
        log = await run(jackline)
    assert [fact.answer for fact in consulted(log)] == [ConsultAnswer.FAILED] * 3
    assert end_of(log).signal == "max_iterations"


@pytest.mark.parametrize("mode", list(AbortMode))
async def test_an_abort_does_not_wait_for_a_function_that_hangs(mode: AbortMode) -> None:
    functions = says(YES, held=True)
    async with process(world(functions)) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(mark="m")
        await functions.called.wait()
        await jackline.control(run_id, Abort(mode=mode, skip_routes=False))
        if mode is AbortMode.GRACEFUL:
            functions.released.set()
        log = await jackline.follow(run_id)
    assert end_of(log).phase is Phase.ABORTED
    assert len(consulted(log)) == (mode is AbortMode.GRACEFUL)


async def test_a_question_that_a_drain_cut_off_is_asked_again_by_the_next_worker() -> None:
    functions = says(YES, YES, held=True)
    scene = world(functions)
    async with process(scene, drain_grace_ms=50) as jackline, asyncio.timeout(20):
        run_id = await jackline.start(mark="m")
        await functions.called.wait()
    functions.released.set()
    async with process(scene, worker="worker-2") as jackline, asyncio.timeout(20):
        log = await jackline.follow(run_id)
    assert len(functions.asked) == 2
    assert [fact.answer for fact in consulted(log)] == [ConsultAnswer.YES]
    assert end_of(log).stop_leaf == WHO


async def test_a_server_without_functions_answers_nothing() -> None:
    plain = world(says())
    without = World(store=plain.store, models=plain.models, toolbox=plain.toolbox, plans=plain.plans)
    async with process(without) as jackline:
        log = await run(jackline)
    assert {fact.answer for fact in consulted(log)} == {ConsultAnswer.FAILED}
