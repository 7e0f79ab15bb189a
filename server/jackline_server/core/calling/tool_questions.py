"""Calls whose tool asks a person before it goes on.

Owns the question that such a call opens, and what of an answer it can go on with. The answer goes to the tool
with the next attempt at the call, which is one more; that to a step which only asks is its output
(`human_answers`).
"""

from jackline_server.core import exits
from jackline_server.core.calling import human_answers
from jackline_server.core.deciding import leaving
from jackline_server.core.deciding.batches import Batch, tool_step
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.facts import (
    CallStatus,
    InterruptKind,
    InterruptRaised,
    StopReason,
    ToolAsk,
    ToolCallFinished,
)
from jackline_server.core.folding.evolve_calls import ACCEPT, DECLINE
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import HumanAction, OnQuestion
from jackline_server.core.reading import question_forms
from jackline_server.core.state import ToolCall
from jackline_server.core.steps import Moment, Record

MOST_QUESTIONS = 10
"""How often one call may ask a person."""


def settle(batch: Batch, now: Moment, schemas: SchemaValidator) -> Record | None:
    """The questions that calls want to ask now. None if every call that asked has an answer to go on with."""
    asking = [(call, call.ask) for call in batch.calls if call.status is CallStatus.ASKING and call.ask]
    if not asking:
        return None
    found = [(call, ask, _misfit(call, ask, schemas)) for call, ask in asking]
    answered = human_answers.settle(batch, [(call, ask) for call, ask, words in found if words is None])
    if answered is not None:
        return answered
    wanted = [(call, ask, words) for call, ask, words in found if words is not None]
    if not wanted:
        return None
    over = tuple(_asks_too_much(call) for call, _, _ in wanted if call.asked >= MOST_QUESTIONS)
    if over:
        return Record(facts=over)
    unattended = batch.state.started.on_question is OnQuestion.REVIEW
    if unattended or batch.state.oversight.cleanup is not None:
        first = wanted[0][0]
        error = f"{first.tool} asks a person something, and nobody is there to ask"
        only_asks = isinstance(tool_step(batch, first).action, HumanAction)
        reason = StopReason.REVIEW if only_asks else StopReason.UNKNOWN_OUTCOME
        end = exits.abnormal(reason, leaf=first.tool, error=error)
        return leaving.leave(batch.state, batch.visit, with_best(end, batch.state, batch.visit))
    return Record(facts=tuple(_question(batch, call, ask, words, now) for call, ask, words in wanted))


def _misfit(call: ToolCall, ask: ToolAsk, schemas: SchemaValidator) -> str | None:
    """None if the call can go on with its answer; else what was wrong with it, nothing if none came yet."""
    if call.reply is None:
        return ""
    if call.reply.option != ACCEPT or not ask.schema_json or ask.options:
        return None
    return question_forms.misfit(ask.schema_json, call.reply.text, schemas)


def _question(batch: Batch, call: ToolCall, ask: ToolAsk, words: str, now: Moment) -> InterruptRaised:
    step = tool_step(batch, call)
    asks = ask.text if isinstance(step.action, HumanAction) else f"{call.tool} asks: {ask.text}"
    again = f" (The last answer did not fit: {words}.)" if words else ""
    return InterruptRaised(
        interrupt_id=question_forms.next_id(call),
        kind=InterruptKind.QUESTION,
        call_id=call.call_id,
        options=ask.options or (ACCEPT, DECLINE),
        expires_unix_ms=now.unix_ms + step.unknown_expiry_ms,
        question=f"{asks}{again}",
        schema_json=ask.schema_json,
    )


def _asks_too_much(call: ToolCall) -> ToolCallFinished:
    repeatable = call.effect is not None and call.effect.repeatable
    return ToolCallFinished(
        call_id=call.call_id,
        tool=call.tool,
        status=CallStatus.FAILED if repeatable else CallStatus.UNKNOWN,
        error=f"the tool asked {MOST_QUESTIONS} times and has not come to an end",
    )
