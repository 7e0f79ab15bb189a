"""The runtime put together from its ports.

Owns which part gets which collaborator. Chooses no implementation: whoever calls it does.
"""

from dataclasses import dataclass, field

from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import Instruments
from jackline_server.runtime.driving.children import Children
from jackline_server.runtime.driving.effects import Effects
from jackline_server.runtime.driving.kin import Kin
from jackline_server.runtime.driving.live_run import LiveRunTools
from jackline_server.runtime.driving.outboxes import Outbox
from jackline_server.runtime.driving.results import RUN_BYTES, Results
from jackline_server.runtime.driving.runner import RunnerTools
from jackline_server.runtime.driving.scheduler import Scheduler, SchedulerSettings, SchedulerTools
from jackline_server.runtime.driving.thread_shares import ThreadShares
from jackline_server.runtime.pinned_tools import Catalogs, NoCatalogs
from jackline_server.runtime.ports.codec import Codec
from jackline_server.runtime.ports.consultants import Consultants, NoConsultants
from jackline_server.runtime.ports.definitions import Compiler
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.masks import Masks, NoMasks
from jackline_server.runtime.ports.models import ModelPlaces, Models, NoLimits
from jackline_server.runtime.ports.signals import Signals
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tools import HeldCalls, Toolbox
from jackline_server.runtime.reading.family_watching import FamilyWatching
from jackline_server.runtime.reading.feed import Feed
from jackline_server.runtime.reading.histories import Histories
from jackline_server.runtime.reading.loading import Loading
from jackline_server.runtime.reading.watching import Watching
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.service.admission import Admission
from jackline_server.runtime.service.bulk_control import BulkControlling
from jackline_server.runtime.service.controlling import Controlling
from jackline_server.runtime.service.conversing import Conversing
from jackline_server.runtime.service.creating import Creating
from jackline_server.runtime.service.forking import Forking
from jackline_server.runtime.service.joining import JoiningThreads
from jackline_server.runtime.service.kill_switch import KillSwitch
from jackline_server.runtime.service.owning import Owning
from jackline_server.runtime.service.runs import RunService
from jackline_server.runtime.service.snapshots import Snapshots
from jackline_server.runtime.service.starting import Starting
from jackline_server.runtime.service.written_words import WrittenWords
from jackline_server.runtime.workflows.workflows import Workflows


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """One implementation of every port. `run_result_bytes`: see `Results`."""

    store: Store
    models: Models
    toolbox: Toolbox
    codec: Codec
    compiler: Compiler
    instruments: Instruments
    signals: Signals
    clock: Clock
    chance: Chance
    places: ModelPlaces = field(default_factory=NoLimits)
    catalogs: Catalogs = field(default_factory=NoCatalogs)
    consultants: Consultants = field(default_factory=NoConsultants)
    limits: RunLimits = RunLimits()
    run_result_bytes: int = RUN_BYTES
    masks: Masks = field(default_factory=NoMasks)
    held: HeldCalls | None = None
    outbox: Outbox | None = None


@frozen
class Runtime:
    """One process's runtime. `scheduler.start` begins to drive runs, `shut_down` ends it.

    `owning.run` looks after the owners of runs until it is cancelled, which comes before `shut_down`.
    """

    runs: RunService
    threads: Conversing
    workflows: Workflows
    kill_switch: KillSwitch
    owning: Owning
    scheduler: Scheduler
    feed: Feed

    async def shut_down(self, *, at_once: bool = False) -> None:
        """Drain every run, then end every stream. Bounded by the drain grace and 5 s.

        `at_once` waits for no run: the store is broken, and nothing more can be recorded.
        """
        await self.scheduler.drain(at_once=at_once)
        self.feed.close()


def assemble(ring: Ring, settings: SchedulerSettings) -> Runtime:
    """Put the parts together; nothing runs yet."""
    store, feed = ring.store, Feed()
    histories = Histories(blobs=store.blobs, codec=ring.codec)
    loading = Loading(journal=store.journal, codec=ring.codec, histories=histories)
    results = Results(blobs=store.blobs, clock=ring.clock, run_bytes=ring.run_result_bytes)
    workflows = Workflows(
        revisions=store.revisions,
        compiler=ring.compiler,
        catalogs=ring.catalogs,
        loading=loading,
        clock=ring.clock,
    )
    effects = _effects(ring, results=results, workflows=workflows)
    scheduler = _scheduler(ring, settings, loading=loading, feed=feed, histories=histories, effects=effects)
    ring.signals.subscribe(scheduler.nudge)
    snapshots = Snapshots(runs=store.runs, loading=loading, scheduler=scheduler, codec=ring.codec, feed=feed)
    creating = Creating(
        store=store,
        scheduler=scheduler,
        signals=ring.signals,
        codec=ring.codec,
        clock=ring.clock,
        chance=ring.chance,
    )
    words = WrittenWords(masks=ring.masks, plans=snapshots, codec=ring.codec)
    controlling = _controlling(ring, snapshots=snapshots, feed=feed, words=words)
    owning = Owning(owners=store.owners, controlling=controlling, clock=ring.clock, worker=settings.worker)
    watching = Watching(journal=store.journal, runs=store.runs, feed=feed)
    runs = RunService(
        starting=Starting(
            creating=creating,
            joining=JoiningThreads(
                store=store,
                creating=creating,
                histories=histories,
                signals=ring.signals,
                codec=ring.codec,
                clock=ring.clock,
                chance=ring.chance,
                words=words,
            ),
            workflows=workflows,
            schemas=ring.instruments.schemas,
            limits=ring.limits,
            masks=ring.masks,
        ),
        forking=Forking(
            store=store,
            creating=creating,
            workflows=workflows,
            loading=loading,
            codec=ring.codec,
            schemas=ring.instruments.schemas,
            limits=ring.limits,
            masks=ring.masks,
        ),
        controlling=controlling,
        bulk=BulkControlling(controlling=controlling, runs=store.runs),
        watching=watching,
        families=FamilyWatching(watching=watching, runs=store.runs, codec=ring.codec),
        snapshots=snapshots,
        loading=loading,
        runs=store.runs,
        results=results,
        feed=feed,
        clock=ring.clock,
        owning=owning,
    )
    threads = Conversing(threads=store.threads, histories=histories, clock=ring.clock)
    kill_switch = KillSwitch(
        switches=store.switches,
        runs=store.runs,
        codec=ring.codec,
        masks=ring.masks,
        signals=ring.signals,
        clock=ring.clock,
        chance=ring.chance,
    )
    return Runtime(
        runs=runs,
        threads=threads,
        workflows=workflows,
        kill_switch=kill_switch,
        owning=owning,
        scheduler=scheduler,
        feed=feed,
    )


def _controlling(ring: Ring, *, snapshots: Snapshots, feed: Feed, words: WrittenWords) -> Controlling:
    return Controlling(
        commands=ring.store.commands,
        runs=ring.store.runs,
        snapshots=snapshots,
        signals=ring.signals,
        feed=feed,
        codec=ring.codec,
        clock=ring.clock,
        chance=ring.chance,
        admission=Admission(clock=ring.clock, limits=ring.limits, schemas=ring.instruments.schemas),
        words=words,
    )


def _effects(ring: Ring, *, results: Results, workflows: Workflows) -> Effects:
    return Effects(
        models=ring.models,
        places=ring.places,
        toolbox=ring.toolbox,
        consultants=ring.consultants,
        masks=ring.masks,
        clock=ring.clock,
        chance=ring.chance,
        results=results,
        children=Children(
            workflows=workflows,
            codec=ring.codec,
            schemas=ring.instruments.schemas,
            masks=ring.masks,
            clock=ring.clock,
            limits=ring.limits,
        ),
        held=ring.held,
    )


def _scheduler(
    ring: Ring,
    settings: SchedulerSettings,
    *,
    loading: Loading,
    feed: Feed,
    histories: Histories,
    effects: Effects,
) -> Scheduler:
    return Scheduler(
        settings=settings,
        tools=SchedulerTools(
            store=ring.store,
            loading=loading,
            feed=feed,
            live=LiveRunTools(
                journal=ring.store.journal,
                codec=ring.codec,
                clock=ring.clock,
                threads=ThreadShares(threads=ring.store.threads, histories=histories, clock=ring.clock),
                kin=Kin(codec=ring.codec, signals=ring.signals, masks=ring.masks, results=effects.results),
                outbox=ring.outbox,
            ),
            runner=RunnerTools(
                effects=effects, instruments=ring.instruments, clock=ring.clock, chance=ring.chance
            ),
        ),
    )
