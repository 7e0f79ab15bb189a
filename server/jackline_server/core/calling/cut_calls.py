"""Calls that were cut off: a write nobody knows the outcome of, and what its policy makes of that.

Owns the question that an unknown outcome opens.
"""

from jackline_server.core import exits, json_text
from jackline_server.core.deciding import leaving
from jackline_server.core.deciding.batches import Batch, effect_of, may_repeat, tool_step
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.facts import (
    CallStatus,
    InterruptKind,
    InterruptRaised,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.folding.evolve_calls import UNKNOWN_OPTIONS, policy_of
from jackline_server.core.plan import Effect, OnQuestion, OnUnknown
from jackline_server.core.state import ToolCall
from jackline_server.core.steps import Moment, Record

_SHOWN = 200


def settle(batch: Batch, now: Moment) -> Record | None:
    """A write that was cut off becomes unknown, and an unknown outcome follows its tool's policy."""
    if all(call.status is CallStatus.REQUESTED for call in batch.calls):
        return None
    cut = tuple(
        ToolCallFinished(
            call_id=call.call_id,
            tool=call.tool,
            status=CallStatus.UNKNOWN,
            error="the worker went away while the call was under way",
        )
        for call in batch.calls
        if call.status is CallStatus.STARTED and _is_lost(effect_of(batch, call))
    )
    if cut:
        return Record(facts=cut)
    unknown = [call for call in batch.calls if call.status is CallStatus.UNKNOWN]
    if any(call.unknown_expired for call in unknown):
        return _to_review(batch, "nobody said in time whether the call took effect")
    asked = {interrupt.call_id for interrupt in batch.state.oversight.interrupts.values()}
    questions = [
        call
        for call in unknown
        if policy_of(call, batch.state.plan) is OnUnknown.ASK and call.call_id not in asked
    ]
    if not questions:
        return None
    unattended = batch.state.started.on_question is OnQuestion.REVIEW
    if unattended or batch.state.oversight.cleanup is not None:
        return _to_review(batch, "it is not known whether a call took effect, and nobody is there to ask")
    return Record(facts=tuple(_question(batch, call, now) for call in questions))


def _is_lost(effect: Effect | None) -> bool:
    return effect is not None and not effect.repeatable


def _to_review(batch: Batch, error: str) -> Record:
    leaf = next(call.tool for call in batch.calls if call.status is CallStatus.UNKNOWN)
    end = exits.abnormal(StopReason.UNKNOWN_OUTCOME, leaf=leaf, error=error)
    return leaving.leave(batch.state, batch.visit, with_best(end, batch.state, batch.visit))


def _question(batch: Batch, call: ToolCall, now: Moment) -> InterruptRaised:
    step = tool_step(batch, call)
    return InterruptRaised(
        interrupt_id=f"unknown-{call.ordinal}-{call.attempts}",
        kind=InterruptKind.UNKNOWN_OUTCOME,
        call_id=call.call_id,
        options=UNKNOWN_OPTIONS if may_repeat(batch, call) else UNKNOWN_OPTIONS[:2],
        expires_unix_ms=now.unix_ms + step.unknown_expiry_ms,
        question=f"Did {call.tool} take effect? It was cut off: {call.error.rstrip('. ')}.{_given(call)}",
    )


def _given(call: ToolCall) -> str:
    """What the workflow gave the call beside its arguments, in words: whoever answers has to know of it."""
    if not call.bound:
        return ""
    values = (f"{name}={json_text.write(value)}" for name, value in call.bound.items())
    shown = ", ".join(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..." for value in values)
    return f" The workflow gave it {shown}."
