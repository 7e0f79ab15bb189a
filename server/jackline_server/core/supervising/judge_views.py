"""What the judge of a supervisor is shown of a visit.

Owns the three views: names and numbers alone, or with what was given, said and returned. Everything is
marked as data. Where there is not room for all, results are shortened and what it has seen before is left
out; of what the step did since, nothing is: a judge would pass what it was not shown.
"""

from collections.abc import Iterator, Sequence

from jackline_server.core import json_text
from jackline_server.core.context import step_input
from jackline_server.core.deciding.verdicts import MOST_CASE_CHARS
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import transcript
from jackline_server.core.state import Note, Reply, RunState, ToolCall, Visit
from jackline_server.core.supervisor_plans import SupervisorJudgePlan

_MICROS = 1_000_000
_MARK_CHARS = 48
"""Room for the mark that stands for what is left out of a result."""


def case(state: RunState, visit: Visit, step: ModelStep, plan: SupervisorJudgePlan) -> str | None:
    """The visit as the plan lets its judge see it; None if there is no room for all that it has not seen."""
    whole = plan.view is not ArgumentsView.METADATA
    room = min(MOST_CASE_CHARS, state.plan.models[plan.model].context_window * 2)
    parts = [f"# The step `{step.step_id}` so far\n{transcript.fenced(_totals(visit))}"]
    if whole:
        given = json_text.write(step_input(state.context, step.input))
        parts.append(f"# Input, which is not what you judge\n{transcript.fenced(given[: room // 4])}")
    room -= sum(len(part) for part in parts)
    seen = 0 if visit.supervision is None else visit.supervision.judged_entries
    most = _most_of_a_result(visit.entries[seen:], state, room) if whole else 0
    shown: list[str] = []
    for at, entry in reversed(tuple(enumerate(visit.entries))):
        text = "\n".join(_whole(entry, state, most) if whole else _outline(entry, state))
        if not text:
            continue
        if len(text) > room:
            if at >= seen:
                return None
            shown.append("(What came before is left out.)")
            break
        room -= len(text)
        shown.append(transcript.fenced(text))
    return "\n\n".join([*parts, "# What happened, oldest first", *reversed(shown)])


def _most_of_a_result(entries: Sequence[Reply | Note], state: RunState, room: int) -> int:
    """How long a result may be, so that what was said and asked for beside them in these entries has room."""
    said = sum(len("\n".join(_whole(entry, state, 0))) for entry in entries)
    calls = [state.calls[name] for entry in entries if isinstance(entry, Reply) for name in entry.calls]
    results = [len(transcript.told(call, state.plan)) for call in calls]
    left = room - said
    return room if sum(results) <= max(left, 0) else max(left // len(results), _MARK_CHARS)


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


def _whole(entry: Reply | Note, state: RunState, most: int) -> Iterator[str]:
    match entry:
        case Note(text=text):
            yield f"It was told: {text}"
        case Reply(text=text, calls=calls):
            if text.strip():
                yield f"It said: {text}"
            for call_id in calls:
                call = state.calls[call_id]
                yield f"It called {call.name}({call.arguments})"
                yield f"which came to: {_shortened(transcript.told(call, state.plan), most)}"


def _shortened(text: str, most: int) -> str:
    """The text, or its beginning and its end with a mark between them; nothing where the mark has no room."""
    if len(text) <= most:
        return text
    side = (most - _MARK_CHARS) // 2
    if side < 0:
        return ""
    return f"{text[:side]}(… {len(text) - 2 * side} characters are left out …){text[len(text) - side :]}"
