"""Starting a run: from a request to a durable first fact.

Owns the order: the idempotent hit before anything else, then admission, the workflow, the input, the
bounds, and one commit.
"""

from jackline_server import failpoints
from jackline_server.core import json_text, timing
from jackline_server.core.evolve import begin
from jackline_server.core.facts import Phase, RunStarted
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import Plan, RunBounds
from jackline_server.core.state import RunState
from jackline_server.runtime.live_run import envelope_of
from jackline_server.runtime.ports import Chance, Clock, Codec, Record, Signals
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.scheduler import Scheduler
from jackline_server.runtime.store_ports import (
    Creation,
    NewRun,
    RunHead,
    RunQuery,
    RunRow,
    Store,
)
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Disposition, Started, StartRun, tightened
from jackline_server.runtime.watching import not_found
from jackline_server.runtime.workflows import Workflows

SHOWN_PROBLEMS = 5
"""So many reasons are told why an input does not fit."""
QUEUE_FACTOR = 10
"""So many times the active limit may wait in the queue."""


class Starting:
    """The use case `start`."""

    def __init__(  # noqa: PLR0913 - the collaborators of one commit
        self,
        *,
        store: Store,
        workflows: Workflows,
        scheduler: Scheduler,
        signals: Signals,
        codec: Codec,
        schemas: SchemaValidator,
        clock: Clock,
        chance: Chance,
        max_active_runs: int,
    ) -> None:
        self._store = store
        self._workflows = workflows
        self._scheduler = scheduler
        self._signals = signals
        self._codec = codec
        self._schemas = schemas
        self._clock = clock
        self._chance = chance
        self._queue_limit = max_active_runs * QUEUE_FACTOR

    async def start(self, request: StartRun) -> Started:
        """See `service_ports.RunUseCases.start`."""
        with refusing_store_errors():
            found = await self._found(request)
            if found is not None:
                return found
            if self._scheduler.draining:
                raise _draining()
            plan = await self._workflows.plan_for(request.caller.tenant, request.workflow, request.inline)
            bounds = self._bounds(plan, request)
            self._check_input(plan, request)
            with self._scheduler.place() as here:
                if not here:
                    await self._admit(request)
                return await self._create(request, plan, bounds, here=here)

    async def _found(self, request: StartRun) -> Started | None:
        """The run of an earlier request with the same id and content."""
        if not request.request_id:
            return None
        found = await self._store.runs.find_request(request.caller.tenant, request.request_id)
        if found is None:
            return None
        run_id, fingerprint = found
        if fingerprint != request.fingerprint:
            raise _reused(run_id)
        return await self._duplicate(request, run_id)

    async def _duplicate(self, request: StartRun, run_id: str) -> Started:
        row = await self._store.runs.get(request.caller.tenant, run_id)
        if row is None:
            raise not_found(run_id)
        return Started(row=row, disposition=Disposition.DEDUPLICATED)

    async def _admit(self, request: StartRun) -> None:
        query = RunQuery(tenant=request.caller.tenant, phases=frozenset({Phase.QUEUED}), labels={}, limit=1)
        page = await self._store.runs.page(query)
        if page.total >= self._queue_limit:
            raise Refused(
                Reason.RUN_LIMIT,
                f"{page.total} runs wait already. Try again later.",
                metadata={"limit": str(self._queue_limit)},
                retry_after_ms=5_000,
            )

    def _bounds(self, plan: Plan, request: StartRun) -> RunBounds:
        bounds, looser = tightened(plan.bounds, request.bounds)
        if looser:
            name = looser[0]
            limit = getattr(plan.bounds, f"{name}_ms" if name == "run_timeout" else name)
            raise Refused(
                Reason.BOUND_TOO_HIGH,
                f"bounds.{name} is looser than the workflow's. Give at most {limit}.",
                metadata={"field": f"bounds.{name}", "limit": str(limit)},
                violations=tuple(
                    Violation(
                        field=f"bounds.{one}", description="looser than the workflow's", reason="looser"
                    )
                    for one in looser
                ),
            )
        unpriced = sorted(name for name, model in plan.models.items() if model.price is None)
        if bounds.cost_budget_micros is not None and unpriced:
            raise Refused(
                Reason.INVALID_REQUEST,
                f"bounds.cost_budget_micros needs a price for {unpriced[0]}. Set one in its profile.",
                violations=(
                    Violation(
                        field="bounds.cost_budget_micros",
                        description=f"the price of {', '.join(unpriced)} is unknown",
                        reason="unpriced_model",
                    ),
                ),
            )
        return bounds

    def _check_input(self, plan: Plan, request: StartRun) -> None:
        if plan.input_schema_json is None:
            return
        value = json_text.parse(request.input_json)
        found = self._schemas.problems(plan.input_schema_json, value, most=SHOWN_PROBLEMS)
        if found:
            raise Refused(
                Reason.INVALID_INPUT,
                "The input does not fit the workflow's schema. See the violations.",
                metadata={"path": "input"},
                violations=tuple(
                    Violation(field=_input_field(one.path), description=one.problem, reason="schema")
                    for one in found
                ),
            )

    async def _create(self, request: StartRun, plan: Plan, bounds: RunBounds, *, here: bool) -> Started:
        run_id = self._chance.new_id("run_")
        now = self._clock.unix_ms()
        started = RunStarted(
            workflow=plan.name,
            plan_digest=plan.digest,
            epoch=int(here),
            principal=request.caller.principal,
            deadline_unix_ms=request.deadline_unix_ms,
            bounds=bounds,
            on_question=request.on_question or plan.on_question,
            input_json=request.input_json,
            subject_json=request.subject_json,
        )
        state = begin(run_id, plan, started)
        new = self._new_run(request, state, now, here=here)
        failpoints.hit("start.before_commit")
        created = await self._store.journal.create(new)
        failpoints.hit("start.after_commit_before_reply")
        match created.creation:
            case Creation.CONFLICT:
                raise _reused(created.run_id)
            case Creation.DUPLICATE:
                return await self._duplicate(request, created.run_id)
            case Creation.CREATED:
                return self._begin(new, state, here=here)

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
            head_sequence=1,
            phase=state.phase,
            summary=new.summary,
        )
        if here:
            self._scheduler.adopt(row, state)
            return Started(row=row, disposition=Disposition.STARTED)
        self._signals.nudge(new.run_id)
        return Started(row=row, disposition=Disposition.QUEUED)

    def _new_run(self, request: StartRun, state: RunState, now: int, *, here: bool) -> NewRun:
        envelope = envelope_of(state.started, state, sequence=1, active_ms=0, unix_ms=now)
        return NewRun(
            tenant=request.caller.tenant,
            run_id=state.run_id,
            workflow=state.plan.name,
            plan_digest=state.plan.digest,
            plan=self._codec.encode_plan(state.plan),
            labels=request.labels,
            created_unix_ms=now,
            request_id=request.request_id,
            fingerprint=request.fingerprint,
            owner=self._scheduler.worker if here else None,
            first=self._codec.encode(Record(envelope=envelope, fact=state.started)),
            head=RunHead(
                phase=state.phase,
                wake_unix_ms=timing.wake_unix_ms(state),
                open_interrupts=0,
            ),
            summary=self._codec.summarize(state, created_unix_ms=now, finished_unix_ms=None),
        )


def _input_field(path: tuple[str | int, ...]) -> str:
    return "input" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def _reused(run_id: str) -> Refused:
    return Refused(
        Reason.REQUEST_ID_REUSED,
        "The request id was used with another content. Use a fresh one.",
        metadata={"run_id": run_id},
    )


def _draining() -> Refused:
    return Refused(
        Reason.DRAINING,
        "The server is going down. Try again with the same request id.",
        retry_after_ms=2_000,
    )
