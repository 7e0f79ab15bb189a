"""A store that lives and dies with the process: for tests, simulations and volatile servers.

Owns the roles over the tables of `tables`; revisions and blobs have their own modules.
Several workers may share one instance on one event loop: no method awaits, so each is one atomic step.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.command_table import (
    Below,
    CommandOutcome,
    CommandRow,
    CommandState,
    Submission,
)
from jackline_server.runtime.ports.journal import Append, Created, Creation, NewRun, StoredEvent
from jackline_server.runtime.ports.leases import Claim
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow
from jackline_server.runtime.ports.store import Durability, Store
from jackline_server.runtime.ports.store_errors import CommandsWaiting, Fenced, HeadMismatch, StoreDamaged
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.blob_names import RUN
from jackline_server.storage.clocks import LEASE_MS, StoreClock, silence_ms
from jackline_server.storage.memory.blobs import MemoryBlobs, hold, refuse_missing
from jackline_server.storage.memory.commands import deliver, insert
from jackline_server.storage.memory.deliveries import MemoryDeliveries, owe
from jackline_server.storage.memory.families import carry_out, living_below
from jackline_server.storage.memory.owners import MemoryOwners
from jackline_server.storage.memory.revisions import MemoryRevisions
from jackline_server.storage.memory.switches import MemorySwitches, halted
from jackline_server.storage.memory.tables import MemoryRun, MemoryTables
from jackline_server.storage.memory.threads import MemoryThreads, can_join, join, leave, left_behind
from jackline_server.storage.order import check_append, check_create
from jackline_server.storage.reading import within_read


def memory_store(*, clock: StoreClock | None = None, lease_ms: int = LEASE_MS, fencing: bool = True) -> Store:
    """A fresh, empty store.

    `fencing=False` leaves out the checks of epoch, head and end in appends, so that a stale writer
    overwrites what the new owner wrote: there only to show what fencing prevents.
    """
    tables = MemoryTables(clock=clock or StoreClock(), lease_ms=lease_ms, fencing=fencing)
    return Store(
        journal=MemoryJournal(tables),
        runs=MemoryRuns(tables),
        commands=MemoryCommands(tables),
        leases=MemoryLeases(tables),
        revisions=MemoryRevisions(),
        blobs=MemoryBlobs(tables),
        threads=MemoryThreads(tables),
        deliveries=MemoryDeliveries(tables),
        switches=MemorySwitches(tables),
        owners=MemoryOwners(tables),
        durability=Durability.NONE,
    )


class MemoryJournal:
    """The Journal role."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def create(self, new: NewRun) -> Created:
        """As the port says. A run id that is taken is a CONFLICT."""
        check_create(new)
        tables = self._tables
        known = tables.requests.get((new.tenant.id, new.request_id)) if new.request_id else None
        if known is not None:
            creation = Creation.DUPLICATE if known[1] == new.fingerprint else Creation.CONFLICT
            return Created(creation=creation, run_id=known[0])
        if new.run_id in tables.runs:
            return Created(creation=Creation.CONFLICT, run_id=new.run_id)
        if halted(tables, new.tenant) is not None:
            return Created(creation=Creation.HALTED, run_id="")
        refuse_missing(tables, new.tenant, new.blobs)
        if new.thread is not None and not can_join(tables, new.tenant, new.thread):
            return Created(creation=Creation.MOVED, run_id="")
        run = MemoryRun(
            new=new, epoch=0, owner=None, head=new.head, summary=new.summary, log=[new.first, *new.rest]
        )
        if new.owner is not None:
            tables.grant(run, new.owner, epoch=1)
        tables.runs[new.run_id] = run
        hold(tables, new.tenant, new.blobs, kind=RUN, holder=new.run_id)
        if new.thread is not None:
            join(tables, run, new, new.thread)
        tables.plans.setdefault(new.plan_digest, new.plan)
        if new.request_id:
            tables.requests[new.tenant.id, new.request_id] = (new.run_id, new.fingerprint)
        return Created(creation=Creation.CREATED, run_id=new.run_id)

    async def append(self, append: Append) -> None:
        """As the port says. A finished run takes no further append: Fenced."""
        check_append(append)
        run = self._tables.runs.get(append.run_id)
        if run is None:
            raise HeadMismatch(expected=append.after_sequence, found=0)
        if self._tables.fencing:
            _check_writer(run, append)
        if append.finishing:
            _check_settled(run, append)
        refuse_missing(self._tables, run.new.tenant, (*append.blobs, *left_behind(append)))
        hold(self._tables, run.new.tenant, append.blobs, kind=RUN, holder=append.run_id)
        at = append.after_sequence
        run.log[at : at + len(append.events)] = append.events
        carry_out(self._tables, append)
        owe(self._tables, run, append.deliveries)
        run.head = append.head
        run.summary = run.summary if append.summary is None else append.summary
        for outcome in append.settled:
            _settle(run, outcome)
        if append.finishing or append.head.phase.terminal:
            run.terminal = True
            run.finished_unix_ms = append.finished_unix_ms
            run.let_go()
            leave(self._tables, run, append)
        elif run.owner is not None:
            run.seen_ms = self._tables.clock.monotonic_ms()

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        """As the port says."""
        run = self._tables.runs.get(run_id)
        return within_read(run.log[after_sequence : after_sequence + limit]) if run is not None else []

    async def plan(self, digest: str) -> bytes:
        """As the port says."""
        plan = self._tables.plans.get(digest)
        if plan is None:
            raise StoreDamaged(f"the plan {digest} is not in the store")
        return plan


class MemoryRuns:
    """The Runs role."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def get(self, tenant: Tenant, run_id: str) -> RunRow | None:
        """As the port says."""
        run = self._tables.runs.get(run_id)
        return run.row() if run is not None and run.new.tenant == tenant else None

    async def find_request(self, tenant: Tenant, request_id: str) -> tuple[str, bytes] | None:
        """As the port says."""
        return self._tables.requests.get((tenant.id, request_id))

    async def page(self, query: RunQuery) -> RunPage:
        """As the port says."""
        found = [run for run in self._tables.runs.values() if _matches(run, query)]
        found.sort(key=lambda run: run.age, reverse=not query.oldest_first)
        rest = [run for run in found if _is_beyond(run, query)]
        return RunPage(rows=[run.row() for run in rest[: query.limit]], total=len(found))

    async def living_below(self, tenant: Tenant, run_id: str) -> Sequence[str]:
        """As the port says."""
        return [run.new.run_id for run in living_below(self._tables, run_id) if run.new.tenant == tenant]


class MemoryCommands:
    """The Commands role."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        """As the port says. A run that is not there is TERMINAL."""
        run = self._tables.runs.get(run_id)
        if run is None:
            return Submission.TERMINAL, None
        known = run.commands.get(command_id)
        if known is not None:
            return Submission.REPEATED, known
        if run.terminal:
            return Submission.TERMINAL, None
        if len(run.pending()) >= limit:
            return Submission.FULL, None
        row = insert(run, command_id, payload)
        if below is not None:
            for one in living_below(self._tables, run_id):
                deliver(one, below.command_id, below.payload)
        return Submission.ACCEPTED, row

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        """As the port says."""
        run = self._tables.runs.get(run_id)
        return run.pending() if run is not None else []

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        """As the port says."""
        run = self._tables.runs.get(run_id)
        return run.commands.get(command_id) if run is not None else None

    async def unheard(self, *, limit: int) -> Sequence[str]:
        """As the port says."""
        runs = sorted(self._tables.runs.values(), key=lambda run: run.age)
        return [run.new.run_id for run in runs if not run.terminal and _has_unheard(run)][:limit]


class MemoryLeases:
    """The Leases role."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        """As the port says."""
        now = self._tables.clock.monotonic_ms()
        free = [
            run
            for run in self._tables.runs.values()
            if _needs_worker(run, now_unix_ms)
            and (run.owner is None or run.lease_until_ms <= now)
            and (called is None or _is_called(run, called) or _is_due(run, now_unix_ms))
        ]
        free.sort(key=lambda run: run.age)
        return [self._take(run, worker, now) for run in free[:limit]]

    def _take(self, run: MemoryRun, worker: str, now: int) -> Claim:
        lease_ms = self._tables.lease_ms
        gap = None
        if run.seen_ms is not None:
            gap = silence_ms(now_ms=now, seen_ms=run.seen_ms, lease_ms=lease_ms)
        self._tables.grant(run, worker, epoch=run.epoch + 1)
        return Claim(tenant=run.new.tenant, run_id=run.new.run_id, epoch=run.epoch, gap_ms=gap)

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        """As the port says."""
        lost: set[str] = set()
        for run_id in run_ids:
            run = self._tables.runs.get(run_id)
            if run is None or run.owner != worker:
                lost.add(run_id)
            else:
                self._tables.grant(run, worker, epoch=run.epoch)
        return frozenset(lost)

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        """As the port says."""
        run = self._tables.runs.get(run_id)
        if run is not None and run.epoch == epoch and run.owner == worker:
            run.let_go()
            run.heard = heard


def _check_writer(run: MemoryRun, append: Append) -> None:
    if append.epoch != run.epoch:
        raise Fenced(f"run {append.run_id}: epoch {append.epoch}, now {run.epoch}")
    if append.after_sequence != len(run.log):
        raise HeadMismatch(expected=append.after_sequence, found=len(run.log))
    if run.terminal:
        raise Fenced(f"run {append.run_id} has finished")


def _check_settled(run: MemoryRun, append: Append) -> None:
    settled = {outcome.command_id for outcome in append.settled}
    if any(row.command_id not in settled for row in run.pending()):
        raise CommandsWaiting(append.run_id)


def _settle(run: MemoryRun, outcome: CommandOutcome) -> None:
    row = run.commands.get(outcome.command_id)
    if row is not None and row.state is CommandState.PENDING:
        run.commands[row.command_id] = replace(
            row, state=outcome.state, sequence=outcome.sequence, rejection=outcome.rejection
        )


def _matches(run: MemoryRun, query: RunQuery) -> bool:
    new, from_ms, until_ms = run.new, query.created_from_unix_ms, query.created_until_unix_ms
    return (
        new.tenant == query.tenant
        and (not query.phases or run.head.phase in query.phases)
        and (not query.workflow or new.workflow == query.workflow)
        and query.labels.items() <= new.labels.items()
        and (from_ms is None or new.created_unix_ms >= from_ms)
        and (until_ms is None or new.created_unix_ms < until_ms)
        and (not query.thread_id or run.thread == query.thread_id)
        and (not query.parent_run_id or new.parent_run_id == query.parent_run_id)
        and (not query.with_interrupts or run.head.open_interrupts > 0)
        and not (query.without_delayed and run.head.is_delayed)
    )


def _is_beyond(run: MemoryRun, query: RunQuery) -> bool:
    if query.before is None:
        return True
    return run.age > query.before if query.oldest_first else run.age < query.before


def _needs_worker(run: MemoryRun, now_unix_ms: int) -> bool:
    if run.terminal:
        return False
    waits = run.waits_for_turn or run.head.is_delayed
    busy = run.head.phase in (Phase.QUEUED, Phase.RUNNING) and not waits
    return busy or _has_unheard(run) or _is_due(run, now_unix_ms)


def _has_unheard(run: MemoryRun) -> bool:
    return any(row.ordinal > run.heard for row in run.pending())


def _is_called(run: MemoryRun, called: Collection[str]) -> bool:
    return run.new.run_id in called and any(run.pending())


def _is_due(run: MemoryRun, now_unix_ms: int) -> bool:
    wake = run.head.wake_unix_ms
    return wake is not None and wake <= now_unix_ms
