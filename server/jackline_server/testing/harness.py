"""One process of Jackline without its doors: a real runtime over a store, with doubles for the world.

Owns the composition for tests of the runtime and for the simulator. Several may share one store, as workers
of a fleet do.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import json_text
from jackline_server.core.commands import Action
from jackline_server.core.plan import JsonValue, Plan
from jackline_server.runtime.assembly import Ring, Runtime, assemble
from jackline_server.runtime.driving.outboxes import Outbox
from jackline_server.runtime.driving.results import RUN_BYTES
from jackline_server.runtime.driving.scheduler import SchedulerSettings
from jackline_server.runtime.machine import SystemChance, SystemClock
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.consultants import Consultants, NoConsultants
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.masks import Masks, NoMasks
from jackline_server.runtime.ports.models import ModelPlaces, Models, NoLimits
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import Toolbox
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.use_cases import (
    Caller,
    ControlRun,
    Receipt,
    Stage,
    StartRun,
    TighterBounds,
)
from jackline_server.signals.in_process import InProcessSignals
from jackline_server.testing.doubles import FixedCompiler
from jackline_server.testing.instruments import instruments

CALLER = Caller(tenant=DEFAULT_TENANT, principal="tester")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a process is put into."""

    store: Store
    models: Models
    toolbox: Toolbox
    plans: Mapping[str, Plan]
    clock: Clock = SystemClock()
    chance: Chance = SystemChance()
    consultants: Consultants = NoConsultants()
    limits: RunLimits = RunLimits()
    places: ModelPlaces = NoLimits()
    run_result_bytes: int = RUN_BYTES
    masks: Masks = NoMasks()
    outbox: Outbox | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A running runtime, with the words that tests use."""

    world: World
    runtime: Runtime

    async def start(self, plan: str = "plan", *, request_id: str = "", **given: JsonValue) -> str:
        """Start a run of a plan with this input; its id."""
        started = await self.runtime.runs.start(start_request(plan, request_id=request_id, **given))
        return started.row.run_id

    async def control(  # noqa: PLR0913 - one for each thing a command may have
        self,
        run_id: str,
        action: Action,
        *,
        command_id: str = "",
        reason: str = "",
        wait: Stage = Stage.ACCEPTED,
        wait_ms: int = 10_000,
        expect_sequence: int | None = None,
    ) -> Receipt:
        """Send a command."""
        return await self.runtime.runs.control(
            ControlRun(
                caller=CALLER,
                run_id=run_id,
                command_id=command_id,
                reason=reason,
                expect_phase=None,
                expect_sequence=expect_sequence,
                action=action,
                wait=wait,
                wait_ms=wait_ms,
            )
        )

    async def log(self, run_id: str) -> list[Record]:
        """The durable facts of a run."""
        records: list[Record] = []
        while events := await self.world.store.journal.read(run_id, after_sequence=len(records), limit=1_000):
            records.extend(ProtoCodec().decode(event) for event in events)
        return records

    async def follow(self, run_id: str, *, after: int = 0) -> list[Record]:
        """Watch a run to its end and return what was seen."""
        seen: list[Record] = []
        frames = self.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=after, deltas=False)
        async for frame in frames:
            seen.extend(ProtoCodec().decode(event) for event in frame.events)
        return seen


def start_request(plan: str = "plan", *, request_id: str = "", **given: JsonValue) -> StartRun:
    """A request to start a plan by its name with this input."""
    return StartRun(
        caller=CALLER,
        workflow="",
        inline=Source(yaml=plan, files={}),
        input_json=json_text.write(given),
        request_id=request_id,
        fingerprint=json_text.write([plan, given]).encode(),
        subject_json="{}",
        labels={},
        bounds=TighterBounds(),
        deadline_unix_ms=None,
        on_question=None,
    )


@asynccontextmanager
async def process(
    world: World,
    *,
    worker: str = "worker-1",
    max_active_runs: int = 1_000,
    lease_ms: int = 15_000,
    drain_grace_ms: int = 2_000,
) -> AsyncGenerator[Process]:
    """A process in that world, driving runs; drained on the way out."""
    runtime = build(
        world, worker=worker, max_active_runs=max_active_runs, lease_ms=lease_ms, grace=drain_grace_ms
    )
    await runtime.scheduler.start()
    owners = asyncio.create_task(runtime.owning.run())
    try:
        yield Process(world=world, runtime=runtime)
    finally:
        owners.cancel()
        await asyncio.gather(owners, return_exceptions=True)
        await runtime.shut_down()


def build(world: World, *, worker: str, max_active_runs: int, lease_ms: int, grace: int) -> Runtime:
    """The runtime of one process; nothing runs yet."""
    ring = Ring(
        store=world.store,
        models=world.models,
        toolbox=world.toolbox,
        codec=ProtoCodec(),
        compiler=FixedCompiler(plans=world.plans),
        instruments=instruments(),
        signals=InProcessSignals(),
        clock=world.clock,
        chance=world.chance,
        consultants=world.consultants,
        limits=world.limits,
        places=world.places,
        run_result_bytes=world.run_result_bytes,
        masks=world.masks,
        outbox=world.outbox,
    )
    settings = SchedulerSettings(
        worker=worker, max_active_runs=max_active_runs, lease_ms=lease_ms, drain_grace_ms=grace
    )
    return assemble(ring, settings)
