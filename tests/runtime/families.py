"""Parents and children over a real store, and a process that dies at any of its commits.

Owns the plans, the model that plays all of them, and the store of a process that dies.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import ChildFinished, ChildStarted, RunFinished
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect, Plan, PromptSection, SharePlan
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.journal import Append, Created, Journal, NewRun, StoredEvent
from jackline_server.runtime.ports.leases import Claim, Leases
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import Fenced
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import Answering, FakeModels, FakeTools, ScriptedReply, Tool, returns
from jackline_server.testing.harness import CALLER, Process, World
from jackline_server.testing.plans import agent, child, entry, plan_of, run_bounds, tool

PARENT, CHILD = "parent", "child"


def sealed(plan: Plan) -> Plan:
    """The plan under the digest of its bytes, as a compiler makes it."""
    codec = ProtoCodec()
    return replace(plan, digest=hashlib.sha256(codec.encode_plan(plan)).hexdigest())


def says(role: str) -> tuple[PromptSection, ...]:
    """The system message by which the model knows whom it plays."""
    return (PromptSection(title="", text=f"You are the {role}."),)


def parent_plan(
    *, share: SharePlan | None = None, effect: Effect = Effect.READ, **bounds: int | None
) -> Plan:
    """An agent that has the workflow `child` as its only tool."""
    step = child("ask", CHILD, effect=effect, share=share or SharePlan())
    boss = agent(system=says(PARENT), tools=(entry("ask"),))
    return sealed(plan_of(boss, step, name=PARENT, bounds=run_bounds(**bounds)))  # pyright: ignore[reportArgumentType] - by name


def child_plan(**bounds: int | None) -> Plan:
    """An agent that calls the tool `look`."""
    worker = agent(system=says(CHILD), tools=(entry("look"),))
    return sealed(plan_of(worker, tool("look"), name=CHILD, bounds=run_bounds(**bounds)))  # pyright: ignore[reportArgumentType] - by name


def played(request: ModelRequest) -> str:
    """Whom the model plays in a request."""
    return request.messages[0].text.removeprefix("You are the ").split(".", maxsplit=1)[0]


def turns(*, children: int = 1) -> Answering:
    """Whoever has no result yet calls its tool, the parent so many children at once; then all answer."""

    def answer(request: ModelRequest) -> ScriptedReply:
        who = played(request)
        results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        if results:
            return ScriptedReply(text=f"{who}: {' '.join(results)}")
        if any(offered.ref == "ask" for offered in request.tools):
            asked = range(children if who == PARENT else 1)
            calls = tuple((f"c{number}", "ask", f'{{"n":{number}}}') for number in asked)
            return ScriptedReply(calls=calls)
        return ScriptedReply(calls=(("l", "look", "{}"),))

    return answer


@dataclass(slots=True, kw_only=True)
class Scene:
    """A world, with what its model and its tools were asked."""

    world: World
    models: FakeModels
    tools: FakeTools


def scene(
    *plans: Plan,
    store: Store | None = None,
    answering: Answering | None = None,
    look: Tool | None = None,
) -> Scene:
    """A world of these plans; of `parent` and `child`, unless others are given."""
    models = FakeModels(answering=answering or turns())
    tools = FakeTools(tools={"look": look or returns('"seen"')})
    named = {plan.name: plan for plan in plans or (parent_plan(), child_plan())}
    world = World(store=store or memory_store(), models=models, toolbox=tools, plans=named, masks=PiiMasks())
    return Scene(world=world, models=models, tools=tools)


async def put_all(jackline: Process) -> None:
    """Store every plan of the world as a workflow of its name."""
    for name in jackline.world.plans:
        await jackline.runtime.workflows.put(CALLER, Source(yaml=name, files={}), alias="", expect_digest="")


def children_of(log: Sequence[Record]) -> list[str]:
    """The children that a log tells of."""
    return [record.fact.child_run_id for record in log if isinstance(record.fact, ChildStarted)]


def ends_of(log: Sequence[Record]) -> list[ChildFinished]:
    """How they ended."""
    return [record.fact for record in log if isinstance(record.fact, ChildFinished)]


def end_of(log: Sequence[Record]) -> RunFinished:
    """How the run ended."""
    last = log[-1].fact
    assert isinstance(last, RunFinished)
    return last


# --- a process that dies -----------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Life:
    """A process that dies at its commit of that number, from 1: before it was written, or right after."""

    dies_at: int
    after: bool
    commits: int = 0
    dead: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> bool:
        """A commit begins; false if the process is dead, or dies by it. Raises Fenced once it is dead."""
        if self.dead.is_set():
            raise Fenced("the process is dead")
        self.commits += 1
        return self.commits != self.dies_at

    def end(self) -> Fenced:
        """It dies here."""
        self.dead.set()
        return Fenced("the process is dead")


@dataclass(slots=True, kw_only=True)
class MortalJournal:
    """The journal of a process that dies."""

    inner: Journal
    life: Life

    async def create(self, new: NewRun) -> Created:
        return await self.inner.create(new)

    async def append(self, append: Append) -> None:
        if self.life.begin():
            await self.inner.append(append)
            return
        if self.life.after:
            await self.inner.append(append)
        raise self.life.end()

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        return await self.inner.read(run_id, after_sequence=after_sequence, limit=limit)

    async def plan(self, digest: str) -> bytes:
        return await self.inner.plan(digest)


@dataclass(slots=True, kw_only=True)
class MortalLeases:
    """The leases of a process that dies: once dead it takes no more, and lets go of none."""

    inner: Leases
    life: Life

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        if self.life.dead.is_set():
            return []
        return await self.inner.claim(worker, limit=limit, now_unix_ms=now_unix_ms, called=called)

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        return frozenset() if self.life.dead.is_set() else await self.inner.renew(worker, run_ids)

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        if not self.life.dead.is_set():
            await self.inner.release(worker, run_id, epoch=epoch, heard=heard)


@dataclass(slots=True, kw_only=True)
class Late:
    """A store's clock that can be put forward, so that the leases of the dead end."""

    ahead_ms: int = 0

    def store(self) -> Store:
        """A store that counts leases by it."""
        real = StoreClock()
        return memory_store(
            clock=StoreClock(monotonic_ms=lambda: real.monotonic_ms() + self.ahead_ms, unix_ms=real.unix_ms)
        )


def mortal(store: Store, life: Life) -> Store:
    """The store as a process has it that dies."""
    return replace(
        store,
        journal=MortalJournal(inner=store.journal, life=life),
        leases=MortalLeases(inner=store.leases, life=life),
    )


async def until(condition: Callable[[], bool]) -> None:
    """Let the others go on until that holds."""
    while not condition():  # noqa: ASYNC110 - what changes it has no event, and each turn of the loop is one step
        await asyncio.sleep(0)
