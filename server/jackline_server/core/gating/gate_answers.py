"""From answers as they came to the facts that they are recorded as.

Owns what can't be granted: a retry where the caps leave no room, or of a call that may not be repeated,
counts as no objection. Does not own what an answer then changes (`evolve_gates`, `evolve_turns`).
"""

from collections.abc import Sequence

from jackline_server.core.deciding import stopping
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    ConsultAnswer,
    Consulted,
    ConsultKind,
    Fact,
    ToolCallFinished,
)
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import Point
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import child_tool
from jackline_server.core.state import RunState, ToolCall, bounds_of, calls_of

MOST_REDONE = 2
"""So often one reply of a model may be asked for anew."""

MOST_ATTEMPTS = 3
"""So many attempts hooks may bring a tool call to."""


def facts_of(state: RunState, answers: Sequence[Consulted]) -> tuple[Fact, ...]:
    """The answers of one step as facts, in their order, and what stands in their commit."""
    facts: list[Fact] = []
    for answer in answers:
        if answer.kind is ConsultKind.STOP_CONDITION:
            facts += stopping.answered(state, answer)
        elif answer.answer is ConsultAnswer.RETRY:
            facts += _retry(state, answer)
        else:
            facts.append(answer)
    return tuple(facts)


def _retry(state: RunState, answer: Consulted) -> tuple[Fact, ...]:
    refused = _no_retry(state, answer)
    if refused:
        return (change(answer, answer=ConsultAnswer.PROCEED, error=f"no further attempt: {refused}"),)
    if answer.point is not Point.AFTER_MODEL_CALL or state.visit is None:
        return (answer,)
    closed = (
        ToolCallFinished(
            call_id=call_id,
            tool=state.calls[call_id].tool,
            status=CallStatus.DENIED,
            problem=CallProblem.REPLY_DISCARDED,
            error="the reply was asked for again",
        )
        for call_id in state.visit.open_calls
    )
    return (answer, *closed)


def _no_retry(state: RunState, answer: Consulted) -> str:
    """Why a retry can't be granted; empty if it can."""
    visit, gates = state.visit, state.gates
    if visit is None or gates is None:
        return "there is no step"
    step = state.plan.step(visit.step_id)
    if answer.point is Point.AFTER_MODEL_CALL and isinstance(step, ModelStep):
        if gates.redone >= MOST_REDONE:
            return f"{MOST_REDONE} were asked for already"
        spent = visit.ledger.model_requests >= bounds_of(visit, step).model_requests
        return "the model requests are used up" if spent else ""
    if answer.point is not Point.AFTER_TOOL_CALL:
        return "nothing was attempted yet"
    call = state.calls[answer.subject]
    once = _is_made_once(state, call)
    if once or call.attempts >= MOST_ATTEMPTS:
        return once or f"there were {call.attempts}"
    if not isinstance(step, ModelStep):
        return ""
    entry = next((tool for tool in step.tools if tool.ref == call.tool), None)
    most = None if entry is None else entry.max_calls
    used = sum(one.attempts for one in calls_of(state, visit) if one.tool == call.tool)
    room = visit.ledger.tool_calls < bounds_of(visit, step).tool_calls and (most is None or used < most)
    return "" if room else "the tool calls are used up"


def _is_made_once(state: RunState, call: ToolCall) -> str:
    """Why there is one attempt of a call and no other; empty if there may be several."""
    if child_tool.is_child(state.plan.steps.get(call.tool)):
        return "a run is started once for a call"
    return "" if call.effect is not None and call.effect.repeatable else "the tool may not be called twice"
