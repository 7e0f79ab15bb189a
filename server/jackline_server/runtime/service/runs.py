"""Runs as use cases: start, fork, control, read, wait, watch.

Owns nothing but the composition: each use case has a module of its own.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from jackline_server.core.facts import Fact, StepFinished
from jackline_server.core.messages import Message
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import transcript
from jackline_server.core.reading.result_tool import handle_of
from jackline_server.core.state import RunState, ToolCall
from jackline_server.runtime.driving.results import Results
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, Runs
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.reading.family_watching import FamilyWatching
from jackline_server.runtime.reading.feed import Feed
from jackline_server.runtime.reading.loading import Loading
from jackline_server.runtime.reading.watching import Watching, refuse_future
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.service.bulk_control import BulkControl, BulkControlling, BulkDone
from jackline_server.runtime.service.controlling import Controlling
from jackline_server.runtime.service.forking import Forking
from jackline_server.runtime.service.owning import Owning
from jackline_server.runtime.service.snapshots import Snapshots
from jackline_server.runtime.service.starting import Starting
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import (
    ControlRun,
    ForkRun,
    Frame,
    Live,
    Receipt,
    ResultPart,
    Snapshot,
    Started,
    StartRun,
)

POLL_MS = 1_000


class RunService:
    """Implements `service.ports.RunUseCases`."""

    def __init__(  # noqa: PLR0913 - one for each use case
        self,
        *,
        starting: Starting,
        forking: Forking,
        controlling: Controlling,
        bulk: BulkControlling,
        watching: Watching,
        families: FamilyWatching,
        snapshots: Snapshots,
        loading: Loading,
        runs: Runs,
        results: Results,
        feed: Feed,
        clock: Clock,
        owning: Owning,
    ) -> None:
        self._starting = starting
        self._forking = forking
        self._controlling = controlling
        self._bulk = bulk
        self._watching = watching
        self._families = families
        self._snapshots = snapshots
        self._loading = loading
        self._runs = runs
        self._results = results
        self._feed = feed
        self._clock = clock
        self._owning = owning

    async def start(self, request: StartRun) -> Started:
        """Make a run durable and return."""
        return await self._starting.start(request)

    async def fork(self, request: ForkRun) -> Started:
        """Make a run durable that begins with the first events of another, and return."""
        return await self._forking.fork(request)

    async def control(self, request: ControlRun) -> Receipt:
        """Make a command durable, then wait as far as asked."""
        return await self._controlling.control(request)

    async def bulk(self, request: BulkControl) -> BulkDone:
        """Give the runs of a page a command; what becomes of each."""
        return await self._bulk.bulk(request)

    async def get(self, tenant: Tenant, run_id: str) -> Snapshot:
        """The run as its durable facts have it."""
        with refusing_store_errors():
            return await self._snapshots.of(await self._snapshots.row(tenant, run_id))

    async def wait(self, tenant: Tenant, run_id: str, *, timeout_ms: int) -> Snapshot:
        """The same, once it is terminal or the time is over."""
        with refusing_store_errors():
            row = await self._snapshots.row(tenant, run_id)
            _, watcher = self._feed.subscribe(run_id, deltas=False)
            until = self._clock.monotonic_ms() + timeout_ms
            try:
                while not row.phase.terminal:
                    left = until - self._clock.monotonic_ms()
                    if left <= 0 or self._feed.closing:
                        break
                    await watcher.wait(min(left, POLL_MS))
                    row = await self._snapshots.row(tenant, run_id)
            finally:
                self._feed.unsubscribe(run_id, watcher)
            return await self._snapshots.of(row)

    async def page(self, query: RunQuery) -> RunPage:
        """A page of runs, those that are driven here as they are now."""
        with refusing_store_errors():
            page = await self._runs.page(query)
        return RunPage(rows=[self._snapshots.fresh(row) for row in page.rows], total=page.total)

    async def result(
        self, tenant: Tenant, run_id: str, call_id: str, *, part: int = 0, offset: int, limit: int
    ) -> ResultPart:
        """A piece of the whole result of a tool call, or of its error; or of a part of it."""
        snapshot = await self.get(tenant, run_id)
        call = _call(snapshot.state, call_id)
        if part > len(call.media):
            raise Refused(
                Reason.CALL_NOT_FOUND,
                f"The call's result has no part {part}; beside its text there are {len(call.media)}.",
                metadata={"run_id": run_id, "call_id": call_id},
            )
        with refusing_store_errors():
            if part:
                return await self._results.media(call.media[part - 1], tenant, offset=offset, limit=limit)
            return await self._results.part(call, tenant, offset=offset, limit=limit)

    async def messages(self, tenant: Tenant, run_id: str, *, step_id: str, visit: int) -> Sequence[Message]:
        """The conversation of one visit, as the model saw it."""
        snapshot = await self.get(tenant, run_id)
        wanted = _wanted(snapshot.state, step_id, visit)
        if wanted is None:
            _refuse_unknown(snapshot.state, step_id, visit)
            return ()

        def ends(state: RunState, fact: Fact) -> bool:
            inside = state.visit
            return (
                isinstance(fact, StepFinished)
                and inside is not None
                and (inside.step_id, inside.number) == wanted
            )

        with refusing_store_errors():
            state = await self._loading.state_until(snapshot.row, ends)
        step = state.plan.steps.get(wanted[0])
        return transcript.transcript(state, step) if isinstance(step, ModelStep) else ()

    @asynccontextmanager
    async def own(
        self, tenant: Tenant, run_id: str, *, after_sequence: int, grace_ms: int
    ) -> AsyncGenerator[None]:
        """Be an owner of a run for as long as the block lasts."""
        with refusing_store_errors():
            refuse_future(await self._snapshots.row(tenant, run_id), after_sequence)
        async with self._owning.held(run_id, grace_ms=grace_ms):
            yield

    def watch(
        self,
        tenant: Tenant,
        run_id: str,
        *,
        after_sequence: int,
        deltas: bool,
        positions: Mapping[str, int] | None = None,
        progress: bool = False,
    ) -> AsyncIterator[Frame]:
        """Replay and follow; ends after the terminal event, of its children too if `positions` are given."""
        live = Live(deltas=deltas, progress=progress or deltas)
        if positions is not None:
            return self._families.watch(
                tenant, run_id, after_sequence=after_sequence, live=live, positions=positions
            )
        return self._watching.watch(tenant, run_id, after_sequence=after_sequence, live=live)


def _call(state: RunState, call_id: str) -> ToolCall:
    """The call of that id, or the one whose result a model calls so."""
    call = state.calls.get(call_id)
    if call is None:
        call = next((one for one in state.calls.values() if handle_of(one) == call_id), None)
    if call is None:
        raise Refused(
            Reason.CALL_NOT_FOUND,
            "The run has no such tool call. List its calls.",
            metadata={"run_id": state.run_id, "call_id": call_id},
        )
    return call


def _refuse_unknown(state: RunState, step_id: str, visit: int) -> None:
    """Refuse a step that the workflow lacks, and a visit that was not made. A step may be still to come."""
    if step_id and step_id not in state.plan.steps:
        names = ", ".join(state.plan.steps)
        raise _no_such("step_id", f"The workflow has no step {step_id}; its steps are: {names}.", names)
    if visit:
        seen = [summary.step_id for summary in state.summaries]
        if state.visit is not None:
            seen.append(state.visit.step_id)
        visits = {name: count for name, count in Counter(seen).items() if step_id in ("", name)}
        made = ", ".join(f"{name} {count}" for name, count in visits.items()) or "none"
        raise _no_such("visit", f"There was no visit {visit} so far; the visits made are: {made}.", made)


def _no_such(field: str, message: str, known: str) -> Refused:
    violation = Violation(field=field, description=f"not one of: {known}", reason="unknown")
    return Refused(Reason.INVALID_REQUEST, message, violations=(violation,))


def _wanted(state: RunState, step_id: str, visit: int) -> tuple[str, int] | None:
    """The visit that is asked for: by step and number, or the last that asked a model."""
    seen = [(summary.step_id, summary.visit) for summary in state.summaries]
    if state.visit is not None:
        seen.append((state.visit.step_id, state.visit.number))
    for name, number in reversed(seen):
        if step_id and name != step_id:
            continue
        if visit and number != visit:
            continue
        if step_id or isinstance(state.plan.steps.get(name), ModelStep):
            return name, number
    return None
