"""How far a tool call is reaches whoever watches: the newest, a few a second, and none of it is stored."""

import asyncio
import hashlib
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Abort
from jackline_server.core.facts import AbortMode, ToolCallFinished, ToolCallStarted
from jackline_server.core.gate_plans import GatesPlan, MaskPlan, Pii
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import ToolPolicy
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.driving.reporting import SHOWN_CHARS
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tool_reports import MOST_TEXT, Report, ToolProgress, ToolReport
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.runtime.use_cases import Frame
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, ScriptedReply
from jackline_server.testing.harness import Process, World, process

SECONDS = 20
CALLS = ScriptedReply(calls=(("", "look", "{}"),))
DONE = ToolResult(ending=ToolEnding.COMPLETED, output_json='"found"')
PASSING = ToolResult(ending=ToolEnding.FAILED, error="busy", may_pass=True)
SECRET, CARD = "ann@example.org", 4_111_111_111_111_111
MASKS = GatesPlan(mask_results=MaskPlan(kinds=frozenset({Pii.EMAIL, Pii.CARD})))


class CountedMasks(PiiMasks):
    """The real ones, and how often they were asked."""

    def __init__(self) -> None:
        self.looked = 0

    def text(self, text: str, plan: MaskPlan) -> str:
        self.looked += 1
        return super().text(text, plan)


_Begun = tuple[Report, "asyncio.Future[ToolResult]"]


@dataclass(slots=True)
class Hands:
    """A toolbox whose one tool does what a test says, call by call."""

    begun: "asyncio.Queue[_Begun]" = field(default_factory=asyncio.Queue[_Begun])

    async def call(self, invocation: Invocation) -> ToolResult:
        assert invocation.report is not None
        ended: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait((invocation.report, ended))
        return await ended


@dataclass(slots=True, kw_only=True)
class Scene:
    """A run whose model calls the tool once, and the call that is under way."""

    jackline: Process
    run_id: str
    hands: Hands
    report: Report
    ended: "asyncio.Future[ToolResult]"
    masks: CountedMasks

    def watch(self, *, deltas: bool = False, progress: bool = True) -> AsyncGenerator[Frame, None]:
        return self.jackline.runtime.runs.watch(  # pyright: ignore[reportReturnType] - it is a generator
            DEFAULT_TENANT, self.run_id, after_sequence=0, deltas=deltas, progress=progress
        )

    async def stored(self) -> bytes:
        events = await self.jackline.world.store.journal.read(self.run_id, after_sequence=0, limit=1_000)
        return b"".join(event.meta + event.content for event in events)


@asynccontextmanager
async def under_way(gates: GatesPlan | None = None) -> AsyncGenerator[Scene]:
    def answer(request: ModelRequest) -> ScriptedReply:
        done = any(isinstance(message, ToolMessage) for message in request.messages)
        return ScriptedReply(text="Found.") if done else CALLS

    entry = plans.entry("look", policy=ToolPolicy(retries=1, retry_base_ms=1, retry_cap_ms=1))
    plan = plans.agent_plan(plans.tool("look"), tools=(entry,), gates=gates or GatesPlan())
    plan = replace(plan, gates=GatesPlan(), digest="")
    plan = replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())
    hands, masks = Hands(), CountedMasks()
    world = World(
        store=memory_store(),
        models=FakeModels(answering=answer),
        toolbox=hands,
        plans={"plan": plan},
        masks=masks,
    )
    async with process(world) as jackline, asyncio.timeout(SECONDS):
        run_id = await jackline.start()
        report, ended = await hands.begun.get()
        yield Scene(jackline=jackline, run_id=run_id, hands=hands, report=report, ended=ended, masks=masks)
        if not ended.done():
            ended.set_result(DONE)
            await jackline.follow(run_id)


async def next_shown(frames: AsyncGenerator[Frame, None]) -> ToolProgress:
    """The next that is shown, which is alone in its frame."""
    async for frame in frames:
        if frame.deltas:
            (delta,) = frame.deltas
            assert delta.progress is not None
            assert (delta.attempt_id, delta.step_id, delta.iteration) == (0, plans.AGENT, 1)
            return delta.progress
    raise AssertionError("the run ended, and nothing was shown")


async def rest(frames: AsyncGenerator[Frame, None]) -> list[ToolProgress]:
    """All that is shown from here to the end of the run."""
    return [delta.progress async for frame in frames for delta in frame.deltas if delta.progress is not None]


@pytest.mark.parametrize("how", [{"progress": True}, {"deltas": True, "progress": False}])
async def test_a_watcher_is_shown_how_far_a_call_is(how: dict[str, bool]) -> None:
    async with under_way() as here, aclosing(here.watch(**how)) as frames:
        here.report(ToolReport(text="reading page 3", done=3, total=10))
        shown = await next_shown(frames)
        started = [one.fact for one in await here.jackline.log(here.run_id)]
        (call,) = [fact for fact in started if isinstance(fact, ToolCallStarted)]
        assert (shown.text, shown.done, shown.total) == ("reading page 3", 3, 10)
        assert (shown.call_id, shown.tool, shown.attempt) == (call.call_id, "look", 1)
        here.report(ToolReport(text="reading page 4", done=4, total=10))
        assert (await next_shown(frames)).done == 4


async def test_who_did_not_ask_for_it_is_shown_nothing() -> None:
    async with under_way() as here, aclosing(here.watch(progress=False)) as frames:
        here.report(ToolReport(text="reading"))
        here.ended.set_result(DONE)
        assert await rest(frames) == []


async def test_nothing_of_it_is_stored() -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="reading page 3", done=3, total=10))
        await next_shown(frames)
        here.ended.set_result(DONE)
        await rest(frames)
        assert b"reading page" not in await here.stored()


async def test_who_comes_late_is_shown_the_newest_once() -> None:
    async with under_way() as here:
        here.report(ToolReport(text="reading page 3", done=3))
        async with aclosing(here.watch()) as frames:
            assert (await next_shown(frames)).done == 3
            here.ended.set_result(DONE)
            assert await rest(frames) == []


async def test_of_a_flood_a_watcher_is_shown_the_first_and_the_newest() -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="0", done=0))
        assert (await next_shown(frames)).done == 0
        for number in range(1, 100_001):
            here.report(ToolReport(text=str(number), done=number))
        assert (await next_shown(frames)).done == 100_000
        here.ended.set_result(DONE)
        assert await rest(frames) == []


async def test_of_a_flood_it_is_looked_at_what_is_shown_alone() -> None:
    async with under_way(MASKS) as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="begun"))
        await next_shown(frames)
        for number in range(10_000):
            here.report(ToolReport(text=str(number)))
        here.ended.set_result(DONE)
        assert await rest(frames) == []
        assert 0 < here.masks.looked < 20


async def test_a_call_that_is_over_says_nothing_any_more() -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="1"))
        await next_shown(frames)
        here.report(ToolReport(text="held back until its time"))
        here.ended.set_result(DONE)
        async for frame in frames:
            here.report(ToolReport(text="too late"))
            assert not frame.deltas
        late = here.watch()
        assert await rest(late) == []


async def test_an_earlier_attempt_says_nothing_any_more() -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.ended.set_result(PASSING)
        second, ended = await here.hands.begun.get()
        second(ToolReport(text="second"))
        shown = await next_shown(frames)
        assert (shown.text, shown.attempt) == ("second", 2)
        here.report(ToolReport(text="first, late"))
        second(ToolReport(text="second, going on"))
        assert (await next_shown(frames)).text == "second, going on"
        ended.set_result(DONE)
        assert await rest(frames) == []


async def test_a_run_that_is_aborted_shows_nothing_more_of_its_calls() -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="1"))
        await next_shown(frames)
        await here.jackline.control(here.run_id, Abort(mode=AbortMode.NOW, skip_routes=False))
        await here.jackline.follow(here.run_id)
        here.report(ToolReport(text="too late"))
        assert await rest(frames) == []
        assert here.ended.cancelled()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("page 3\nof\t10\r\n", "page 3 of 10"),
        ("\x1b[2Jgone\x07\u202e", "\ufffd[2Jgone\ufffd\ufffd"),
        ("half \ud800", "half \ufffd\ufffd\ufffd"),
        ("x" * SHOWN_CHARS, "x" * SHOWN_CHARS),
        ("x" * 100_000, "x" * (SHOWN_CHARS - 1) + "…"),
    ],
)
async def test_what_a_tool_says_is_short_and_on_one_line(said: str, text: str) -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text=said))
        assert (await next_shown(frames)).text == text


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
async def test_what_is_no_number_is_left_out(odd: float) -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="odd", done=odd, total=odd))
        shown = await next_shown(frames)
        assert (shown.text, shown.done, shown.total) == ("odd", None, None)


@pytest.mark.parametrize("hidden", [True, False])
async def test_personal_data_is_masked_in_it(*, hidden: bool) -> None:
    async with under_way(MASKS if hidden else None) as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text=f"writing to {SECRET}", done=CARD, total=10))
        shown = await next_shown(frames)
        assert (SECRET not in shown.text) is hidden
        assert shown.text.startswith("writing to ")
        assert (shown.done, shown.total) == (None if hidden else CARD, 10)


async def test_of_a_text_that_was_cut_nothing_is_shown_where_it_would_be_masked() -> None:
    cut = (SECRET + " ") * MOST_TEXT
    async with under_way(MASKS) as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text=cut[: MOST_TEXT + 1], done=1))
        shown = await next_shown(frames)
        assert (shown.text, shown.done) == ("", 1)


async def test_the_end_of_a_call_comes_after_all_that_is_shown_of_it() -> None:
    async with under_way() as here, aclosing(here.watch()) as frames:
        here.report(ToolReport(text="1"))
        here.ended.set_result(DONE)
        over = False
        async for frame in frames:
            facts = [ProtoCodec().decode(event).fact for event in frame.events]
            over = over or any(isinstance(fact, ToolCallFinished) for fact in facts)
            assert not (over and frame.deltas)
        assert over
