"""Personal data is masked before any of it is stored or shown, wherever a run meets it."""

import asyncio
import hashlib
from contextlib import aclosing
from dataclasses import replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import FailureClass, Usage
from jackline_server.core.gate_plans import GatesPlan, MaskPlan, Pii
from jackline_server.core.messages import AssistantMessage, ToolMessage
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.ports.models import ModelFailure, ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process

SECRET = "ann@example.org"
EMAILS = MaskPlan(kinds=frozenset({Pii.EMAIL}))
CALLS = ScriptedReply(
    text=f"I write to {SECRET}.", reasoning=f"Who is {SECRET}?", calls=(("", "look", f'{{"of":"{SECRET}"}}'),)
)


def world(*results: ToolResult, wait_ms: int = 0, gates: GatesPlan) -> World:
    """A model that calls `look` once, and then says the address."""
    plan = plans.agent_plan(plans.tool("look"), gates=gates)
    plan = replace(plan, gates=GatesPlan(), digest="")
    plan = replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())
    left = list(results)

    def answer(request: ModelRequest) -> ScriptedReply:
        done = any(isinstance(message, ToolMessage) for message in request.messages)
        return ScriptedReply(text=f"Written to {SECRET}.") if done else replace(CALLS, wait_ms=wait_ms)

    tools = FakeTools(tools={"look": (lambda _: left.pop(0)) if left else returns("1")})
    return World(
        store=memory_store(),
        models=FakeModels(answering=answer),
        toolbox=tools,
        plans={"plan": plan},
        masks=PiiMasks(),
    )


async def stored(jackline: Process, run_id: str) -> bytes:
    events = await jackline.world.store.journal.read(run_id, after_sequence=0, limit=1_000)
    return b"".join(event.meta + event.content for event in events)


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(ending=ToolEnding.COMPLETED, output_json=f'{{"owner":"{SECRET}"}}'),
        ToolResult(ending=ToolEnding.FAILED, error=f"nobody is called {SECRET}"),
    ],
)
async def test_a_short_result_is_masked_before_it_is_stored(result: ToolResult) -> None:
    gates = GatesPlan(mask_replies=EMAILS, mask_arguments=EMAILS, mask_results=EMAILS)
    async with process(world(result, gates=gates)) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        await jackline.follow(run_id)
        log = await stored(jackline, run_id)
    assert SECRET.encode() not in log
    assert log.count(b"[email]") >= 4


async def test_a_tool_and_a_later_prompt_have_the_masks_in_place_of_what_was_said() -> None:
    here = world(gates=GatesPlan(mask_replies=EMAILS, mask_arguments=EMAILS))
    async with process(here) as jackline, asyncio.timeout(5):
        await jackline.follow(await jackline.start())
    assert isinstance(here.toolbox, FakeTools)
    assert isinstance(here.models, FakeModels)
    assert [one.arguments for one in here.toolbox.ledger] == [{"of": "[email]"}]
    (said,) = [one for one in here.models.requests[-1].messages if isinstance(one, AssistantMessage)]
    assert SECRET not in repr(said)
    assert said.text == "I write to [email]."


async def shown(jackline: Process, run_id: str) -> str:
    """All that a watcher of live pieces is shown."""
    pieces: list[str] = []
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=True)
    async with aclosing(frames):  # pyright: ignore[reportArgumentType] - it is a generator
        async for frame in frames:
            pieces += [f"{one.text}{one.reasoning}{one.fragment}" for one in frame.deltas]
    return "".join(pieces)


@pytest.mark.parametrize(
    ("gates", "hidden"),
    [
        (GatesPlan(mask_replies=EMAILS), True),
        (GatesPlan(mask_arguments=EMAILS), True),
        (GatesPlan(mask_results=EMAILS), False),
    ],
)
async def test_nothing_of_a_reply_is_shown_before_it_is_masked(gates: GatesPlan, *, hidden: bool) -> None:
    here = world(gates=gates, wait_ms=50)
    async with process(here) as jackline, asyncio.timeout(5):
        pieces = await shown(jackline, await jackline.start())
    assert (SECRET not in pieces) is hidden


@pytest.mark.parametrize(("gates", "hidden"), [(GatesPlan(mask_replies=EMAILS), True), (GatesPlan(), False)])
async def test_a_reply_that_breaks_off_is_not_kept_where_it_would_have_to_be_masked(
    gates: GatesPlan, *, hidden: bool
) -> None:
    broken = ModelFailure(FailureClass.BAD_REQUEST, "no", usage=Usage())
    here = world(gates=gates)
    here = replace(here, models=FakeModels(answering=lambda _: replace(CALLS, breaks_off=broken)))
    async with process(here) as jackline, asyncio.timeout(5):
        run_id = await jackline.start()
        await jackline.follow(run_id)
        log = await stored(jackline, run_id)
    assert (SECRET.encode() not in log) is hidden
