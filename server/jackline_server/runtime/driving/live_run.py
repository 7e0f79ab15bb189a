"""A run that this process is driving: its log, and the state the log adds up to.

Owns append, fold and publish. Facts are noted first: folded into the working state and buffered. `flush`
commits everything noted so far at once, and only then makes it visible. So a result and the announcement
of what follows from it share one commit, and nothing is shown that a crash could take back: readers see
`durable`, never `state`.
"""

import asyncio
from collections.abc import Sequence

from jackline_server import failpoints
from jackline_server.core.commands import ended_id
from jackline_server.core.evolve import evolve
from jackline_server.core.exits import RUNNING
from jackline_server.core.facts import (
    ChildFinished,
    ChildStarted,
    CommandApplied,
    CommandRejected,
    Fact,
    MessagesAppended,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    RunFinished,
    RunRecovered,
    RunStarted,
    RunSuspended,
    StepFinished,
    StepStarted,
    TimerFired,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.frozen import change, frozen
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment
from jackline_server.runtime.driving.committing import Committer
from jackline_server.runtime.driving.kin import Kin
from jackline_server.runtime.driving.outboxes import Outbox
from jackline_server.runtime.driving.replies import ReplyBuilder
from jackline_server.runtime.driving.thread_shares import ThreadShares
from jackline_server.runtime.ports.codec import Codec, Envelope, Record
from jackline_server.runtime.ports.command_table import CommandOutcome, CommandState
from jackline_server.runtime.ports.journal import Append, Journal, NewRun, RunHead, StoredEvent
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.reading.feed import Channel
from jackline_server.runtime.reading.histories import HOLDING, named_by
from jackline_server.runtime.use_cases import LiveDelta

SUMMARY_MS = 1_000
"""How often what each turn changes (usage, spending, time) is written for lists, at most."""

_OF_THE_RUN = frozenset((RunStarted, RunRecovered, RunSuspended, RunFinished, TimerFired, MessagesAppended))
_OF_TURNS = frozenset((ModelCallStarted, ModelReplied, ToolCallRequested, ToolCallStarted, ToolCallFinished))
"""The facts that change nothing of where a run stands, nor let its active time stand still or go on."""

_SETTLING = frozenset((CommandApplied, CommandRejected, ChildFinished))
_ENDING_AN_ATTEMPT = frozenset((ModelCallFailed, RunRecovered))


@frozen
class LiveRunTools:
    """What every live run shares."""

    journal: Journal
    codec: Codec
    clock: Clock
    threads: ThreadShares
    kin: Kin
    outbox: Outbox | None = None


class LiveRun:
    """One driven run. Not shared between tasks but for `record`, which may be called concurrently."""

    def __init__(
        self, state: RunState, *, epoch: int, row: RunRow, channel: Channel, tools: LiveRunTools
    ) -> None:
        """Take over a replayed state. `epoch` is the one of the claim, `row` the run as it was claimed."""
        self.heard: ReplyBuilder | None = None
        """What has come of the model call under way: it is kept if that breaks off."""
        self._tools = tools
        self._created_unix_ms = row.created_unix_ms
        self.tenant = row.tenant
        self.labels = row.labels
        self.channel = channel
        self._state = state
        self._durable = state
        self._noted: list[tuple[Record, RunState]] = []
        self._births: dict[str, NewRun] = {}
        self._committing = asyncio.Lock()
        self._committer = Committer(epoch, journal=tools.journal, clock=tools.clock)
        self._active_base_ms = state.active_ms
        self._active_since_ms: int | None = None
        self._shown: tuple[RunHead, str] | None = None
        self._shown_ms = 0
        self.is_queued = False
        """True while the run waits for a place at a model: a boundary like any other."""
        self._run_clock()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._state.run_id

    @property
    def state(self) -> RunState:
        """What the facts noted so far add up to. For deciding; never for showing."""
        return self._state

    @property
    def durable(self) -> RunState:
        """What the committed facts add up to."""
        return self._durable

    @property
    def epoch(self) -> int:
        """The epoch that this process writes under."""
        return self._committer.epoch

    def take_epoch(self, epoch: int) -> None:
        """Write under a newer epoch from here on: this process claimed the run that it drives."""
        self._committer.epoch = epoch

    def active_ms(self) -> int:
        """The run's active time now."""
        if self._active_since_ms is None:
            return self._active_base_ms
        return self._active_base_ms + self._tools.clock.monotonic_ms() - self._active_since_ms

    def stand_still(self, *, is_queued: bool) -> None:
        """Let active time stand still while the run is queued for a model, and go on after that."""
        self.is_queued = is_queued
        self._run_clock()

    def charge(self, gap_ms: int) -> None:
        """Count time that passed while nobody drove the run."""
        if self._active_since_ms is not None:
            self._active_base_ms += gap_ms

    def moment(self) -> Moment:
        """Now, for `decide`."""
        return Moment(active_ms=self.active_ms(), unix_ms=self._tools.clock.unix_ms())

    def note(self, *facts: Fact) -> None:
        """Fold facts into the working state; they become durable with the next flush."""
        for fact in facts:
            before, active_ms = self._state, self.active_ms()
            self._state = state = evolve(before, fact, active_ms=active_ms)
            if state.active_ms > active_ms:  # the time of a child that this run waited for
                self._active_base_ms += state.active_ms - active_ms
                active_ms = state.active_ms
            envelope = envelope_of(
                fact,
                before,
                sequence=state.sequence,
                active_ms=active_ms,
                unix_ms=self._tools.clock.unix_ms(),
            )
            self._noted.append((Record(envelope=envelope, fact=fact), before))
            if type(fact) not in _OF_TURNS:
                self._run_clock()

    def bear(self, births: Sequence[NewRun]) -> None:
        """Have the commit of their ChildStarted create these runs."""
        self._births.update((new.run_id, new) for new in births)

    async def record(self, *facts: Fact) -> None:
        """Make facts durable, together with everything noted before them."""
        self.note(*facts)
        await self.flush()

    async def flush(self) -> None:
        """Commit what was noted, then publish it. Waits while the store has no room or can't be reached.

        Raises:
            Fenced: another worker owns the run.
            HeadMismatch: the store does not hold what this process knows.
            CommandsWaiting: the run's end was noted, and commands have come; `take_back` the end.
        """
        async with self._committing:
            while self._noted:
                noted = list(self._noted)
                state = self._state
                events = [self._tools.codec.encode(record) for record, _ in noted]
                finishing = isinstance(noted[-1][0].fact, RunFinished)
                if finishing:
                    failpoints.hit("finish.before_commit")
                append = self._append_of(noted, events, state, finishing=finishing)
                if finishing and state.in_thread:
                    append = change(append, thread=await self._tools.threads.of(self.tenant, state))
                count = await self._committer.commit(append)
                del self._noted[:count]
                if append.births or append.messages:
                    self._delivered(append)
                if append.deliveries and self._tools.outbox is not None:
                    self._tools.outbox.nudge()
                self._durable = self._noted[0][1] if self._noted else state
                if append.summary is not None:
                    # Only now: a commit that was refused, or was written in part before, has shown nothing.
                    self._shown = None if self._noted else _standing(state, append.head)
                    self._shown_ms = self._tools.clock.monotonic_ms()
                await self._publish(noted[:count], events[:count], ended=finishing and not self._noted)

    def take_back(self) -> None:
        """Undo the noted end of the run, if it is not durable yet."""
        if self._noted and isinstance(self._noted[-1][0].fact, RunFinished):
            self._state = self._noted.pop()[1]
            self._run_clock()

    def discard(self) -> None:
        """Drop everything noted and not committed."""
        self._noted.clear()
        self._births.clear()
        self._state = self._durable

    def show(self, delta: LiveDelta) -> None:
        """Show a live piece to watchers; nothing is kept."""
        if self.channel.watchers:
            self.channel.publish_delta(delta)

    # --- commit --------------------------------------------------------------------------------

    def _append_of(
        self,
        noted: Sequence[tuple[Record, RunState]],
        events: Sequence[StoredEvent],
        state: RunState,
        *,
        finishing: bool,
    ) -> Append:
        finished_unix_ms = noted[-1][0].envelope.unix_ms if finishing else None
        head = self._head(noted, state)
        outbox = self._tools.outbox
        return Append(
            run_id=state.run_id,
            epoch=self._committer.epoch,
            after_sequence=events[0].sequence - 1,
            events=events,
            head=head,
            summary=self._summary(state, head, finished_unix_ms),
            settled=[_outcome(record) for record, _ in noted if type(record.fact) in _SETTLING],
            finishing=finishing,
            finished_unix_ms=finished_unix_ms,
            blobs=[
                digest
                for record, _ in noted
                if type(record.fact) in HOLDING
                for digest in named_by(record.fact)
            ],
            births=self._born_by(noted) if self._births else (),
            messages=self._tools.kin.messages(noted, state),
            deliveries=() if outbox is None else outbox.owed(noted, state, labels=self.labels),
        )

    def _born_by(self, noted: Sequence[tuple[Record, RunState]]) -> list[NewRun]:
        facts = (record.fact for record, _ in noted)
        return [self._births[fact.child_run_id] for fact in facts if isinstance(fact, ChildStarted)]

    def _delivered(self, append: Append) -> None:
        for new in append.births:
            self._births.pop(new.run_id, None)
        self._tools.kin.nudge(append)

    def _head(self, noted: Sequence[tuple[Record, RunState]], state: RunState) -> RunHead:
        """Where the run stands; what was shown last, while it only makes turns."""
        if self._shown is not None and all(type(record.fact) in _OF_TURNS for record, _ in noted):
            return self._shown[0]
        return RunHead(
            phase=state.phase,
            wake_unix_ms=timing.wake_unix_ms(state),
            open_interrupts=len(state.oversight.interrupts),
            is_delayed=state.is_delayed,
        )

    def _summary(self, state: RunState, head: RunHead, finished_unix_ms: int | None) -> bytes | None:
        """What lists show of the run, if where it stands has changed or they have not heard for a while."""
        late_ms = self._tools.clock.monotonic_ms() - self._shown_ms
        if finished_unix_ms is None and _standing(state, head) == self._shown and late_ms < SUMMARY_MS:
            return None
        return self._tools.codec.summarize(
            state, created_unix_ms=self._created_unix_ms, finished_unix_ms=finished_unix_ms
        )

    async def _publish(
        self,
        noted: Sequence[tuple[Record, RunState]],
        events: Sequence[StoredEvent],
        *,
        ended: bool,
    ) -> None:
        await failpoints.hit_async("event.after_commit_before_publish")
        self.channel.publish(events, ended=ended)
        for record, before in noted:
            _pass_failpoint(record.fact)
            if type(record.fact) in _ENDING_AN_ATTEMPT and before.visit is not None:
                lost = before.visit.model_call
                if lost is not None:
                    self.channel.reset(lost.sequence)

    # --- where and when ------------------------------------------------------------------------

    def _run_clock(self) -> None:
        """Let active time run while the run is active, and stand still while it is dormant or queued."""
        dormant = self.is_queued or self._state.dormant or self._state.finished is not None
        if dormant and self._active_since_ms is not None:
            self._active_base_ms = self.active_ms()
            self._active_since_ms = None
        elif not dormant and self._active_since_ms is None:
            self._active_since_ms = self._tools.clock.monotonic_ms()


def _standing(state: RunState, head: RunHead) -> tuple[RunHead, str]:
    """Where a run stands, as far as lists show it at once."""
    return head, "" if state.visit is None else state.visit.step_id


def envelope_of(fact: Fact, before: RunState, *, sequence: int, active_ms: int, unix_ms: int) -> Envelope:
    """Where a fact happened: the step, visit and turn that the state before it was in."""
    visit = before.visit
    step_id, number, iteration, signal = "", 0, 0, RUNNING
    if isinstance(fact, StepStarted):
        step_id, number = fact.step_id, fact.visit
    elif visit is not None and type(fact) not in _OF_THE_RUN:
        step_id, number = visit.step_id, visit.number
        iteration = fact.iteration if isinstance(fact, ModelCallStarted) else visit.iteration
    if isinstance(fact, (StepFinished, RunFinished)):
        signal = fact.signal
    return Envelope(
        run_id=before.run_id,
        sequence=sequence,
        unix_ms=unix_ms,
        active_ms=active_ms,
        step_id=step_id,
        visit=number,
        iteration=iteration,
        signal=signal,
        parent_run_id="" if before.started.parent is None else before.started.parent.run_id,
    )


def _outcome(record: Record) -> CommandOutcome:
    """What a fact that settles a command says of it."""
    fact = record.fact
    if isinstance(fact, ChildFinished):
        return _applied(ended_id(fact.child_run_id), record)
    rejected = isinstance(fact, CommandRejected)
    if not rejected and not isinstance(fact, CommandApplied):
        raise TypeError(f"{type(fact).__name__} settles no command")
    if not rejected:
        return _applied(fact.command_id, record)
    return CommandOutcome(
        command_id=fact.command_id,
        state=CommandState.REJECTED,
        sequence=record.envelope.sequence,
        rejection=fact.rejection.value,
    )


def _applied(command_id: str, record: Record) -> CommandOutcome:
    return CommandOutcome(
        command_id=command_id,
        state=CommandState.APPLIED,
        sequence=record.envelope.sequence,
        rejection="",
    )


def _pass_failpoint(fact: Fact) -> None:
    """The places right after the commits that tests ask for by name."""
    match fact:
        case ModelReplied():
            failpoints.hit("loop.model.after_commit")
        case ToolCallFinished():
            failpoints.hit("tool.after_commit")
        case CommandApplied():
            failpoints.hit("control.after_apply")
        case RunFinished():
            failpoints.hit("finish.after_commit")
        case _:
            return
