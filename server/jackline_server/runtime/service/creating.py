"""Creating a run: one commit, once for a request id, driven from there.

Owns what every way to begin a run shares: the idempotent hit before anything else, admission, the commit, and
who drives the run then. Does not own what the run begins with (`starting`, `forking`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime

from jackline_server import failpoints
from jackline_server.core.facts import Phase
from jackline_server.core.frozen import frozen
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState
from jackline_server.runtime.driving.scheduler import Scheduler
from jackline_server.runtime.ports.codec import Codec, Record
from jackline_server.runtime.ports.journal import Creation, NewRun, RunHead
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.run_rows import RunQuery, RunRow
from jackline_server.runtime.ports.signals import Signals
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.switches import Engagement
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import Joining, Turn
from jackline_server.runtime.reading.histories import named_by
from jackline_server.runtime.reading.watching import not_found
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Caller, Disposition, Started

QUEUE_FACTOR = 10
"""So many times the active limit may wait in the queue."""


@frozen
class Order:
    """Who asks for a run. `fingerprint` matters only with a `request_id`."""

    caller: Caller
    request_id: str
    fingerprint: bytes
    labels: Mapping[str, str]


@frozen
class Birth:
    """What a run is given before its first fact. It is epoch 1 if this process drives it, 0 if it waits."""

    run_id: str
    unix_ms: int
    epoch: int


@frozen
class Draft:
    """What a run begins with: its first facts, and the state that they add up to."""

    state: RunState
    records: Sequence[Record]


class Creating:
    """Makes runs."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: Scheduler,
        signals: Signals,
        codec: Codec,
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._signals = signals
        self._codec = codec
        self._clock = clock
        self._chance = chance

    async def found(self, order: Order) -> Started | None:
        """The run of an earlier request with the same id and content. Raises Refused when none can begin."""
        found = (
            await self._store.runs.find_request(order.caller.tenant, order.request_id)
            if (order.request_id)
            else None
        )
        if found is None:
            if self._scheduler.draining:
                raise _draining()
            return None
        run_id, fingerprint = found
        if fingerprint != order.fingerprint:
            raise _reused(run_id)
        return await self._duplicate(order, run_id)

    async def create(
        self, order: Order, draft: Callable[[Birth], Awaitable[Draft]], *, delayed: bool = False
    ) -> Started:
        """Make the run that `draft` drafts, and drive it if there is a place. Raises Refused.

        One that is `delayed` waits in the store alone: it needs no place, and takes none in the queue.
        """
        started = await self.create_in(order, draft, None, delayed=delayed)
        if started is None:
            raise AssertionError("only a thread moves")
        return started

    async def create_in(
        self,
        order: Order,
        draft: Callable[[Birth], Awaitable[Draft]],
        joining: Joining | None,
        *,
        delayed: bool = False,
    ) -> Started | None:
        """The same for a run in a thread; None if the thread is not as it was read. Raises Refused."""
        waits = delayed or (joining is not None and joining.turn is not Turn.NOW)
        with nullcontext(enter_result=False) if waits else self._scheduler.place() as here:
            if not here and not delayed:
                await self._admit(order)
            birth = Birth(run_id=self._chance.new_id("run_"), unix_ms=self._clock.unix_ms(), epoch=int(here))
            made = await draft(birth)
            new = self._new_run(order, birth, made, joining)
            failpoints.hit("start.before_commit")
            created = await self._store.journal.create(new)
            failpoints.hit("start.after_commit_before_reply")
            match created.creation:
                case Creation.CONFLICT:
                    raise _reused(created.run_id)
                case Creation.DUPLICATE:
                    return await self._duplicate(order, created.run_id)
                case Creation.MOVED:
                    return None
                case Creation.HALTED:
                    raise _halted(await self._store.switches.newest(order.caller.tenant))
                case Creation.CREATED:
                    return self._begin(new, made.state, here=here)

    async def refuse_halted(self, tenant: Tenant) -> None:
        """Refuse what begins no run of its own where none may begin. Raises Refused(KILL_SWITCH_ENGAGED)."""
        newest = await self._store.switches.newest(tenant)
        if newest is not None and newest.engaged:
            raise _halted(newest)

    async def _duplicate(self, order: Order, run_id: str) -> Started:
        row = await self._store.runs.get(order.caller.tenant, run_id)
        if row is None:
            raise not_found(run_id)
        return Started(row=row, disposition=Disposition.DEDUPLICATED)

    async def _admit(self, order: Order) -> None:
        query = RunQuery(
            tenant=order.caller.tenant,
            phases=frozenset({Phase.QUEUED}),
            without_delayed=True,
            labels={},
            limit=1,
        )
        page = await self._store.runs.page(query)
        limit = self._scheduler.most_active * QUEUE_FACTOR
        if page.total >= limit:
            raise Refused(
                Reason.RUN_LIMIT,
                f"{page.total} runs wait already. Try again later.",
                metadata={"limit": str(limit)},
                retry_after_ms=5_000,
            )

    def _begin(self, new: NewRun, state: RunState, *, here: bool) -> Started:
        row = RunRow(
            tenant=new.tenant,
            run_id=new.run_id,
            workflow=new.workflow,
            plan_digest=new.plan_digest,
            labels=new.labels,
            created_unix_ms=new.created_unix_ms,
            finished_unix_ms=None,
            epoch=int(here),
            owner=new.owner,
            head_sequence=state.sequence,
            phase=state.phase,
            summary=new.summary,
            thread_id="" if new.thread is None else new.thread.thread_id,
            waits_for_turn=new.thread is not None and new.thread.turn is not Turn.NOW,
        )
        if here:
            self._scheduler.adopt(row, state)
            return Started(row=row, disposition=Disposition.STARTED)
        if not new.head.is_delayed:
            self._signals.nudge(new.run_id)
        return Started(row=row, disposition=Disposition.QUEUED)

    def _new_run(self, order: Order, birth: Birth, draft: Draft, joining: Joining | None) -> NewRun:
        state = draft.state
        first, *rest = [self._codec.encode(record) for record in draft.records]
        return NewRun(
            tenant=order.caller.tenant,
            run_id=birth.run_id,
            workflow=state.plan.name,
            plan_digest=state.plan.digest,
            plan=self._codec.encode_plan(state.plan),
            labels=order.labels,
            created_unix_ms=birth.unix_ms,
            request_id=order.request_id,
            fingerprint=order.fingerprint,
            owner=self._scheduler.worker if birth.epoch else None,
            first=first,
            rest=rest,
            head=RunHead(
                phase=state.phase,
                wake_unix_ms=timing.wake_unix_ms(state),
                open_interrupts=len(state.oversight.interrupts),
                is_delayed=state.is_delayed,
            ),
            summary=self._codec.summarize(state, created_unix_ms=birth.unix_ms, finished_unix_ms=None),
            thread=joining,
            blobs=[digest for record in draft.records for digest in named_by(record.fact)],
        )


def _reused(run_id: str) -> Refused:
    return Refused(
        Reason.REQUEST_ID_REUSED,
        "The request id was used with another content. Use a fresh one.",
        metadata={"run_id": run_id},
    )


def _halted(newest: Engagement | None) -> Refused:
    since = "" if newest is None else _stamp(newest.engaged_unix_ms)
    return Refused(
        Reason.KILL_SWITCH_ENGAGED,
        f"The kill switch is engaged since {since}: no run begins. Ask who engaged it to release it.",
        metadata={"since": since},
    )


def _stamp(unix_ms: int) -> str:
    """A moment to the second, in UTC."""
    return datetime.fromtimestamp(unix_ms // 1000, UTC).isoformat().replace("+00:00", "Z")


def _draining() -> Refused:
    return Refused(
        Reason.DRAINING,
        "The server is going down. Try again with the same request id.",
        retry_after_ms=2_000,
    )
