"""What the judge of a supervisor is shown of a visit.

Owns the three views: names and numbers alone, or with what was given, said and returned. Everything is
marked as data. The newest comes first where there is not room for all.
"""

from collections.abc import Iterator

from jackline_server.core import json_text
from jackline_server.core.context import step_input
from jackline_server.core.deciding.verdicts import MOST_CASE_CHARS
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import transcript
from jackline_server.core.state import Note, Reply, RunState, ToolCall, Visit
from jackline_server.core.supervisor_plans import SupervisorJudgePlan

_MICROS = 1_000_000


def case(state: RunState, visit: Visit, step: ModelStep, plan: SupervisorJudgePlan) -> str:
    """The visit as the plan lets its judge see it."""
    whole = plan.view is not ArgumentsView.METADATA
    room = min(MOST_CASE_CHARS, state.plan.models[plan.model].context_window * 2)
    parts = [f"# The step `{step.step_id}` so far\n{transcript.fenced(_totals(visit))}"]
    if whole:
        given = json_text.write(step_input(state.context, step.input))
        parts.append(f"# Input, which is not what you judge\n{transcript.fenced(given[: room // 4])}")
    room -= sum(len(part) for part in parts)
    shown: list[str] = []
    for entry in reversed(visit.entries):
        text = "\n".join(_whole(entry, state) if whole else _outline(entry, state))
        if not text:
            continue
        if len(text) > room:
            shown.append("(What came before is left out.)")
            break
        room -= len(text)
        shown.append(transcript.fenced(text))
    return "\n\n".join([*parts, "# What happened, oldest first", *reversed(shown)])


def _totals(visit: Visit) -> str:
    ledger = visit.ledger
    return json_text.write(
        {
            "turns": ledger.iterations,
            "model_requests": ledger.model_requests,
            "tool_calls": ledger.tool_calls,
            "tokens": ledger.tokens,
            "cost_usd": ledger.cost_micros / _MICROS,
            "answers": visit.answer is not None,
        }
    )


def _outline(entry: Reply | Note, state: RunState) -> Iterator[str]:
    """Names and numbers: nothing that a person, a model or a tool wrote."""
    match entry:
        case Note():
            return
        case Reply(text=text, finish=finish, calls=calls):
            yield f"It replied with {len(text)} characters and {len(calls)} tool calls ({finish.value})."
            for call_id in calls:
                yield _outlined(state.calls[call_id])


def _outlined(call: ToolCall) -> str:
    effect = "" if call.effect is None else f", {call.effect.value}"
    problem = "" if call.problem is None else f" ({call.problem.value})"
    return f"It called {call.tool}{effect}: {call.status.value}{problem}, {call.duration_ms} ms."


def _whole(entry: Reply | Note, state: RunState) -> Iterator[str]:
    match entry:
        case Note(text=text):
            yield f"It was told: {text}"
        case Reply(text=text, calls=calls):
            if text.strip():
                yield f"It said: {text}"
            for call_id in calls:
                call = state.calls[call_id]
                yield f"It called {call.name}({call.arguments})"
                yield f"which came to: {transcript.told(call, state.plan)}"
