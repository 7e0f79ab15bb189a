"""Starting child runs: from a decided call to a run in the store, by one commit of its parent.

Owns what a child begins with: its plan, its input, its bounds, and whose it is. The commit that records the
start creates the child, under an id that follows from the call: a crash before it leaves neither, one after
it leaves both. The child is queued like any other run, and its parent gives up its place and waits.

Does not own what a child is given (`core.calling.children`), nor what the two say to each other (`kin`).
"""

import hashlib

from jackline_server.core import json_text
from jackline_server.core.calling import children
from jackline_server.core.errors import CorruptLog
from jackline_server.core.evolve import begin
from jackline_server.core.facts import (
    CallStatus,
    ChildStarted,
    Fact,
    Parent,
    RunStarted,
    ToolCallFinished,
)
from jackline_server.core.frozen import change, frozen
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import ChildAction, OnQuestion, Plan
from jackline_server.core.reading import child_tool, timing
from jackline_server.core.state import RunState
from jackline_server.core.steps import CallTools, ToolAttempt
from jackline_server.runtime.driving.committing import RETRY_MS
from jackline_server.runtime.driving.live_run import LiveRun, envelope_of
from jackline_server.runtime.driving.masking import masked_input
from jackline_server.runtime.ports.codec import Codec, Record
from jackline_server.runtime.ports.journal import NewRun, RunHead
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.workflows.workflows import Workflows

_SHOWN_PROBLEMS = 3

_MAY_PASS = (Reason.STORE_UNAVAILABLE, Reason.STORE_FULL)


class CannotStart(Exception):
    """A child can't be started; the message says why, for whoever called it."""


@frozen
class Birth:
    """A child as it is drafted: the fact of its parent, and the run."""

    started: ChildStarted
    run: NewRun


class Children:
    """Starts the children of all runs."""

    def __init__(
        self,
        *,
        workflows: Workflows,
        codec: Codec,
        schemas: SchemaValidator,
        masks: Masks,
        clock: Clock,
        limits: RunLimits,
    ) -> None:
        self._workflows = workflows
        self._codec = codec
        self._schemas = schemas
        self._masks = masks
        self._clock = clock
        self._limits = limits

    async def start(self, step: CallTools, run: LiveRun) -> None:
        """Start the children of a wave, all in one commit. A call whose child can't be started has failed.

        Nothing is started if another fact comes meanwhile: what it forbids is decided anew. Cancelling it
        leaves nothing, or the whole commit.
        """
        decided = run.state
        begun: list[Fact] = []
        births: list[NewRun] = []
        for attempt in step.attempts:
            try:
                birth = await self._birth(attempt, run)
            except CannotStart as why:
                begun.append(
                    ToolCallFinished(
                        call_id=attempt.started.call_id,
                        tool=attempt.started.tool,
                        status=CallStatus.FAILED,
                        error=str(why),
                    )
                )
            else:
                begun.append(birth.started)
                births.append(birth.run)
        if run.state is not decided:
            return
        run.bear(births)
        await run.record(*(attempt.started for attempt in step.attempts), *begun)

    async def _birth(self, attempt: ToolAttempt, run: LiveRun) -> Birth:
        """Draft one child. Raises CannotStart."""
        action, share, parent = attempt.step.action, attempt.child, run.state
        if not isinstance(action, ChildAction) or share is None:
            raise TypeError("the call starts no run")
        plan = await self._plan(action, parent, run)
        given = await self._input(plan, attempt)
        bounds = children.bounds_of(plan.bounds, share, parent.bounds, self._limits.most)
        unpriced = sorted(name for name, model in plan.models.items() if model.price is None)
        if bounds.cost_budget_micros is not None and unpriced:
            raise CannotStart(f"its cost is bounded, and the price of the model {unpriced[0]} is not known")
        above = parent.started.parent
        attended = parent.started.on_question is OnQuestion.WAIT
        started = RunStarted(
            workflow=plan.name,
            plan_digest=plan.digest,
            epoch=0,
            principal=parent.started.principal,
            deadline_unix_ms=parent.started.deadline_unix_ms,
            bounds=bounds,
            on_question=plan.on_question if attended else OnQuestion.REVIEW,
            input_json=given,
            subject_json=parent.started.subject_json,
            parent=Parent(
                run_id=parent.run_id,
                call_id=attempt.started.call_id,
                root_run_id=parent.run_id if above is None else above.root_run_id,
                tokens=share.tokens,
                cost_micros=share.cost_micros,
                run_timeout_ms=share.run_timeout_ms,
            ),
        )
        state = begin(share.run_id, plan, started)
        told = ChildStarted(
            call_id=attempt.started.call_id,
            child_run_id=share.run_id,
            workflow=plan.name,
            plan_digest=plan.digest,
            tokens=share.tokens,
            cost_micros=share.cost_micros,
            run_timeout_ms=share.run_timeout_ms,
        )
        return Birth(started=told, run=self._new_run(state, run))

    async def _plan(self, action: ChildAction, parent: RunState, run: LiveRun) -> Plan:
        """The plan of a child: of a workflow as its name leads now, or of the agent. Raises CannotStart."""
        if action.agent:
            try:
                plan = child_tool.plan_of(parent.plan, action.agent)
            except (KeyError, TypeError) as error:
                raise CorruptLog("a plan has no agent that it names") from error
            return change(plan, digest=hashlib.sha256(self._codec.encode_plan(plan)).hexdigest())
        while True:
            try:
                return await self._workflows.plan_for(run.tenant, action.workflow, None)
            except Refused as refused:
                if refused.reason not in _MAY_PASS:
                    raise CannotStart(f"the workflow {action.workflow} can't be run: {refused}") from None
            await self._clock.sleep(RETRY_MS)

    async def _input(self, plan: Plan, attempt: ToolAttempt) -> str:
        """The input of a child, as it may be stored. Raises CannotStart if it does not fit its workflow."""
        given = {**attempt.step_input, **attempt.arguments, **attempt.bound}
        if plan.input_schema_json is not None:
            found = self._schemas.problems(plan.input_schema_json, given, most=_SHOWN_PROBLEMS)
            if found:
                words = "; ".join(
                    f"{'.'.join(map(str, one.path)) or 'input'}: {one.problem}" for one in found
                )
                raise CannotStart(f"the input does not fit the workflow {plan.name}: {words}")
        return await masked_input(json_text.write(given), plan.gates, self._masks)

    def _new_run(self, state: RunState, run: LiveRun) -> NewRun:
        now = self._clock.unix_ms()
        envelope = envelope_of(state.started, state, sequence=1, active_ms=0, unix_ms=now)
        return NewRun(
            tenant=run.tenant,
            run_id=state.run_id,
            workflow=state.plan.name,
            plan_digest=state.plan.digest,
            plan=self._codec.encode_plan(state.plan),
            labels=run.labels,
            created_unix_ms=now,
            request_id="",
            fingerprint=b"",
            owner=None,
            first=self._codec.encode(Record(envelope=envelope, fact=state.started)),
            head=RunHead(phase=state.phase, wake_unix_ms=timing.wake_unix_ms(state), open_interrupts=0),
            summary=self._codec.summarize(state, created_unix_ms=now, finished_unix_ms=None),
            parent_run_id=run.run_id,
        )
