"""Forking a run: from a request to a durable run that begins with another's first facts.

Owns reading those facts, the nearest events at which a fork can be made, and the refusals. What a fork takes
over and where a log may be cut is `core.forking`; the run itself is made by `creating`.

The facts are folded a page at a time, so that a long log lets others have the loop between. All of them are
in memory until they are written, and so only a few forks are made at once.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from jackline_server.core import json_text
from jackline_server.core.errors import CorruptLog
from jackline_server.core.evolve import begin, evolve
from jackline_server.core.fact_names import fact_name
from jackline_server.core.facts import Fact, ForkOrigin, RunStarted
from jackline_server.core.frozen import change, frozen
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import OnQuestion, Plan, RunBounds
from jackline_server.core.recorded import forking
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.forking import Fork
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment
from jackline_server.runtime.driving.live_run import envelope_of
from jackline_server.runtime.driving.masking import masked_words
from jackline_server.runtime.ports.codec import Codec, Record, UnknownFact
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.runtime.reading.loading import PAGE_EVENTS, Loading
from jackline_server.runtime.reading.watching import not_found
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.service.creating import Birth, Creating, Draft, Order
from jackline_server.runtime.service.start_bounds import bounds_for
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import ForkRun, Started
from jackline_server.runtime.workflows.workflows import Workflows

MOST_BYTES = 64 * 1024 * 1024
"""What the events that a fork takes over may come to: they are written in one commit."""

MOST_LABELS = 32

AT_ONCE = 4
"""Forks that are made at once."""


@frozen
class _Prefix:
    """The facts that a fork takes over, and where they end."""

    row: RunRow
    plan: Plan
    records: Sequence[Record]

    @property
    def started(self) -> RunStarted:
        first = self.records[0].fact
        if not isinstance(first, RunStarted):
            raise StoreDamaged(f"run {self.row.run_id} does not begin with its start")
        return first


@frozen
class _Terms:
    """What the fork goes on with."""

    plan: Plan
    bounds: RunBounds
    on_question: OnQuestion


class Forking:
    """The use case `fork`."""

    def __init__(  # noqa: PLR0913 - one for each thing a fork touches
        self,
        *,
        store: Store,
        creating: Creating,
        workflows: Workflows,
        loading: Loading,
        codec: Codec,
        schemas: SchemaValidator,
        limits: RunLimits,
        masks: Masks,
    ) -> None:
        self._store = store
        self._creating = creating
        self._workflows = workflows
        self._loading = loading
        self._codec = codec
        self._schemas = schemas
        self._limits = limits
        self._masks = masks
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def fork(self, request: ForkRun) -> Started:
        """See `service.ports.RunUseCases.fork`."""
        with refusing_store_errors():
            order = Order(
                caller=request.caller,
                request_id=request.request_id,
                fingerprint=request.fingerprint,
                labels=request.labels,
            )
            found = await self._creating.found(order)
            if found is not None:
                return found
            row = await self._origin(request)
            order = change(order, labels=_labels(row, request))
            async with self._turns:
                return await self._made(request, row, order)

    async def _made(self, request: ForkRun, row: RunRow, order: Order) -> Started:
        try:
            prefix = await self._prefix(request, row)
        except UnknownFact:
            raise Refused(
                Reason.DATA_VERSION_NEWER,
                "A newer version wrote this run. Ask a server of that version.",
                metadata={"run_id": row.run_id},
            ) from None
        terms = await self._terms(request, prefix)
        said = None if terms.plan.gates is None else terms.plan.gates.mask_input
        request = change(request, steer=await masked_words(request.steer, said, self._masks))

        async def draft(birth: Birth) -> Draft:
            return await self._drafted(request, prefix, terms, birth)

        return await self._creating.create(order, draft)

    async def _origin(self, request: ForkRun) -> RunRow:
        row = await self._store.runs.get(request.caller.tenant, request.run_id)
        if row is None:
            raise not_found(request.run_id)
        if request.sequence > row.head_sequence:
            raise Refused(
                Reason.SEQUENCE_IN_FUTURE,
                f"The run has no event {request.sequence}. Fork at {row.head_sequence} or earlier.",
                metadata={"head_sequence": str(row.head_sequence)},
            )
        return row

    # --- the facts -----------------------------------------------------------------------------

    async def _prefix(self, request: ForkRun, row: RunRow) -> _Prefix:
        """The facts up to the one that is asked for. Raises Refused(FORK_POINT) where none can be made."""
        plan = await self._loading.plan(row.plan_digest)
        records: list[Record] = []
        state: RunState | None = None
        before = after = 0
        async with aclosing(self._records(row, request.sequence)) as log:
            record = await anext(log, None)
            while record is not None and not after:
                following = await anext(log, None)
                state = _next_state(row, plan, state, record)
                if state.sequence <= request.sequence:
                    records.append(record)
                if _will_do(request, state, record.fact, following):
                    if state.sequence == request.sequence:
                        return _Prefix(row=row, plan=plan, records=records)
                    before, after = (
                        (state.sequence, 0) if state.sequence < request.sequence else (before, state.sequence)
                    )
                record = following
        raise _no_fork(request, before=before, after=after)

    async def _records(self, row: RunRow, upto: int) -> AsyncGenerator[Record, None]:
        """The log from its first event. Refuses more than MOST_BYTES up to there."""
        position = size = 0
        while True:
            events = await self._store.journal.read(row.run_id, after_sequence=position, limit=PAGE_EVENTS)
            if not events:
                return
            for event in events:
                size += len(event.meta) + len(event.content) if event.sequence <= upto else 0
                if size > MOST_BYTES:
                    raise _too_large(event.sequence)
                yield await self._loading.record(row, event)
            position = events[-1].sequence
            await asyncio.sleep(0)

    # --- what changes --------------------------------------------------------------------------

    async def _terms(self, request: ForkRun, prefix: _Prefix) -> _Terms:
        own, started = prefix.plan, prefix.started
        plan = own
        if request.workflow:
            plan = await self._workflows.plan_for(request.caller.tenant, request.workflow, None)
            if plan.name != own.name:
                raise _another_workflow(own.name)
            plan = own if plan.digest == own.digest else plan
        if plan is own:
            await self._workflows.require_tools(own)
        elif plan.input_schema_json is not None:
            value = json_text.parse(started.input_json)
            if self._schemas.problem(plan.input_schema_json, value) is not None:
                raise _misfit(1, prefix.records[0].fact, plan, "its input does not fit the schema")
        question = started.on_question
        return _Terms(
            plan=plan,
            bounds=bounds_for(
                plan,
                request.bounds,
                path="changes.bounds",
                most=self._limits.most,
                base=forking.carried(started.bounds, own.bounds, plan.bounds),
            ),
            on_question=plan.on_question if question is own.on_question else question,
        )

    async def _drafted(self, request: ForkRun, prefix: _Prefix, terms: _Terms, birth: Birth) -> Draft:
        fork = Fork(
            origin=ForkOrigin(run_id=prefix.row.run_id, sequence=request.sequence),
            principal=request.caller.principal,
            bounds=terms.bounds,
            on_question=terms.on_question,
            deadline_unix_ms=request.deadline_unix_ms,
            epoch=birth.epoch,
            unix_ms=birth.unix_ms,
        )
        first, *rest = prefix.records
        started = forking.started_anew(prefix.started, terms.plan, fork)
        state = begin(birth.run_id, terms.plan, started, active_ms=first.envelope.active_ms)
        records = [_renamed(first, started, birth)]
        for record in rest:
            fact = forking.taken_over(_entry(record), fork)
            found = forking.folded(state, fact, active_ms=record.envelope.active_ms, own=prefix.plan)
            if isinstance(found, str):
                raise _misfit(record.envelope.sequence, fact, terms.plan, found)
            state = found
            records.append(_renamed(record, fact, birth))
            if len(records) % PAGE_EVENTS == 0:
                await asyncio.sleep(0)
        if state.next_step and state.next_step not in terms.plan.steps:
            raise _misfit(1, started, terms.plan, f"it has no step {state.next_step}")
        return _guided(Draft(state=state, records=records), request, birth)


def _guided(draft: Draft, request: ForkRun, birth: Birth) -> Draft:
    """The draft with its guidance, if some is given. Raises Refused(FORK_POINT)."""
    if not request.steer:
        return draft
    state = draft.state
    now = Moment(active_ms=state.active_ms, unix_ms=birth.unix_ms)
    steered = forking.guidance(state, principal=request.caller.principal, text=request.steer, now=now)
    if steered is None:
        raise _no_turn(request)
    after = evolve(state, steered, active_ms=state.active_ms)
    envelope = envelope_of(
        steered, state, sequence=after.sequence, active_ms=state.active_ms, unix_ms=birth.unix_ms
    )
    return Draft(state=after, records=[*draft.records, Record(envelope=envelope, fact=steered)])


def _will_do(request: ForkRun, state: RunState, fact: Fact, following: Record | None) -> bool:
    if not forking.goes_on(state, fact, None if following is None else following.fact):
        return False
    return not request.steer or forking.takes_guidance(state)


def _next_state(row: RunRow, plan: Plan, state: RunState | None, record: Record) -> RunState:
    if state is not None:
        try:
            return evolve(state, record.fact, active_ms=record.envelope.active_ms)
        except CorruptLog as error:
            raise StoreDamaged(f"run {row.run_id}: {error}") from error
    if not isinstance(record.fact, RunStarted):
        raise StoreDamaged(f"run {row.run_id} does not begin with its start")
    return begin(row.run_id, plan, record.fact, active_ms=record.envelope.active_ms)


def _labels(row: RunRow, request: ForkRun) -> dict[str, str]:
    labels = {**row.labels, **request.labels}
    if len(labels) <= MOST_LABELS:
        return labels
    raise _invalid(
        f"The fork would have {len(labels)} labels and may have {MOST_LABELS}. Give fewer.",
        Violation(
            field="changes.labels",
            description=f"with those of the run {len(labels)}, at most {MOST_LABELS}",
            reason="TOO_MANY",
        ),
    )


def _entry(record: Record) -> Entry:
    envelope = record.envelope
    return Entry(fact=record.fact, active_ms=envelope.active_ms, unix_ms=envelope.unix_ms)


def _renamed(record: Record, fact: Fact, birth: Birth) -> Record:
    """The record as the fork's own: recorded now, at the same place."""
    envelope = change(record.envelope, run_id=birth.run_id, unix_ms=birth.unix_ms, parent_run_id="")
    return Record(envelope=envelope, fact=fact)


# --- refusals ----------------------------------------------------------------------------------


def _no_fork(request: ForkRun, *, before: int, after: int) -> Refused:
    near = {"before": before, "after": after}
    metadata = {name: str(sequence) for name, sequence in near.items() if sequence}
    known = " or ".join(metadata.values())
    what = "A fork with guidance" if request.steer else "A fork"
    hint = f"Fork at {known}." if known else "Start a run instead."
    return Refused(
        Reason.FORK_POINT,
        f"{what} can't be made at event {request.sequence}: {_why(request)}. {hint}",
        metadata={"sequence": str(request.sequence), **metadata},
    )


def _why(request: ForkRun) -> str:
    if request.steer:
        return "a call is open there, no model is asked, or the run was ending"
    return "a call is under way there, or the run was ending"


def _no_turn(request: ForkRun) -> Refused:
    return Refused(
        Reason.FORK_POINT,
        f"No turn would follow the guidance at event {request.sequence} under the fork's bounds. "
        "Fork earlier, or give other bounds.",
        metadata={"sequence": str(request.sequence)},
    )


def _misfit(sequence: int, fact: Fact, plan: Plan, why: str) -> Refused:
    kind = fact_name(fact)
    return Refused(
        Reason.PREFIX_MISFIT,
        f"Event {sequence} ({kind}) does not fit the workflow: {why}. Fork earlier, or take another one.",
        metadata={"sequence": str(sequence), "fact": kind, "workflow": f"{plan.name}@{plan.digest}"},
        violations=(
            Violation(field="changes.workflow", description=f"event {sequence}: {why}", reason="MISFIT"),
        ),
    )


def _another_workflow(name: str) -> Refused:
    return _invalid(
        f"A fork goes on with its own workflow, {name}. Name a revision of it.",
        Violation(field="changes.workflow", description=f"not a revision of {name}", reason="OTHER_WORKFLOW"),
    )


def _too_large(sequence: int) -> Refused:
    return _invalid(
        f"The events before {sequence} come to more than {MOST_BYTES} bytes. Fork earlier.",
        Violation(
            field="sequence", description=f"more than {MOST_BYTES} bytes of events", reason="TOO_LARGE"
        ),
    )


def _invalid(message: str, violation: Violation) -> Refused:
    return Refused(Reason.INVALID_REQUEST, message, violations=(violation,))
