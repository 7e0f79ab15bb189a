"""The two worker processes of a simulated deployment: real runtimes over one store.

Owns their life (boot, crash, freeze, thaw, drain) and the wire between them and their clients. A crash drops
everything the process was about to do and cuts its line to the store; nothing of it is cleaned up.
"""

import asyncio
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import Plan
from jackline_server.models.places import Places
from jackline_server.models.profile import ModelProfile
from jackline_server.policies.masking import PiiMasks
from jackline_server.runtime.assembly import Ring, Runtime, assemble
from jackline_server.runtime.driving.scheduler import SchedulerSettings
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Frame
from jackline_server.testing import plans
from jackline_server.testing.doubles import FixedCompiler
from jackline_server.testing.simulation.conversing import Conversations
from jackline_server.testing.simulation.dice import dice_for
from jackline_server.testing.simulation.families import LEAF
from jackline_server.testing.simulation.faulty_store import Line, faulty
from jackline_server.testing.simulation.loop import PROCESS, Process, VirtualLoop
from jackline_server.testing.simulation.owning import Ownership, Stay
from jackline_server.testing.simulation.surroundings import (
    Books,
    SimulatedConsultants,
    SimulatedModels,
    SimulatedTools,
)
from jackline_server.testing.simulation.weather import SimulatedChance, SimulatedClock, Weather
from jackline_server.testing.validators.history import Commit

T = TypeVar("T")

LEASE_MS = 2_000
"""A short lease, so that freezes outlast it."""

LONG_LEASE_MS = 30_000
"""A lease that no gust outlasts."""


def _places(name: str, known: Mapping[str, Plan]) -> Places:
    """Few places at the model, by dice of their own, so that all others fall as they fell."""
    chance = dice_for(name, known)
    profile = ModelProfile(
        concurrency=chance.choice((1, 2, 32, 32)),
        requests_per_minute=chance.choice((None, None, None, 20)),
        tokens_per_minute=chance.choice((None, None, None, 3_000)),
    )
    return Places({plans.MODEL: profile})


class ConnectionLost(Exception):
    """The process went away before it answered."""


@dataclass(slots=True, kw_only=True)
class Deployment:
    """What all processes of a world share."""

    loop: VirtualLoop
    weather: Weather
    store: Store
    books: Books
    plans: dict[str, Plan]
    instruments: Instruments
    ids: SimulatedChance
    lease_ms: int
    conversations: Conversations
    ownership: Ownership
    commits: list[Commit] = field(default_factory=list[Commit])
    workers: list["Worker"] = field(default_factory=list["Worker"])

    @property
    def has_families(self) -> bool:
        """True in a world whose runs start others."""
        return LEAF in self.plans

    def now_ms(self) -> int:
        """Virtual time."""
        return int(self.loop.time() * 1000)

    def nudge(self, run_id: str) -> None:
        """Carry a nudge to every process; some get lost, some come twice, all come late."""
        weather = self.weather
        for worker in self.workers:
            times = 1 if weather.calm else weather.chance.choice((0, 1, 1, 1, 2))
            for _ in range(times):
                delay = weather.chance.random() * (0.005 if weather.calm else 0.3)
                self.loop.call_later(delay, worker.hear, run_id, context=contextvars.Context())


@dataclass(slots=True, kw_only=True)
class Wire:
    """The signals of one process: its own nudges come at once, the others' over the network."""

    deployment: Deployment
    subscribers: list[Callable[[str], None]] = field(default_factory=list[Callable[[str], None]])

    def nudge(self, run_id: str) -> None:
        """Tell this process now, the others later."""
        for subscriber in self.subscribers:
            subscriber(run_id)
        self.deployment.nudge(run_id)

    def subscribe(self, subscriber: Callable[[str], None]) -> None:
        """See `ports.Signals`."""
        self.subscribers.append(subscriber)


class Worker:
    """One place where a process runs, one after another."""

    def __init__(self, slot: str, deployment: Deployment) -> None:
        self.slot = slot
        self._deployment = deployment
        self._booted = 0
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._calls = 0
        self.process = Process(name=slot, dead=True)
        self._context = contextvars.Context()
        self._line: Line | None = None
        self._runtime: Runtime | None = None
        self._wire: Wire | None = None
        self._owning: asyncio.Task[None] | None = None

    # --- life ----------------------------------------------------------------------------------

    @property
    def up(self) -> bool:
        """True if a process runs here, frozen or not."""
        return not self.process.dead

    async def boot(self) -> None:
        """Start a process and wait until it has claimed what it can."""
        self._booted += 1
        name = f"{self.slot}.{self._booted}"
        deployment = self._deployment
        self.process = Process(name=name)
        self._context = contextvars.Context()
        self._context.run(PROCESS.set, self.process)
        self._line = Line(
            weather=deployment.weather, worker=name, now_ms=deployment.now_ms, commits=deployment.commits
        )
        self._wire = Wire(deployment=deployment)
        self._runtime = self._context.run(self._build, name, faulty(deployment.store, self._line))
        starting = self._runtime
        deployment.loop.create_task(_booting(starting), context=self._context)
        if deployment.ownership.are_there:
            self._owning = deployment.loop.create_task(starting.owning.run(), context=self._context)

    def crash(self) -> None:
        """End the process as SIGKILL does."""
        self.process.dead = True
        self.process.frozen = False
        if self._line is not None:
            self._line.cut = True
        for reply in list(self._open.values()):
            if not reply.done():
                reply.set_exception(ConnectionLost())

    def freeze(self) -> None:
        """Stop the process as SIGSTOP does."""
        self.process.frozen = True

    def thaw(self) -> None:
        """Let it go on, with all that has come in the meantime."""
        self._deployment.loop.thaw(self.process)

    async def drain(self) -> None:
        """Shut the process down in good order."""
        process = self.process
        runtime = self._runtime
        if runtime is None or process.dead:
            return
        if self._owning is not None:
            self._owning.cancel()
        task = self._deployment.loop.create_task(runtime.shut_down(), context=self._context)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda _: None if done.done() else done.set_result(None))
        try:
            async with asyncio.timeout(30):
                await done
        except TimeoutError:
            pass
        if self.process is process:
            self.crash()

    def hear(self, run_id: str) -> None:
        """A nudge has come over the network."""
        if self._wire is not None and self.up:
            for subscriber in self._wire.subscribers:
                self._deployment.loop.call_soon(subscriber, run_id, context=self._context)

    def _build(self, name: str, store: Store) -> Runtime:
        deployment, weather = self._deployment, self._deployment.weather
        ring = Ring(
            masks=PiiMasks(),
            store=store,
            models=SimulatedModels(weather=weather, books=deployment.books),
            toolbox=SimulatedTools(weather=weather, books=deployment.books),
            codec=ProtoCodec(),
            compiler=FixedCompiler(plans=deployment.plans),
            instruments=deployment.instruments,
            signals=cast("Wire", self._wire),
            clock=SimulatedClock(weather=weather, slot=self.slot),
            chance=deployment.ids,
            consultants=SimulatedConsultants(weather=weather),
            places=_places(name, deployment.plans),
        )
        settings = SchedulerSettings(
            worker=name,
            max_active_runs=weather.chance.choice((1, 3)),
            lease_ms=deployment.lease_ms,
            drain_grace_ms=weather.chance.choice((50, 1_000)),
        )
        return assemble(ring, settings)

    # --- the wire ------------------------------------------------------------------------------

    async def ask(self, call: Callable[[Runtime], Awaitable[T]], *, timeout_ms: int) -> T:
        """Make a call as a client does, over a connection.

        Raises:
            ConnectionLost: the process was not there, or went away.
            TimeoutError: the client's deadline has passed; the call is cancelled there.
            Refused, and whatever else the call raises.
        """
        runtime = self._runtime
        if runtime is None or not self.up:
            raise ConnectionLost
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = self._deployment.loop.create_task(_answer(call, runtime, reply), context=self._context)
        self._calls += 1
        number = self._calls
        self._open[number] = reply
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await reply
        finally:
            del self._open[number]
            if not task.done():
                task.cancel()

    async def watch(
        self, run_id: str, after: int, take: Callable[[Frame], Awaitable[bool]], *, stay: Stay
    ) -> bool:
        """Watch a run; `take` slows the stream down, and ends it by False. True if the server ended it."""

        async def stream(runtime: Runtime) -> bool:
            runs = runtime.runs
            frames = runs.watch(DEFAULT_TENANT, run_id, after_sequence=after, deltas=after % 2 == 0)
            if stay.grace_ms is None:
                return await _pump(frames, take)
            async with runs.own(DEFAULT_TENANT, run_id, after_sequence=after, grace_ms=stay.grace_ms):
                return await _pump(frames, take)

        return await self.ask(stream, timeout_ms=stay.for_ms)


async def _booting(runtime: Runtime) -> None:
    """A process that can't claim at its start tries again, as a supervisor would make it."""
    while True:
        try:
            await runtime.scheduler.start()
        except Exception:  # noqa: BLE001 - a process that fails to start is started again
            await asyncio.sleep(0.5)
        else:
            return


async def _pump(frames: AsyncIterator[Frame], take: Callable[[Frame], Awaitable[bool]]) -> bool:
    closing = cast("AsyncGenerator[Frame, None]", frames)
    async with aclosing(closing):
        async for frame in closing:
            if not await take(frame):
                return False
    return True


async def _answer(
    call: Callable[[Runtime], Awaitable[T]], runtime: Runtime, reply: asyncio.Future[T]
) -> None:
    """A handler inside the process; its answer goes over the connection, if that is still open."""
    try:
        result = await call(runtime)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - a handler ends here; its error is the client's
        if not reply.done():
            reply.set_exception(error)
    else:
        if not reply.done():
            reply.set_result(result)
