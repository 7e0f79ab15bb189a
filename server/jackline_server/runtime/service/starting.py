"""Starting a run: from a request to a durable first fact.

Owns the order: the idempotent hit before anything else, then the workflow, the bounds, the input, and the run
(`creating`).
"""

from datetime import timedelta

from jackline_server.core import json_text
from jackline_server.core.evolve import begin
from jackline_server.core.facts import RunStarted
from jackline_server.core.frozen import change
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import Plan, RunBounds
from jackline_server.core.thread_facts import ThreadStart
from jackline_server.runtime.driving.live_run import envelope_of
from jackline_server.runtime.driving.masking import masked_input
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.service.creating import Birth, Creating, Draft, Order
from jackline_server.runtime.service.joining import JoiningThreads
from jackline_server.runtime.service.start_bounds import bounds_for
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Started, StartRun
from jackline_server.runtime.workflows.workflows import Workflows

SHOWN_PROBLEMS = 5
"""So many reasons are told why an input does not fit."""


class Starting:
    """The use case `start`."""

    def __init__(
        self,
        *,
        creating: Creating,
        joining: JoiningThreads,
        workflows: Workflows,
        schemas: SchemaValidator,
        limits: RunLimits,
        masks: Masks,
    ) -> None:
        self._creating = creating
        self._joining = joining
        self._workflows = workflows
        self._schemas = schemas
        self._limits = limits
        self._masks = masks

    async def start(self, request: StartRun) -> Started:
        """See `service.ports.RunUseCases.start`."""
        order = Order(
            caller=request.caller,
            request_id=request.request_id,
            fingerprint=request.fingerprint,
            labels=request.labels,
        )
        with refusing_store_errors():
            found = await self._creating.found(order)
            if found is not None:
                return found
            plan = await self._workflows.plan_for(request.caller.tenant, request.workflow, request.inline)
            bounds = bounds_for(plan, request.bounds, path="bounds", most=self._limits.most)
            self._check_delay(request)
            self._check_input(plan, request)
            given = await masked_input(request.input_json, plan.gates, self._masks)

            async def draft(birth: Birth, begun: ThreadStart | None = None) -> Draft:
                return _drafted(change(request, input_json=given), plan, bounds, birth, begun)

            if request.thread is not None:
                return await self._joining.start(order, request.thread, input_json=given, draft=draft)
            return await self._creating.create(order, draft, delayed=request.start_delay_ms is not None)

    def _check_delay(self, request: StartRun) -> None:
        most = self._limits.start_delay_ms
        if request.start_delay_ms is None or request.start_delay_ms <= most:
            return
        words = f"at most {str(timedelta(milliseconds=most)).removesuffix(', 0:00:00')}"
        raise Refused(
            Reason.INVALID_REQUEST,
            f"start_delay is longer than the operator allows. Give {words}, or start it later.",
            metadata={"field": "start_delay", "limit": str(most)},
            violations=(
                Violation(
                    field="start_delay",
                    description=f"longer than the operator allows; {words}",
                    reason="too_long",
                ),
            ),
        )

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


def _drafted(
    request: StartRun, plan: Plan, bounds: RunBounds, birth: Birth, begun: ThreadStart | None
) -> Draft:
    started = RunStarted(
        workflow=plan.name,
        plan_digest=plan.digest,
        epoch=birth.epoch,
        principal=request.caller.principal,
        deadline_unix_ms=request.deadline_unix_ms,
        bounds=bounds,
        on_question=request.on_question or plan.on_question,
        input_json=request.input_json,
        subject_json=request.subject_json,
        thread=begun,
        start_unix_ms=None if request.start_delay_ms is None else birth.unix_ms + request.start_delay_ms,
    )
    state = begin(birth.run_id, plan, started)
    envelope = envelope_of(started, state, sequence=1, active_ms=0, unix_ms=birth.unix_ms)
    return Draft(state=state, records=[Record(envelope=envelope, fact=started)])


def _input_field(path: tuple[str | int, ...]) -> str:
    return "input" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
