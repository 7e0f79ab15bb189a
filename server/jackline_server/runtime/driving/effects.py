"""Carries out a step in the world: announce it, do it, record what came of it.

Owns the calls of models and tools; questions are `consulting`'s. No call starts before its announcement is
durable. A result is noted and becomes durable with the next announcement, or at once where other calls still
run. Cancelling an effect leaves its calls open in the log; `cutting` says what becomes of them.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain

from jackline_server import failpoints
from jackline_server.core import bounds, json_text
from jackline_server.core.calling import calls, tool_retries
from jackline_server.core.calling.tool_retries import FailedAttempt
from jackline_server.core.deciding import retries, usage_reports
from jackline_server.core.deciding.usage_reports import Reported
from jackline_server.core.facts import (
    Fact,
    FailureClass,
    ModelCallFailed,
    ModelReplied,
    ToolCallFinished,
)
from jackline_server.core.messages import Message
from jackline_server.core.plan import JsonValue, ModelStep, ResultAction
from jackline_server.core.reading import gate_lookup
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.core.state import RunState
from jackline_server.core.steps import CallModel, CallTools, Consult, ToolAttempt
from jackline_server.runtime.driving.children import Children
from jackline_server.runtime.driving.consulting import consult
from jackline_server.runtime.driving.cutting import heard
from jackline_server.runtime.driving.deltas import DeltaMaker
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.driving.masking import (
    hides_replies,
    masked_calls,
    masked_messages,
    masked_reply,
    masked_result,
)
from jackline_server.runtime.driving.model_timer import ModelTimers
from jackline_server.runtime.driving.queueing import place_for
from jackline_server.runtime.driving.replies import Reply, ReplyBuilder
from jackline_server.runtime.driving.reporting import reporting
from jackline_server.runtime.driving.results import NOTHING_KEPT, Results
from jackline_server.runtime.driving.waiting import AttemptWaits
from jackline_server.runtime.ports.consultants import Consultants
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.models import ModelFailure, ModelPlaces, ModelRequest, Models
from jackline_server.runtime.ports.tool_reports import Report
from jackline_server.runtime.ports.tool_waits import OnWait
from jackline_server.runtime.ports.tools import HeldCalls, Invocation, Toolbox, ToolEnding, ToolResult

_log = logging.getLogger(__name__)

MAX_CALLS = 256
"""The most tool calls that one reply may ask for."""

MAX_KEPT_BYTES = 1024 * 1024
"""The most that a reply may come to as JSON: it is kept in one event, and twice in that of its step's end."""

_NOBODY = "{}"
"""The subject of a run that works on nobody's behalf, as most do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The world as runs reach it. One for all runs."""

    models: Models
    places: ModelPlaces
    toolbox: Toolbox
    consultants: Consultants
    masks: Masks
    clock: Clock
    chance: Chance
    results: Results
    children: Children
    held: HeldCalls | None = None
    timers: ModelTimers = field(default_factory=ModelTimers)

    def ended(self, run_id: str) -> None:
        """Let go of what is still held for a run that has ended."""
        if self.held is not None:
            self.held.let_go(run_id)

    async def perform(self, step: CallModel | CallTools | Consult, run: LiveRun) -> None:
        """Carry out one step. Raises what `LiveRun.flush` raises."""
        match step:
            case CallModel():
                await self._call_model(step, run)
            case CallTools():
                await self._call_tools(step, run)
            case Consult():
                facts = await consult(step, run.state, consultants=self.consultants, clock=self.clock)
                _stay_stopped()
                run.note(*facts)

    # --- model ---------------------------------------------------------------------------------

    async def _call_model(self, step: CallModel, run: LiveRun) -> None:
        """One attempt, once there is a place for it; nothing, if a timer of the run comes first."""
        place = await place_for(step, run, places=self.places, clock=self.clock)
        if place is None:
            return
        used_tokens = None
        try:
            used_tokens = await self._attempt(step, run)
        finally:
            place.release(used_tokens)

    async def _attempt(self, step: CallModel, run: LiveRun) -> int:
        """One attempt; the tokens that it is charged."""
        await failpoints.hit_async("loop.model.before_reserve")
        run.heard = None
        run.note(step.started)
        attempt_id = run.state.sequence
        await run.flush()
        await failpoints.hit_async("loop.model.after_reserve")
        began = self.clock.monotonic_ms()
        try:
            reply, first_ms = await self._stream(step, run, attempt_id)
        except ModelFailure as failure:
            _stay_stopped()
            failed = self._failed(step, run, failure)
            run.note(failed)
            return failed.usage.total
        _stay_stopped()
        await failpoints.hit_async("loop.model.after_call_before_commit")
        charged = usage_reports.charged(run.state, step, _reported(reply))
        gates = gate_lookup.here(run.state)
        if gates is not None:
            reply = await masked_reply(reply, gates, self.masks)
            _stay_stopped()
        heard = calls.heard(
            run.state, reply.text, tuple((call.call_id, call.name, call.arguments) for call in reply.calls)
        )
        if gates is not None:
            reply, heard = await masked_calls(reply, heard, gates, self.masks)
            _stay_stopped()
        replied = ModelReplied(
            usage=charged.usage,
            cost_micros=bounds.charge(step.model, charged.usage),
            finish=reply.finish,
            tool_calls=len(heard.asked),
            tokens_used=run.state.ledger.tokens + charged.usage.total,
            latency_ms=self.clock.monotonic_ms() - began,
            first_token_ms=first_ms - began,
            text=reply.text,
            reasoning=reply.reasoning,
            blocks=_blocks(reply, step),
            calls_in_text=heard.in_text,
        )
        run.note(replied)
        notices = charged.notices if heard.notice is None else (heard.notice, *charged.notices)
        run.note(*calls.requested(run.state, heard.asked), *notices)
        return charged.usage.total

    async def _stream(self, step: CallModel, run: LiveRun, attempt_id: int) -> tuple[Reply, int]:
        """The whole reply, and when its first piece came."""
        builder = run.heard = ReplyBuilder()
        deltas = None if hides_replies(run.state) else DeltaMaker(attempt_id, run)
        messages = await masked_messages(step.messages, self.masks) if step.masked else step.messages
        first_ms = 0
        try:
            async with (
                self.timers.within(step, run),
                aclosing(self.models.stream(self._request(step, messages, run))) as chunks,
            ):
                async for chunk in chunks:
                    if not first_ms:
                        first_ms = self.clock.monotonic_ms()
                        await failpoints.hit_async("loop.model.mid_stream")
                    builder.add(chunk)
                    if deltas is not None:
                        deltas.show(chunk)
        except ModelFailure:
            raise
        except Exception as error:
            _log.exception("a model adapter failed", extra={"run_id": run.run_id})
            message = f"the adapter failed: {type(error).__name__}"
            raise ModelFailure(FailureClass.INTERNAL, message) from error
        return _kept(builder.reply()), first_ms or self.clock.monotonic_ms()

    def _request(self, step: CallModel, messages: tuple[Message, ...], run: LiveRun) -> ModelRequest:
        return ModelRequest(
            plan=step.model,
            messages=messages,
            tools=step.tools,
            tool_choice=step.tool_choice,
            reply_schema=step.reply_schema,
            max_output_tokens=step.started.max_output_tokens,
            total_ms=self._until_deadline(step.request_ms, run.state),
            idle_ms=step.idle_ms,
        )

    def _failed(self, step: CallModel, run: LiveRun, failure: ModelFailure) -> ModelCallFailed:
        usage = usage_reports.charged_for_failure(run.state, step, failure.usage)
        visit = run.state.visit
        agent = run.state.plan.step(visit.step_id) if visit is not None else None
        following = retries.Next(retry_in_ms=None)
        if visit is not None and isinstance(agent, ModelStep):
            following = retries.after_failure(
                visit,
                agent,
                step.model,
                failed=retries.Failed(failure=failure.failure, retry_after_ms=failure.retry_after_ms),
                now_active_ms=run.active_ms(),
                fraction=self.chance.fraction(),
            )
        return ModelCallFailed(
            failure=failure.failure,
            retry_in_ms=following.retry_in_ms,
            waits=following.waits,
            usage=usage,
            cost_micros=bounds.charge(step.model, usage),
            error=failure.message,
            text=heard(run),
            limit=failure.limit,
        )

    # --- tools ---------------------------------------------------------------------------------

    async def _call_tools(self, step: CallTools, run: LiveRun) -> None:
        if step.attempts[0].child is not None:
            await self.children.start(step, run)
            return
        await failpoints.hit_async("tool.before_intent")
        await run.record(*(attempt.started for attempt in step.attempts))
        await failpoints.hit_async("tool.after_intent_before_call")
        if len(step.attempts) == 1:
            run.note(*await self._call_tool(step.attempts[0], run))
            return
        try:
            await self._call_together(step, run)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # no call raises: it is what the flush raised

    async def _call_together(self, step: CallTools, run: LiveRun) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._call_tool(attempt, run)) for attempt in step.attempts]
            waiting = set(tasks)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                run.note(*(fact for task in tasks if task in done for fact in task.result()))
                if waiting:
                    await run.flush()

    async def _call_tool(self, attempt: ToolAttempt, run: LiveRun) -> tuple[Fact, ...]:
        """One attempt as facts. Never raises but CancelledError."""
        began = self.clock.monotonic_ms()
        waits = AttemptWaits(attempt, run, self.clock)
        await failpoints.hit_async("tool.mid")
        try:
            if isinstance(attempt.step.action, ResultAction):
                result = await self.results.read(attempt.arguments, run.state, run.tenant)
            else:
                with reporting(attempt, run, self.masks) as report:
                    result = await self.toolbox.call(self._invocation(attempt, run, report, waits))
        except Exception as error:  # noqa: BLE001 - the attempt ends here; the run must not
            _log.exception("a tool adapter failed", extra={"run_id": run.run_id})
            result = ToolResult(ending=ToolEnding.UNCERTAIN, error=f"the tool failed: {type(error).__name__}")
        finally:
            waits.end()
        _stay_stopped()
        gates = gate_lookup.here(run.state)
        if gates is not None and gates.mask_results is not None:
            result = await masked_result(result, gates.mask_results, self.masks)
            _stay_stopped()
        await failpoints.hit_async("tool.after_call_before_commit")
        kept = NOTHING_KEPT
        if result.whole is not None or result.media:
            kept = await self.results.keep(result, attempt.started.tool, run.state, run.tenant)
            _stay_stopped()
        finished = ToolCallFinished(
            call_id=attempt.started.call_id,
            tool=attempt.started.tool,
            status=result.ending.status(attempt.started.effect),
            duration_ms=self.clock.monotonic_ms() - began,
            waited_ms=waits.waited_ms,
            cut_from_bytes=result.cut_from_bytes,
            retry_in_ms=self._retry_in_ms(attempt, result, run) if result.may_pass else None,
            timed_out=result.timed_out,
            output_json=result.output_json,
            error=result.error,
            tail=result.tail,
            blob=kept.blob,
            media=kept.media,
            ask=result.ask,
        )
        return (finished, *kept.notices)

    def _retry_in_ms(self, attempt: ToolAttempt, result: ToolResult, run: LiveRun) -> int | None:
        return tool_retries.retry_in_ms(
            run.state,
            attempt.started.call_id,
            failed=FailedAttempt(may_pass=result.may_pass, retry_after_ms=result.retry_after_ms),
            now_active_ms=run.active_ms(),
            fraction=self.chance.fraction(),
        )

    def _invocation(self, attempt: ToolAttempt, run: LiveRun, report: Report, on_wait: OnWait) -> Invocation:
        text = run.state.started.subject_json
        subject: Mapping[str, JsonValue] = {} if text == _NOBODY else json_text.parse_object(text)
        return Invocation(
            step=attempt.step,
            run_id=run.run_id,
            call_key=attempt.started.call_key,
            attempt=attempt.started.attempt,
            arguments=attempt.arguments,
            bound=attempt.bound,
            step_input=attempt.step_input,
            subject=subject,
            timeout_ms=self._until_deadline(attempt.timeout_ms, run.state),
            reply=attempt.reply,
            on_wait=on_wait,
            report=report,
        )

    def _until_deadline(self, ms: int, state: RunState) -> int:
        """No longer than the run's absolute deadline allows."""
        deadline = state.started.deadline_unix_ms
        return ms if deadline is None else max(min(ms, deadline - self.clock.unix_ms()), 1)


def _stay_stopped() -> None:
    """End a task that was cancelled and went on regardless: what it brings is no longer wanted."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _kept(reply: Reply) -> Reply:
    """The reply, if an event can hold it. Raises ModelFailure."""
    if len(reply.calls) > MAX_CALLS:
        message = f"the reply asks for {len(reply.calls)} tool calls at once; {MAX_CALLS} are the most"
        raise ModelFailure(FailureClass.MALFORMED, message)
    texts = (reply.text, reply.reasoning, reply.blocks_json, *(call.arguments for call in reply.calls))
    if sum(len(text) for text in texts) > MAX_KEPT_BYTES // 6:
        size = sum(len(json_text.write(text).encode()) for text in texts)
        if size > MAX_KEPT_BYTES:
            message = f"the reply is larger than {MAX_KEPT_BYTES} bytes, which is what one event can hold"
            raise ModelFailure(FailureClass.MALFORMED, message)
    return reply


def _blocks(reply: Reply, step: CallModel) -> ReasoningBlocks | None:
    """How the reply's reasoning is sent back to the model that wrote it."""
    if not reply.reasoning_field and not reply.blocks_json:
        return None
    return ReasoningBlocks(
        profile=step.model.profile,
        model=step.model.model,
        field=reply.reasoning_field,
        blocks_json=reply.blocks_json,
    )


def _reported(reply: Reply) -> Reported:
    """What the provider reports of the reply, and what it says."""
    said = chain((reply.text, reply.reasoning), (call.name + call.arguments for call in reply.calls))
    return Reported(usage=reply.usage, unreadable=reply.usage_unreadable, said=said)
