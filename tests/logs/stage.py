"""Where golden logs are recorded: the real runtime over a store in memory, in virtual time.

Owns the workers of one scenario (boot, crash, drain), its scripted model and tools, its clock and its ids.
Everything is the same each time: equal code records equal bytes. The order of callbacks comes from a seed, as
in the simulator.
"""

import asyncio
import contextvars
import hashlib
import logging
import random
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Action
from jackline_server.core.facts import Phase
from jackline_server.core.gate_plans import HookPlan, OnHookError, Point
from jackline_server.core.plan import ModelPlan, Plan, Price
from jackline_server.definitions.catalog import Catalog, FunctionDescription
from jackline_server.definitions.compiler import WorkflowCompiler
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.machine import sortable_id
from jackline_server.runtime.ports.command_table import CommandRow
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.models import ModelChunk, ModelFailure, ModelRequest
from jackline_server.runtime.ports.run_rows import RunQuery, RunRow
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Invocation
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.use_cases import ControlRun, StartRun
from jackline_server.runtime.use_cases import Stage as Awaited
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeTools, ScriptedReply, Tool
from jackline_server.testing.harness import CALLER, Process, World, build, start_request
from jackline_server.testing.simulation import loop as virtual
from tests.logs.golden import GoldenLog, Held, fact_name, golden_log, settled_by

START_UNIX_MS = 4_102_444_800_000
"""The year 2100: what is open in a recorded run must not expire while anybody replays it."""
LEASE_MS = 15_000
GRACE_MS = 500
_LOOK_S = 0.005
_PATIENCE_S = 600

Reply = ScriptedReply | ModelFailure
T = TypeVar("T")

MODEL = ModelPlan(
    profile="fast",
    model="scripted",
    adapter="scripted",
    context_window=128_000,
    max_output_tokens=4_096,
    price=Price(input_per_million=1_000_000, output_per_million=2_000_000),
    retries=3,
    retry_base_ms=1_000,
    retry_cap_ms=30_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One recorded run: a workflow, what its model and tools do, and what happens to it from outside.

    `play` starts the run and returns its id when it has come as far as it shall.
    """

    name: str
    about: str
    workflow: str
    replies: Sequence[Reply]
    play: Callable[["Stage"], Coroutine[Any, Any, str]]
    tools: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    wait_ms: Callable[[Invocation], int] = lambda _: 20
    answers: Sequence[ConsultReply] = ()


def record(scenario: Scenario) -> GoldenLog:
    """Play a scenario and return what the store holds of its run. Not from within an event loop."""
    loop = virtual.VirtualLoop(random.Random(0))  # noqa: S311 - the order of callbacks has to be had again
    stage = Stage(scenario, loop)
    with _no_bugs(scenario.name):
        log = loop.run(stage.whole())
    assert not loop.problems, loop.problems
    return log


@contextmanager
def _no_bugs(name: str) -> Generator[None]:
    """Fail if the server reports an error; what it warns of is part of the play."""
    log, ear = logging.getLogger("jackline_server"), _Ear(level=logging.ERROR)
    level, propagate = log.level, log.propagate
    log.addHandler(ear)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(ear)
        log.setLevel(level)
        log.propagate = propagate
    assert not ear.heard, f"{name}: {ear.heard}"


class _Ear(logging.Handler):
    """Keeps what it hears."""

    def __init__(self, *, level: int) -> None:
        super().__init__(level=level)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(f"{record.getMessage()}: {record.exc_info and record.exc_info[1]!r}")


@dataclass(slots=True)
class _Clock:
    """The loop's time, counted from a fixed day. Implements `ports.Clock`."""

    loop: virtual.VirtualLoop

    def unix_ms(self) -> int:
        return START_UNIX_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self.loop.time() * 1000)

    async def sleep(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)


@dataclass(slots=True)
class _Chance:
    """Ids that are the same each time and unlike those of other scenarios. Implements `ports.Chance`."""

    name: str
    number: int = 0

    def new_id(self, prefix: str) -> str:
        self.number += 1
        digest = hashlib.sha256(f"{self.name} {self.number}".encode()).digest()
        return sortable_id(prefix, START_UNIX_MS, int.from_bytes(digest[:10], "big"))

    def fraction(self) -> float:
        return 0.5


@dataclass(slots=True)
class _Models:
    """A model whose replies are handed out once, in order. Implements `ports.Models`."""

    replies: list[Reply]

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        del request
        reply = self.replies.pop(0)
        if isinstance(reply, ModelFailure):
            await asyncio.sleep(_LOOK_S)
            raise reply
        await asyncio.sleep(reply.wait_ms / 1000)
        for chunk in reply.played():
            yield chunk


@dataclass(slots=True)
class _Consultants:
    """Functions whose answers are handed out once, in order. Implements `ports.Consultants`."""

    answers: list[ConsultReply]

    async def ask(self, question: Consultation) -> ConsultReply:
        del question
        await asyncio.sleep(_LOOK_S)
        return self.answers.pop(0)


@dataclass(frozen=True, slots=True)
class _Functions:
    """Any function that asks for nothing."""

    def describe(self, function: str) -> FunctionDescription | str:
        return FunctionDescription(parameters_json='{"type":"object"}', docstring=function)


@dataclass(frozen=True, slots=True)
class _Hooks:
    """A hook that looks at replies and at calls."""

    def names(self) -> tuple[str, ...]:
        return ("audit",)

    def describe(self, name: str) -> HookPlan | str:
        points = frozenset({Point.BEFORE_RUN, Point.AFTER_MODEL_CALL, Point.AFTER_TOOL_CALL})
        return HookPlan(name=name, points=points, timeout_ms=1_000, on_error=OnHookError.VETO)


class Stage:
    """The world of one scenario, with one worker at a time."""

    def __init__(self, scenario: Scenario, loop: virtual.VirtualLoop) -> None:
        self._scenario = scenario
        self._loop = loop
        clock = _Clock(loop)
        self.models = _Models(list(scenario.replies))
        self.tools = FakeTools(tools=scenario.tools, wait_ms=scenario.wait_ms)
        self._world = World(
            store=memory_store(
                clock=StoreClock(unix_ms=clock.unix_ms, monotonic_ms=clock.monotonic_ms), lease_ms=LEASE_MS
            ),
            models=self.models,
            toolbox=self.tools,
            plans={"plan": compiled(scenario.workflow)},
            clock=clock,
            chance=_Chance(scenario.name),
            consultants=_Consultants(list(scenario.answers)),
            limits=RunLimits(own_approvals=None),
        )
        self._boots = 0
        self._life = virtual.Process(name="none", dead=True)
        self._context = contextvars.Context()
        self._process: Process | None = None

    async def whole(self) -> GoldenLog:
        """Play the scenario from the first boot to the last."""
        await self.boot()
        run_id = await self._scenario.play(self)
        assert not self.models.replies, f"{self._scenario.name}: replies that nobody asked for"
        store = self._world.store
        row = await self.row(run_id)
        events = await store.journal.read(run_id, after_sequence=0, limit=10_000)
        held = Held(
            row=row,
            plan=await store.journal.plan(row.plan_digest),
            events=tuple(events),
            commands=await self._commands(run_id, events),
        )
        self.crash()
        await self._loop.unwind()
        return golden_log(self._scenario.about, held)

    async def _commands(self, run_id: str, events: Sequence[StoredEvent]) -> tuple[CommandRow, ...]:
        """The run's rows of the command table, in order."""
        ids = [command_id for event in events if (command_id := settled_by(event))]
        rows = [await self._world.store.commands.get(run_id, command_id) for command_id in ids]
        return tuple(sorted((row for row in rows if row is not None), key=lambda row: row.ordinal))

    # --- workers -------------------------------------------------------------------------------

    async def boot(self, *, places: int = 1_000) -> None:
        """Start a worker that drives so many runs at once."""
        self._boots += 1
        self._life = virtual.Process(name=f"worker-{self._boots}")
        self._context = contextvars.Context()
        self._context.run(virtual.PROCESS.set, self._life)
        runtime = self._context.run(
            build,
            self._world,
            worker=self._life.name,
            max_active_runs=places,
            lease_ms=LEASE_MS,
            grace=GRACE_MS,
        )
        self._process = Process(world=self._world, runtime=runtime)
        await self.within(runtime.scheduler.start())

    def crash(self) -> None:
        """End the worker as SIGKILL does."""
        self._life.dead = True

    async def drain(self) -> None:
        """End the worker in good order."""
        await self.within(self.process.runtime.shut_down())
        self.crash()

    @property
    def process(self) -> Process:
        """The worker that runs now."""
        assert self._process is not None
        return self._process

    async def within(self, call: Coroutine[Any, Any, T]) -> T:
        """Run something inside the worker, as one of its handlers does."""
        return await self._loop.create_task(call, context=self._context)

    # --- what a scenario does ------------------------------------------------------------------

    async def start(self, **changes: Any) -> str:
        """Start the run; `changes` are of its request."""
        request: StartRun = replace(start_request("plan", mark="m"), **changes)
        return (await self.within(self.process.runtime.runs.start(request))).row.run_id

    async def control(self, run_id: str, action: Action, command_id: str) -> None:
        """Send a command and wait until it is accepted."""
        command = ControlRun(
            caller=CALLER,
            run_id=run_id,
            command_id=command_id,
            reason="as recorded",
            expect_phase=None,
            expect_sequence=None,
            action=action,
            wait=Awaited.ACCEPTED,
            wait_ms=10_000,
        )
        await self.within(self.process.runtime.runs.control(command))

    async def child_of(self, run_id: str) -> str:
        """The only run that the run has started."""
        query = RunQuery(tenant=DEFAULT_TENANT, labels={}, parent_run_id=run_id, limit=2)
        (child,) = (await self._world.store.runs.page(query)).rows
        return child.run_id

    async def row(self, run_id: str) -> RunRow:
        """The run as the store has it."""
        row = await self._world.store.runs.get(DEFAULT_TENANT, run_id)
        assert row is not None
        return row

    async def until(self, run_id: str, fact: str, times: int = 1) -> None:
        """Wait until the log holds so many facts of that name."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                events = await self._world.store.journal.read(run_id, after_sequence=0, limit=10_000)
                if [fact_name(event) for event in events].count(fact) >= times:
                    return
                await asyncio.sleep(_LOOK_S)

    async def until_phase(self, run_id: str, *phases: Phase) -> None:
        """Wait until the run is in one of these phases."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                if (await self.row(run_id)).phase in phases:
                    return
                await asyncio.sleep(_LOOK_S)

    async def to_the_end(self, run_id: str) -> str:
        """Wait until the run has finished; its id."""
        await self.until(run_id, "run_finished")
        return run_id


def compiled(workflow: str) -> Plan:
    """The plan of a workflow, on a server with one scripted model and one connection."""
    schemas = JsonSchemas()
    compiler = WorkflowCompiler(
        catalog=Catalog(
            models={MODEL.profile: MODEL, "slow": replace(MODEL, profile="slow")},
            http_connections=frozenset({"shop"}),
            functions=_Functions(),
            hooks=_Hooks(),
            policies=frozenset({"guard"}),
        ),
        expressions=CelExpressions(),
        schemas=schemas,
        encode_plan=ProtoCodec().encode_plan,
    )
    found = compiler.compile(Source(yaml=workflow, files={}))
    assert found.plan is not None, found.findings
    return found.plan
