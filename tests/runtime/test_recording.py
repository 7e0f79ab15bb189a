"""What is in the log, and when: before a call starts, beside calls that run, and only what was added."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import ToolCallFinished, ToolCallStarted
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.journal import Append, Created, Journal, NewRun, StoredEvent
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.tools import Invocation, Toolbox, ToolEnding, ToolResult
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import World, process
from jackline_server.testing.plans import agent_plan, entry, step_bounds, tool

PATIENCE_S = 20
RESULT = '"' + "x" * 1_000 + '"'


class HeardJournal:
    """A journal that remembers which calls it holds the start and the end of."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._grown = asyncio.Event()
        self.started = set[str]()
        self.finished = set[str]()
        self.bytes = 0

    async def create(self, new: NewRun) -> Created:
        return await self._journal.create(new)

    async def append(self, append: Append) -> None:
        await self._journal.append(append)
        for event in append.events:
            self.bytes += len(event.meta) + len(event.content)
            match ProtoCodec().decode(event).fact:
                case ToolCallStarted(call_key=key):
                    self.started.add(key)
                case ToolCallFinished(tool=name):
                    self.finished.add(name)
                case _:
                    continue
        self._grown.set()

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        return await self._journal.read(run_id, after_sequence=after_sequence, limit=limit)

    async def plan(self, digest: str) -> bytes:
        return await self._journal.plan(digest)

    async def until_finished(self, name: str) -> None:
        """Wait until the end of a call of that tool is durable."""
        while name not in self.finished:
            self._grown.clear()
            await self._grown.wait()


@dataclass(slots=True, kw_only=True)
class WatchfulTools:
    """Tools that look at the journal when they are called. `slow` ends once the end of `quick` is durable."""

    journal: HeardJournal
    unannounced: list[str] = field(default_factory=list[str])

    async def call(self, invocation: Invocation) -> ToolResult:
        """See Toolbox."""
        if invocation.call_key not in self.journal.started:
            self.unannounced.append(invocation.call_key)
        if invocation.step.step_id == "slow":
            await self.journal.until_finished("quick")
        return ToolResult(ending=ToolEnding.COMPLETED, output_json="1")


def both_then_answer(request: ModelRequest) -> ScriptedReply:
    if any(isinstance(message, ToolMessage) for message in request.messages):
        return ScriptedReply(text="done")
    return ScriptedReply(calls=(("a", "slow", "{}"), ("b", "quick", "{}")))


@dataclass(slots=True, kw_only=True)
class Scene:
    """A store whose journal is heard, and the process's world around it."""

    journal: HeardJournal
    world: World


def scene(models: FakeModels, toolbox: Toolbox | None = None, *, turns: int = 8) -> Scene:
    """Without a toolbox the tools are those that look at the journal."""
    plan = agent_plan(
        tool("quick", Effect.READ),
        tool("slow", Effect.READ),
        tools=(entry("quick"), entry("slow")),
        bounds=step_bounds(max_iterations=turns, model_requests=2 * turns, tool_calls=2 * turns),
    )
    store = memory_store()
    journal = HeardJournal(store.journal)
    world = World(
        store=replace(store, journal=journal),
        models=models,
        toolbox=toolbox or WatchfulTools(journal=journal),
        plans={"plan": plan},
    )
    return Scene(journal=journal, world=world)


async def run(world: World) -> None:
    async with process(world) as jackline, asyncio.timeout(PATIENCE_S):
        await jackline.follow(await jackline.start())


async def test_a_result_is_durable_while_its_siblings_still_run() -> None:
    here = scene(FakeModels(answering=both_then_answer))
    await run(here.world)
    assert here.journal.finished == {"quick", "slow"}


async def test_no_call_starts_that_is_not_in_the_log() -> None:
    here = scene(FakeModels(answering=both_then_answer))
    await run(here.world)
    tools = here.world.toolbox
    assert isinstance(tools, WatchfulTools)
    assert (len(here.journal.started), tools.unannounced) == (2, [])


async def logged_bytes(turns: int) -> int:
    """What the log of a run comes to that calls a tool in each turn but the last."""

    def answering(request: ModelRequest) -> ScriptedReply:
        calls = sum(isinstance(message, ToolMessage) for message in request.messages)
        if calls + 1 == turns:
            return ScriptedReply(text="done")
        return ScriptedReply(text="z" * 500, calls=((f"c{calls}", "quick", f'{{"page":{calls}}}'),))

    toolbox = FakeTools(tools={"quick": returns(RESULT)})
    here = scene(FakeModels(answering=answering), toolbox, turns=turns)
    await run(here.world)
    return here.journal.bytes


async def test_a_log_grows_by_what_a_turn_adds_and_not_by_what_was_there() -> None:
    few, many = await logged_bytes(10), await logged_bytes(40)
    assert 30 * 1_500 < many - few < 30 * 3_000
