"""What people write in commands is masked before any of it is stored, told to a model or given to a tool."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import (
    Abort,
    Action,
    Answer,
    Command,
    EditAndApprove,
    Pause,
    Reject,
    Resume,
    Steer,
    SubmitToolResult,
)
from jackline_server.core.facts import AbortMode, InterruptRaised, Phase, RunFinished, ToolAsk
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import GatesPlan, MaskPlan, Pii
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect, HumanAction, Plan, ToolStep
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.written_words import WrittenWords
from jackline_server.runtime.use_cases import (
    Caller,
    ControlRun,
    Disposition,
    OnBusy,
    Receipt,
    Stage,
    ThreadRequest,
)
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, Tool
from jackline_server.testing.harness import Process, World, process, start_request
from jackline_server.tools import human
from tests.runtime.families import sealed

MAIL, ACCOUNT, CARD = "ann@example.org", "NL91ABNA0417164300", "4111111111111111"
"""What is masked of what is said to a run, of arguments, and of results."""
ALL = f"{MAIL}, {ACCOUNT}, {CARD}"
TOP = GatesPlan(mask_input=MaskPlan(kinds=frozenset({Pii.EMAIL})))
GATES = GatesPlan(
    mask_arguments=MaskPlan(kinds=frozenset({Pii.IBAN})), mask_results=MaskPlan(kinds=frozenset({Pii.CARD}))
)
SOMEBODY = Caller(tenant=DEFAULT_TENANT, principal="somebody else")

FORM = '{"type":"object","properties":{"mail":{"type":"string","pattern":"@"}},"required":["mail"]}'
HUMAN = plans.tool("act", kind="human", input={}, action=HumanAction(question="Who are you?"))
FORMAL = replace(HUMAN, action=HumanAction(question="Who are you?", schema_json=FORM))
WRITES = plans.tool("act", Effect.WRITE, input={})
PAYS = plans.tool("act", Effect.DESTRUCTIVE, input={"shop": "/input/shop"})


def asks(invocation: Invocation) -> ToolResult:
    """A tool that asks a person, and returns what it was told."""
    if invocation.reply is None:
        return ToolResult(ending=ToolEnding.ASKING, ask=ToolAsk(text="Who?", schema_json='{"type":"string"}'))
    return ToolResult(ending=ToolEnding.COMPLETED, output_json='"thanks"')


def asks_only(invocation: Invocation) -> ToolResult:
    action = invocation.step.action
    assert isinstance(action, HumanAction)
    return human.asked(action, invocation)


def pays(invocation: Invocation) -> ToolResult:
    del invocation
    return ToolResult(ending=ToolEnding.COMPLETED, output_json='"paid"')


def is_lost(invocation: Invocation) -> ToolResult:
    del invocation
    return ToolResult(ending=ToolEnding.UNCERTAIN, error="cut off")


def acts_once(request: ModelRequest) -> ScriptedReply:
    is_first = not any(isinstance(message, ToolMessage) for message in request.messages)
    return ScriptedReply(calls=(("", "act", "{}"),)) if is_first else ScriptedReply(text="done")


def masked_plan(step: ToolStep, gates: GatesPlan = GATES) -> Plan:
    entry = plans.entry(
        "act", approval=plans.approval() if step is PAYS else None, bind={"desk": "/input/desk"}
    )
    agent = plans.agent(tools=(entry,), gates=gates)
    return sealed(change(plans.plan_of(agent, step), gates=TOP))


@dataclass(frozen=True)
class Scene:
    """A run that waits for a person: what it asked, and everybody who is told anything."""

    jackline: Process
    run_id: str
    asked: InterruptRaised
    models: FakeModels
    tools: FakeTools

    async def send(
        self, action: Action, *, reason: str = "", command_id: str = "said", wait: Stage = Stage.SETTLED
    ) -> Receipt:
        return await self.jackline.runtime.runs.control(
            ControlRun(
                caller=SOMEBODY,
                run_id=self.run_id,
                command_id=command_id,
                reason=reason,
                expect_phase=None,
                expect_sequence=None,
                action=action,
                wait=wait,
                wait_ms=10_000,
            )
        )

    async def end(self) -> RunFinished:
        fact = (await self.jackline.follow(self.run_id))[-1].fact
        assert isinstance(fact, RunFinished)
        return fact

    async def known(self) -> str:
        """All that is stored of the run, and all that its model and its tools were told."""
        store = self.jackline.world.store
        events = await store.journal.read(self.run_id, after_sequence=1, limit=1_000)
        command = await store.commands.get(self.run_id, "said")
        stored = b"".join(event.meta + event.content for event in events)
        told = repr([(request.messages, request.tools) for request in self.models.requests])
        given = repr([(call.arguments, call.reply) for call in self.tools.ledger])
        return f"{stored + (b'' if command is None else command.payload)!r}{told}{given}"


async def question_of(jackline: Process, run_id: str) -> InterruptRaised:
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async with aclosing(frames):  # pyright: ignore[reportArgumentType] - it is a generator
        async for frame in frames:
            for event in frame.events:
                fact = ProtoCodec().decode(event).fact
                if isinstance(fact, InterruptRaised):
                    return fact
    raise AssertionError("the run asked nothing")


async def waiting(jackline: Process, **given: str) -> Scene:
    return await scene_of(jackline, await jackline.start(**given))


async def scene_of(jackline: Process, run_id: str) -> Scene:
    models, tools = jackline.world.models, jackline.world.toolbox
    assert isinstance(models, FakeModels)
    assert isinstance(tools, FakeTools)
    return Scene(
        jackline=jackline,
        run_id=run_id,
        asked=await question_of(jackline, run_id),
        models=models,
        tools=tools,
    )


def world(step: ToolStep, tool: Tool, gates: GatesPlan = GATES) -> World:
    return World(
        store=memory_store(),
        models=FakeModels(answering=acts_once),
        toolbox=FakeTools(tools={"act": tool}),
        plans={"plan": masked_plan(step, gates)},
        masks=PiiMasks(),
    )


def masked(kinds: Sequence[str]) -> str:
    """The three values as they are stored where these are masked."""
    marks = {"input": (MAIL, "[email]"), "arguments": (ACCOUNT, "[iban]"), "results": (CARD, "[card]")}
    return ", ".join(mark if kind in kinds else value for kind, (value, mark) in marks.items())


# --- which mask holds for which words ------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "tool", "action", "kinds"),
    [
        (
            HUMAN,
            asks_only,
            Answer(interrupt_id="question-1-1", option="accept", text=ALL),
            ("input", "results"),
        ),
        (
            HUMAN,
            asks_only,
            Answer(interrupt_id="question-1-1", option="decline", text=ALL),
            ("input", "results"),
        ),
        (
            plans.tool("act", input={}),
            asks,
            Answer(interrupt_id="question-1-1", option="accept", text=ALL),
            ("input", "arguments"),
        ),
        (PAYS, pays, Reject(interrupt_id="approval-1-1", text=ALL), ("input", "results")),
        (
            WRITES,
            is_lost,
            SubmitToolResult(call_id="call_1", output_json=f'{{"of":"{ALL}"}}', error=""),
            ("results",),
        ),
        (WRITES, is_lost, SubmitToolResult(call_id="call_1", output_json=None, error=ALL), ("results",)),
        (WRITES, is_lost, Answer(interrupt_id="unknown-1", option="failed", text=ALL), ("input", "results")),
    ],
)
async def test_words_are_masked_as_what_they_become_before_they_are_stored(
    step: ToolStep, tool: Tool, action: Action, kinds: Sequence[str]
) -> None:
    async with process(world(step, tool)) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline)
        if isinstance(action, Answer):
            action = replace(action, interrupt_id=scene.asked.interrupt_id)
        receipt = await scene.send(action)
        end = await scene.end()
        known = await scene.known()
    assert (receipt.applied, end.phase) == (True, Phase.SUCCEEDED)
    assert masked(kinds) in known
    assert ALL not in known
    hidden = {"input": MAIL, "arguments": ACCOUNT, "results": CARD}
    assert {kind for kind, value in hidden.items() if value not in known} == set(kinds)


@pytest.mark.parametrize(
    "action", [Pause(), Steer(text="go on"), Resume(), Abort(mode=AbortMode.NOW, skip_routes=True)]
)
async def test_the_reason_of_any_command_and_guidance_are_masked_as_what_is_said_to_the_run(
    action: Action,
) -> None:
    async with process(world(HUMAN, asks_only)) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline)
        if isinstance(action, Steer):
            action = Steer(text=f"ask {MAIL}")
        await scene.send(action, reason=f"for {MAIL}", wait=Stage.ACCEPTED)
        if not isinstance(action, Abort):
            await scene.send(Resume(), command_id="on")
            await scene.send(answer(scene.asked, "nobody"), command_id="answer")
        await scene.end()
        known = await scene.known()
    assert MAIL not in known
    assert "for [email]" in known
    assert ("ask [email]" in known) is isinstance(action, Steer)


def answer(asked: InterruptRaised, text: str) -> Answer:
    return Answer(interrupt_id=asked.interrupt_id, option="accept", text=text)


def edit(asked: InterruptRaised, arguments_json: str) -> EditAndApprove:
    return EditAndApprove(interrupt_id=asked.interrupt_id, digest=asked.digest, arguments_json=arguments_json)


async def test_of_edited_arguments_that_is_masked_which_a_person_wrote() -> None:
    async with process(world(PAYS, pays)) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline, shop=ACCOUNT, desk=ACCOUNT)
        written = f'{{"shop":"{ACCOUNT}","desk":"{ACCOUNT}","to":"{ACCOUNT}","for":"{MAIL}"}}'
        first = await scene.send(edit(scene.asked, written))
        again = await scene.send(edit(scene.asked, written))
        await scene.end()
    (call,) = scene.tools.ledger
    assert dict(call.arguments) == {"to": "[iban]", "for": MAIL}
    assert call.values == {"shop": ACCOUNT, "desk": ACCOUNT, "to": "[iban]", "for": MAIL}
    assert (first.applied, again.applied, again.repeated) == (True, True, True)


# --- what a command is, once it is masked --------------------------------------------------------


async def test_a_masked_command_that_is_sent_again_is_the_same_and_another_one_is_not() -> None:
    async with process(world(HUMAN, asks_only)) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline)
        first = await scene.send(answer(scene.asked, ALL))
        again = await scene.send(answer(scene.asked, ALL))
        with pytest.raises(Refused) as other:
            await scene.send(answer(scene.asked, ALL.replace("ann", "bob")))
        with pytest.raises(Refused) as marks:
            await scene.send(answer(scene.asked, masked(("input", "results"))))
    assert (first.applied, again.applied, again.repeated) == (True, True, True)
    assert {other.value.reason, marks.value.reason} == {Reason.COMMAND_ID_REUSED}


async def test_an_answer_that_fits_its_form_no_more_once_it_is_masked_is_refused() -> None:
    async with process(world(FORMAL, asks_only)) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline)
        with pytest.raises(Refused) as refused:
            await scene.send(answer(scene.asked, f'{{"mail":"{MAIL}"}}'))
        assert MAIL not in await scene.known()
        receipt = await scene.send(answer(scene.asked, '{"mail":"@home"}'), command_id="again")
        await scene.end()
    (violation,) = refused.value.violations
    assert (refused.value.reason, violation.field) == (Reason.INVALID_ANSWER, "answer.text")
    assert "masked" in violation.description
    assert receipt.applied


async def test_that_words_are_masked_is_said_only_of_words_that_are() -> None:
    async with process(world(FORMAL, asks_only)) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline)
        with pytest.raises(Refused) as refused:
            await scene.send(answer(scene.asked, '{"mail":"none"}'), reason=f"for {MAIL}")
    assert "masked" not in refused.value.violations[0].description


async def test_a_plan_without_masks_leaves_words_as_they_are() -> None:
    here = world(HUMAN, asks_only, GatesPlan())
    plan = sealed(change(here.plans["plan"], gates=None))
    async with process(replace(here, plans={"plan": plan})) as jackline, asyncio.timeout(20):
        scene = await waiting(jackline)
        await scene.send(answer(scene.asked, ALL), reason=MAIL)
        await scene.end()
        assert ALL in await scene.known()


async def test_an_input_that_becomes_guidance_is_masked_as_the_run_says_that_is_told_it() -> None:
    here = world(HUMAN, asks_only)
    agent = plans.agent(tools=(plans.entry("act"),), thread=True)
    open_plan = sealed(plans.plan_of(agent, HUMAN))
    masks_plan = sealed(change(open_plan, gates=TOP))
    talk = ThreadRequest(thread_id="talk", on_busy=OnBusy.STEER)
    here = replace(here, plans={"masks": masks_plan, "open": open_plan})
    async with process(here) as jackline, asyncio.timeout(20):
        first, then = (change(start_request(plan, message=MAIL), thread=talk) for plan in ("masks", "open"))
        run_id = (await jackline.runtime.runs.start(first)).row.run_id
        scene = await scene_of(jackline, run_id)
        started = await jackline.runtime.runs.start(then)
        (waits,) = await here.store.commands.pending(run_id)
        await scene.send(answer(scene.asked, "nobody"), command_id="answer")
        await scene.end()
        known = await scene.known()
    assert (started.disposition, started.row.run_id) == (Disposition.STEERED, run_id)
    assert MAIL.encode() not in waits.payload
    assert MAIL not in known
    assert "[email]" in known


# --- a plan of a newer version -------------------------------------------------------------------


class NewerPlans:
    """Plans that can't be read here."""

    async def plan(self, row: RunRow) -> Plan:
        raise Refused(Reason.DATA_VERSION_NEWER, "of a newer version", metadata={"run_id": row.run_id})


async def test_an_abort_whose_reason_can_not_be_masked_is_taken_without_it_and_guidance_is_not() -> None:
    words = WrittenWords(masks=PiiMasks(), plans=NewerPlans(), codec=ProtoCodec())
    async with process(world(HUMAN, asks_only)) as jackline, asyncio.timeout(20):
        row = await jackline.world.store.runs.get(DEFAULT_TENANT, await jackline.start())
    assert row is not None
    abort = command(Abort(mode=AbortMode.NOW, skip_routes=False))
    kept = await words.kept(row, abort, None)
    assert (kept.action, kept.reason) == (abort.action, "")
    with pytest.raises(Refused) as refused:
        await words.kept(row, command(Steer(text="go on")), None)
    assert refused.value.reason is Reason.DATA_VERSION_NEWER


def command(action: Action) -> Command:
    return Command(
        command_id="said",
        ordinal=0,
        principal="somebody",
        reason=MAIL,
        expect_phase=None,
        expect_sequence=None,
        action=action,
    )
