"""Owns every run task of this process: admission, claims, leases, recovery, drain.

A run is driven here from the moment it is claimed (or created here) until it finishes, goes dormant, is
suspended, or is lost to a newer epoch. The store says which runs need a worker; a nudge only makes this
look sooner than the next poll.
"""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager

from jackline_server import failpoints
from jackline_server.core.facts import MessagesAppended, Phase, RecoveryCause, RunRecovered
from jackline_server.core.frozen import frozen
from jackline_server.core.state import RunState
from jackline_server.runtime.driving.committing import RETRY_MS
from jackline_server.runtime.driving.inbox import Inbox
from jackline_server.runtime.driving.live_run import LiveRun, LiveRunTools
from jackline_server.runtime.driving.runner import Ending, Runner, RunnerTools
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.leases import Claim
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import StoreError, StoreUnavailable
from jackline_server.runtime.reading.feed import Feed
from jackline_server.runtime.reading.loading import Loading

_log = logging.getLogger(__name__)

POLL_MS = 1_000

READ_AT_ONCE = 8
"""Runs that are replayed at once after a restart, so that hundreds of them do not hold up the loop."""

ERRANDS = 16
"""Runs beyond the places here that are driven at once, as far as they go without a call."""

MOST_CALLED = 10_000
"""Runs that are called again at a start, since a command waits for them."""

CUT_OFF_S = 4
"""How long a run that was cut off may take to be suspended; the rest is left open, for recovery."""

CUT_OFF_AT_ONCE_S = 0.5
"""The same where nothing can be written any more: just the time to stop what is under way."""


@frozen
class SchedulerSettings:
    """`worker` is unique among all processes of a store. `lease_ms` is the store's lease time."""

    worker: str
    max_active_runs: int
    lease_ms: int
    drain_grace_ms: int


@frozen
class SchedulerTools:
    """What the scheduler works with."""

    store: Store
    loading: Loading
    feed: Feed
    live: LiveRunTools
    runner: RunnerTools


class Scheduler:
    """The run tasks of one process. `start` before use; `drain` ends it."""

    def __init__(self, *, settings: SchedulerSettings, tools: SchedulerTools) -> None:
        self._settings = settings
        self._tools = tools
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._runners: dict[str, Runner] = {}
        self._background: list[asyncio.Task[None]] = []
        self._wake = asyncio.Event()
        self._called: set[str] = set()
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._places = 0
        self._renewed_ms = tools.live.clock.monotonic_ms()
        self.draining = False

    # --- for the service -----------------------------------------------------------------------

    @property
    def worker(self) -> str:
        """The name under which this process owns runs."""
        return self._settings.worker

    @property
    def most_active(self) -> int:
        """How many runs can be driven here at once."""
        return self._settings.max_active_runs

    @property
    def room(self) -> int:
        """How many more runs can be driven here; below zero while some are driven beyond the places."""
        return 0 if self.draining else self._settings.max_active_runs - len(self._tasks) - self._places

    @contextmanager
    def place(self) -> Generator[bool]:
        """Keep a place free for a run that is about to be created; False if there is none."""
        taken = int(self.room > 0)
        self._places += taken
        try:
            yield bool(taken)
        finally:
            self._places -= taken

    def adopt(self, row: RunRow, state: RunState) -> None:
        """Drive a run that was just created with its lease held here, at epoch 1."""
        self._begin(row.run_id, self._drive_new(row, state))

    def nudge(self, run_id: str) -> None:
        """Something about the run has changed in the store: a command, or its creation."""
        runner = self._runners.get(run_id)
        if runner is not None:
            runner.nudge()
            return
        self._called.add(run_id)
        if run_id not in self._tasks:  # else its task is ending, and wakes us when it has let go of it
            self._wake.set()

    def durable_state(self, run_id: str) -> RunState | None:
        """What is durable of a run that is driven here."""
        runner = self._runners.get(run_id)
        return None if runner is None else runner.run.durable

    def active(self) -> dict[Phase, int]:
        """How many runs are driven here, by phase."""
        return Counter(runner.run.durable.phase for runner in self._runners.values())

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Claim what needs a worker, then go on doing so in the background.

        Whoever was sent a command before is called again: who was nudged is in no memory any more.
        """
        self._called.update(await self._tools.store.commands.unheard(limit=MOST_CALLED))
        await self._claim()
        self._background = [
            asyncio.create_task(self._claiming(), name="claiming"),
            asyncio.create_task(self._renewing(), name="renewing"),
        ]

    async def drain(self, *, at_once: bool = False) -> None:
        """Let every run go at its next boundary, or cut it off when the grace is over.

        `at_once` cuts all off now: of a broken store no commit can be waited for.
        """
        self.draining = True
        await failpoints.hit_async("drain.begin")
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for runner in list(self._runners.values()):
            runner.suspend()
        tasks = set(self._tasks.values())
        if tasks:
            grace_s = 0 if at_once else self._settings.drain_grace_ms / 1000
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CUT_OFF_AT_ONCE_S if at_once else CUT_OFF_S)
        await failpoints.hit_async("drain.after_release")

    async def _claiming(self) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL_MS / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._claim()
            except StoreError:
                _log.warning("the store could not be asked for runs; trying again")

    async def _claim(self) -> None:
        late_ms = self._tools.live.clock.monotonic_ms() - self._renewed_ms
        if late_ms > self._settings.lease_ms // 2:
            await self._renew()  # this process was held up: its own leases come before others' runs
        room = self.room
        if room > 0:
            now = self._tools.live.clock.unix_ms()
            claims = await self._tools.store.leases.claim(self.worker, limit=room, now_unix_ms=now)
            self._take(claims, errand=False)
        if self.room <= 0:
            await self._claim_called()
        else:
            self._called &= self._tasks.keys()  # every other one was claimed, or needs nobody

    async def _claim_called(self) -> None:
        """With every place taken: those that were sent a command here, and those whose time has come.

        They are driven as far as they go without a call, so that no abort and no deadline waits for a place.
        """
        limit = ERRANDS + self.room
        if self.draining or limit <= 0:
            return
        called = frozenset(itertools.islice(self._called - self._tasks.keys(), limit))
        now = self._tools.live.clock.unix_ms()
        claims = await self._tools.store.leases.claim(
            self.worker, limit=limit, now_unix_ms=now, called=called
        )
        self._called -= called
        self._take(claims, errand=True)
        if self._called - self._tasks.keys():
            self._wake.set()

    def _take(self, claims: Sequence[Claim], *, errand: bool) -> None:
        for claim in claims:
            failpoints.hit("claim.after")
            runner = self._runners.get(claim.run_id)
            if runner is not None:
                runner.run.take_epoch(claim.epoch)  # it is driven here all along
                continue
            self._called.discard(claim.run_id)
            before = self._tasks.get(claim.run_id)
            self._begin(claim.run_id, self._drive_claimed(claim, after=before, errand=errand))

    async def _renewing(self) -> None:
        while True:
            await self._tools.live.clock.sleep(self._settings.lease_ms // 3)
            failpoints.hit("lease.renew")
            for runner in self._runners.values():
                runner.nudge()  # a nudge may have been lost, and the table is the truth
            try:
                await self._renew()
            except StoreError:
                _log.warning("leases could not be renewed; trying again")

    async def _renew(self) -> None:
        now = self._tools.live.clock.monotonic_ms()
        lost = await self._tools.store.leases.renew(self.worker, list(self._tasks))
        self._renewed_ms = now
        for run_id in lost:
            await self._check_lost(run_id)

    async def _check_lost(self, run_id: str) -> None:
        """Stop a run that a newer epoch owns. One that only ended or went dormant meanwhile is left alone."""
        runner = self._runners.get(run_id)
        if runner is None:
            return
        try:
            row = await self._tools.store.runs.get(runner.run.tenant, run_id)
        except StoreError:
            return
        if row is not None and row.epoch > runner.run.epoch and self._runners.get(run_id) is runner:
            _log.warning("a run was taken over by another worker", extra={"run_id": run_id})
            self._tasks[run_id].cancel()

    # --- one run -------------------------------------------------------------------------------

    def _begin(self, run_id: str, driving: Coroutine[None, None, Ending | None]) -> None:
        self._tasks[run_id] = asyncio.create_task(self._keep(run_id, driving), name=f"run {run_id}")

    async def _keep(self, run_id: str, driving: Coroutine[None, None, Ending | None]) -> None:
        """Where a run's task ends, whatever it ends by."""
        try:
            await driving
        except StoreError as error:
            _log.warning("a run was let go: %s", error, extra={"run_id": run_id})
        except UnknownFact:
            _log.error("a newer version wrote this run; it is left alone", extra={"run_id": run_id})
        except Exception:  # noqa: BLE001 - the run's task ends here
            _log.exception("a run's task failed", extra={"run_id": run_id})
        finally:
            if self._tasks.get(run_id) is asyncio.current_task():
                del self._tasks[run_id]
            if not self.draining:
                self._wake.set()

    async def _drive_new(self, row: RunRow, state: RunState) -> Ending | None:
        with self._live(row, state, epoch=1) as run:
            return await self._drive(run)

    async def _drive_claimed(
        self, claim: Claim, *, after: asyncio.Task[None] | None, errand: bool
    ) -> Ending | None:
        """Drive a claimed run, once the task that had it here before has ended."""
        if after is not None:
            after.cancel()  # the claim has fenced it, whatever it waits for
            await asyncio.wait({after})
        row, state, turn = await self._read(claim)
        if row is None or state is None:
            return None
        if state.epoch > claim.epoch:
            return None  # another worker has driven it while this one read: the claim is over
        with self._live(row, state, epoch=claim.epoch) as run:
            if claim.gap_ms is not None:
                run.charge(claim.gap_ms)
            if claim.epoch > state.epoch:
                run.note(RunRecovered(epoch=claim.epoch, cause=_cause(state, claim)))
            if turn is not None:
                run.note(turn)
            await run.flush()
            return await self._drive(run, errand=errand)

    async def _read(self, claim: Claim) -> tuple[RunRow | None, RunState | None, MessagesAppended | None]:
        """The run, its state, and whether its turn in a thread has come; nothing if it has ended.

        Waits while the store can't be reached.
        """
        while True:
            try:
                async with self._reading:
                    row = await self._tools.store.runs.get(claim.tenant, claim.run_id)
                    if row is None or row.phase.terminal:
                        return row, None, None
                    state = await self._tools.loading.state(row)
                    return row, state, await self._tools.live.threads.turn(row.tenant, state)
            except StoreUnavailable:
                await self._tools.live.clock.sleep(RETRY_MS)

    @contextmanager
    def _live(self, row: RunRow, state: RunState, *, epoch: int) -> Generator[LiveRun]:
        """The run as this process drives it; its channel is given back on the way out."""
        channel = self._tools.feed.drive(row.run_id)
        channel.head = max(channel.head, state.sequence)
        try:
            yield LiveRun(
                state,
                epoch=epoch,
                row=row,
                channel=channel,
                tools=self._tools.live,
            )
        finally:
            self._tools.feed.leave(row.run_id)

    def _has_place(self) -> bool:
        """True unless more runs are driven here than there are places."""
        return self.room >= 0

    async def _drive(self, run: LiveRun, *, errand: bool = False) -> Ending:
        store = self._tools.store
        kin = self._tools.live.kin
        inbox = Inbox(
            run.run_id,
            commands=store.commands,
            codec=self._tools.live.codec,
            arriving=lambda command: kin.arriving(command, run.state, run.tenant),
        )
        runner = Runner(
            run, inbox, tools=self._tools.runner, takes_place=self._has_place if errand else _always
        )
        self._runners[run.run_id] = runner
        if self.draining:
            runner.suspend()
        try:
            ending = await runner.drive()
        except (asyncio.CancelledError, StoreError):
            await store.leases.release(self.worker, run.run_id, epoch=run.epoch)
            raise
        finally:
            del self._runners[run.run_id]
        if ending is not Ending.FINISHED:
            heard = runner.heard if ending is Ending.DORMANT else 0
            await store.leases.release(self.worker, run.run_id, epoch=run.epoch, heard=heard)
        return ending


def _always() -> bool:
    """Whether a run has its place, of one that was claimed for a free one."""
    return True


def _cause(state: RunState, claim: Claim) -> RecoveryCause:
    if state.epoch == 0:
        return RecoveryCause.QUEUE
    if state.suspended:
        return RecoveryCause.DRAIN
    if state.dormant:
        return RecoveryCause.WAKE
    return RecoveryCause.DRAIN if claim.gap_ms is None else RecoveryCause.CRASH
