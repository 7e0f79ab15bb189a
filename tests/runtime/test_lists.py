"""What a list of runs shows, while a run goes on and when it has ended."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from jackline.v1 import run_pb2
from jackline_server.core.commands import Abort, Steer
from jackline_server.core.facts import AbortMode, CommandApplied, CommandRejected, RunFinished, StepFinished
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect
from jackline_server.runtime.driving.live_run import SUMMARY_MS
from jackline_server.runtime.ports.journal import Append, Created, Journal, NewRun, StoredEvent
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import Process, World, process
from jackline_server.testing.plans import agent_plan, entry, step_bounds, tool


class NotedJournal:
    """A journal that keeps its appends, and does something right before the first one that ends a run."""

    def __init__(self, inner: Journal) -> None:
        self._inner = inner
        self.appends: list[Append] = []
        self.before_end: Callable[[str], Awaitable[object]] | None = None

    async def create(self, new: NewRun) -> Created:
        return await self._inner.create(new)

    async def append(self, append: Append) -> None:
        if append.finishing and self.before_end is not None:
            act, self.before_end = self.before_end, None
            await act(append.run_id)
        await self._inner.append(append)
        self.appends.append(append)

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        return await self._inner.read(run_id, after_sequence=after_sequence, limit=limit)

    async def plan(self, digest: str) -> bytes:
        return await self._inner.plan(digest)


def asks(times: int) -> Callable[[ModelRequest], ScriptedReply]:
    """A model that calls the tool so many times, then answers."""

    def answering(request: ModelRequest) -> ScriptedReply:
        done = sum(isinstance(message, ToolMessage) for message in request.messages)
        if done >= times:
            return ScriptedReply(text="done")
        return ScriptedReply(calls=((f"call{done}", "change", "{}"),))

    return answering


def world(times: int, *, tool_ms: int = 0) -> tuple[World, FakeTools, NotedJournal]:
    tools = FakeTools(tools={"change": returns("{}")}, wait_ms=lambda _: tool_ms)
    store = memory_store()
    journal = NotedJournal(store.journal)
    plan = agent_plan(
        tool("change", Effect.WRITE),
        tools=(entry("change"),),
        bounds=step_bounds(max_iterations=60, model_requests=60, tool_calls=60, token_budget=10**9),
    )
    made = World(
        store=replace(store, journal=journal),
        models=FakeModels(answering=asks(times)),
        toolbox=tools,
        plans={"plan": plan},
    )
    return made, tools, journal


async def listed(jackline: Process, run_id: str) -> run_pb2.Run:
    """The run as a list shows it."""
    page = await jackline.runtime.runs.page(RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=100))
    return next(run_pb2.Run.FromString(row.summary) for row in page.rows if row.run_id == run_id)


async def test_a_list_shows_what_a_run_driven_here_has_used_by_now() -> None:
    """Also during a call that takes hours, when nothing is written for a long time."""
    made, tools, _ = world(1, tool_ms=1_000_000)
    async with process(made) as jackline, asyncio.timeout(20):
        run_id = await jackline.start()
        await tools.called.wait()
        shown = await listed(jackline, run_id)
        state = (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state
        assert shown.usage.prompt_tokens == state.usage.prompt_tokens > 0
        assert shown.ledger.tool_calls == state.ledger.tool_calls == 1
        assert shown.head_sequence == state.sequence


async def test_a_command_that_comes_right_before_the_end_does_not_keep_the_end_from_lists() -> None:
    made, _, journal = world(0)
    async with process(made) as jackline, asyncio.timeout(60):
        for _ in range(40):

            async def steer(run_id: str) -> None:
                await jackline.control(run_id, Steer(text="late"))

            journal.before_end = steer
            run_id = await jackline.start()
            await jackline.follow(run_id)
            shown = await listed(jackline, run_id)
            assert shown.state == run_pb2.RUN_STATE_SUCCEEDED
            assert shown.HasField("finished_at")


async def test_a_turn_writes_nothing_for_lists() -> None:
    """Only the start, the beginning and the end of the step, and the end of the run do, within a second."""
    made, _, journal = world(40)
    async with process(made) as jackline, asyncio.timeout(60):
        loop = asyncio.get_running_loop()
        since = loop.time()
        await jackline.follow(await jackline.start())
        seconds = loop.time() - since
    written = sum(append.summary is not None for append in journal.appends)
    assert len(journal.appends) > 80
    assert written <= 4 + seconds * 1000 / SUMMARY_MS


async def test_guidance_is_answered_in_order_around_an_abort() -> None:
    """Held ones come first: what an abort settles for a later one it has settled for those before it."""
    made, tools, _ = world(1, tool_ms=700)
    async with process(made, max_active_runs=1) as jackline, asyncio.timeout(30):
        first = await jackline.start()
        await tools.called.wait()
        run_id = await jackline.start()  # waits for a place: no step has begun
        await jackline.control(run_id, Steer(text="one"), command_id="one")
        await jackline.control(run_id, Abort(mode=AbortMode.GRACEFUL, skip_routes=False), command_id="abort")
        await jackline.control(run_id, Steer(text="two"), command_id="two")
        await jackline.control(first, Abort(mode=AbortMode.NOW, skip_routes=False))
        seen = await jackline.follow(run_id)
    order = [
        record.fact.command_id for record in seen if isinstance(record.fact, CommandApplied | CommandRejected)
    ]
    assert [command for command in order if command != "abort"] == ["one", "two"]
    assert isinstance(seen[-1].fact, RunFinished)
    assert not [record for record in seen if isinstance(record.fact, StepFinished)]
