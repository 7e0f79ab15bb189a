"""The models of a step: which of them it asks, and what follows when that one can't be reached.

Owns the order. A step asks its own model first. Once the attempts at a model are spent, on failures that may
pass, the next one of `fallbacks` is asked, and stays the model of the visit; the next visit begins with the
step's own. When there is no next one, a step that waits begins again with its own model after a while, as
often as its bounds allow, with one attempt at each model.

A judge and whoever sums a conversation up have a model of their own and no fallback. Does not own when a
failed attempt is made again (`retries`).
"""

from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import NoticeCode, Noticed
from jackline_server.core.frozen import change
from jackline_server.core.plan import ModelPlan, ModelStep
from jackline_server.core.state import RunState, Visit, current
from jackline_server.core.steps import Record


def model_name(visit: Visit, step: ModelStep) -> str:
    """The profile that the visit asks now."""
    if not visit.fallback or not step.fallbacks:
        return step.model
    return step.fallbacks[min(visit.fallback, len(step.fallbacks)) - 1]


def model_of(state: RunState, visit: Visit, step: ModelStep) -> ModelPlan:
    """The model that the visit asks now."""
    return state.plan.models[model_name(visit, step)]


def has_next(visit: Visit, step: ModelStep) -> bool:
    """True if the attempts at a model are spent and another one is to be asked."""
    attempts = visit.attempts
    return (
        attempts is not None
        and attempts.retry_at_active_ms is None
        and attempts.last.may_pass
        and not is_last(visit, step)
    )


def is_last(visit: Visit, step: ModelStep) -> bool:
    """True if no model comes after the one that the visit asks now."""
    return visit.fallback >= len(step.fallbacks)


def following(visit: Visit, step: ModelStep) -> Record | None:
    """The step to the next model; None if there is none, or another model would not help."""
    attempts = visit.attempts
    if attempts is None or not has_next(visit, step):
        return None
    text = (
        f"The model {model_name(visit, step)!r} failed too often ({attempts.last.value}); "
        f"{step.fallbacks[visit.fallback]!r} is asked in its place."
    )
    return Record(facts=(Noticed(code=NoticeCode.MODEL_FALLBACK, text=text),))


def moved_on(state: RunState) -> RunState:
    """The state in which the next model is asked: a new request, under the same bounds. Raises CorruptLog."""
    visit = current(state)
    attempts = visit.attempts
    if attempts is None:
        raise CorruptLog("a fallback without a failure")
    anew = change(attempts, before=attempts.failed, retry_at_active_ms=state.active_ms)
    moved = change(visit, fallback=visit.fallback + 1, attempts=anew, request_since_ms=None)
    return change(state, visit=moved)
