"""The best partial answer: what an exit keeps of a step that gave no answer that counts.

Owns what is kept. Every abnormal exit keeps it, marked partial: whoever reads a run sees how far it came. The
one of a step whose answers have to pass guardrails keeps nothing, and none keeps what a supervisor's judge
did not pass, whoever or whatever ends the step. What was said stays in the log.
"""

from collections.abc import Iterator

from jackline_server.core import json_text
from jackline_server.core.deciding import outcome
from jackline_server.core.exits import Exit
from jackline_server.core.frozen import change, frozen
from jackline_server.core.plan import JsonValue, ModelStep, StepPlan
from jackline_server.core.reading import finish_tool
from jackline_server.core.state import Reply, RunState, Visit, refused_by_judge


@frozen
class _Kept:
    value: JsonValue


def with_best(end: Exit, state: RunState, visit: Visit) -> Exit:
    """The exit with the newest thing that the model said as its result, if it said any.

    That can be a part of a reply that broke off, and what no judge has looked at yet. Of an answer that was
    rejected it is its result where it can be read, else its text.
    """
    step = state.plan.step(visit.step_id)
    if _is_guarded(step):
        return end
    broken = visit.history.interrupted
    if broken.strip() and isinstance(step, ModelStep):
        return keeping(end, outcome.salvage(broken, step.outcome))
    kept = _best(state, visit, step) if isinstance(step, ModelStep) else None
    return end if kept is None else keeping(end, kept.value)


def with_text(end: Exit, state: RunState, visit: Visit) -> Exit:
    """The same as plain text, read in no way: for the end of a run that met a bug."""
    if _is_guarded(state.plan.step(visit.step_id)):
        return end
    said = (reply.text for reply in _newest_first(visit))
    text = next((text for text in (visit.history.interrupted, *said) if text.strip()), "")
    return keeping(end, text) if text else end


def _is_guarded(step: StepPlan) -> bool:
    """True if no answer of the step may leave it that its guardrails have not seen."""
    return isinstance(step, ModelStep) and step.gates is not None and bool(step.gates.output)


def after(end: Exit, last: Exit) -> Exit:
    """The exit of a run that ends between steps: it keeps the result of the step that was left last."""
    return keeping(end, last.result) if last.has_result else end


def keeping(end: Exit, value: JsonValue) -> Exit:
    """The exit with this as its partial result."""
    return change(end, result=value, has_result=True, partial=True)


def _best(state: RunState, visit: Visit, step: ModelStep) -> _Kept | None:
    for reply in _newest_first(visit):
        kept = _of_call(reply, state, step)
        if kept is not None:
            return kept
        if reply.text.strip():
            return _Kept(value=outcome.salvage(reply.text, step.outcome))
    return None


def _newest_first(visit: Visit) -> Iterator[Reply]:
    """The replies of the visit, but for those that its judge did not pass."""
    refused = refused_by_judge(visit)
    for place in reversed(range(len(visit.entries))):
        entry = visit.entries[place]
        if isinstance(entry, Reply) and place not in refused:
            yield entry


def _of_call(reply: Reply, state: RunState, step: ModelStep) -> _Kept | None:
    """What the reply's first call of `finish` says."""
    calls = (state.calls[call_id] for call_id in reply.calls)
    call = next((call for call in calls if finish_tool.is_call(step, call)), None)
    if call is None or not call.arguments.strip():
        return None
    try:
        answer = json_text.parse_object(call.arguments)
    except json_text.JsonError:
        return _Kept(value=call.arguments)
    return _Kept(value=outcome.result_of(answer)) if answer else None
