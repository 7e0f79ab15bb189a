"""Adjusting a live run: whether it may have the new bounds that a command gives it.

Owns the rules: nothing above what the workflow caps or its parent gave it, nothing below what is spent
already, no budget of money over a model without a price, and no bounds of a visit where no visit has any.
Does not own who may ask, nor the operator's own limits (`runtime.service.controlling`), nor what the new
bounds then allow (`bounds`, `timing`).
"""

from jackline_server.core import new_bounds
from jackline_server.core.facts import BoundsAdjusted, Rejection
from jackline_server.core.frozen import frozen
from jackline_server.core.new_bounds import NO_VISIT_BOUNDS, NewRunBounds, NewVisitBounds
from jackline_server.core.plan import BoundsCap, ModelStep
from jackline_server.core.reading import raising
from jackline_server.core.state import RunState


@frozen
class Misfit:
    """Why a run can't have a bound. `field` is its path in the command.

    `limit` is what the bound may be at most, or has to be at least; None where no value will do.
    """

    rejection: Rejection
    field: str
    limit: int | None = None


def misfit(state: RunState, run: NewRunBounds, visit: NewVisitBounds, *, now_active_ms: int) -> Misfit | None:
    """The first of the new bounds that the run can't have, or None."""
    if visit != NO_VISIT_BOUNDS and _bounded_visit(state) is None:
        return Misfit(rejection=Rejection.NO_BOUNDED_VISIT, field="visit")
    return (
        over(raising.cap(state), run, visit)
        or _below(_spent_of_run(state, now_active_ms), new_bounds.given(run), "run")
        or _below(_spent_of_visit(state, now_active_ms), new_bounds.given(visit), "visit")
        or _unpriced(state, run, visit)
    )


def over(cap: BoundsCap | None, run: NewRunBounds, visit: NewVisitBounds) -> Misfit | None:
    """The first of the new bounds that is above a cap, or None. Caps of a run are those of its visits too."""
    if cap is None:
        return None
    most = cap.__dict__
    for scope, new in (("run", run), ("visit", visit)):
        for name, value in new_bounds.given(new).items():
            limit = most["run_timeout_ms" if name == "timeout_ms" else name]
            if limit is not None and value > limit:
                field = f"{scope}.{name.removesuffix('_ms')}"
                return Misfit(rejection=Rejection.BOUND_TOO_HIGH, field=field, limit=limit)
    return None


def adjusted(principal: str, run: NewRunBounds, visit: NewVisitBounds) -> BoundsAdjusted:
    """The fact that the bounds were changed."""
    return BoundsAdjusted(principal=principal, run=run, visit=visit)


def _bounded_visit(state: RunState) -> ModelStep | None:
    step = None if state.visit is None else state.plan.step(state.visit.step_id)
    return step if isinstance(step, ModelStep) else None


def _below(spent: dict[str, int], new: dict[str, int], scope: str) -> Misfit | None:
    for name, value in new.items():
        if value < spent[name]:
            field = f"{scope}.{name.removesuffix('_ms')}"
            return Misfit(rejection=Rejection.BOUND_TOO_LOW, field=field, limit=spent[name])
    return None


def _spent_of_run(state: RunState, now_active_ms: int) -> dict[str, int]:
    ledger = state.ledger
    return {
        "run_timeout_ms": now_active_ms,
        "token_budget": ledger.tokens_held,
        "cost_budget_micros": ledger.cost_held,
        "steps": ledger.steps,
        "events": state.sequence,
    }


def _spent_of_visit(state: RunState, now_active_ms: int) -> dict[str, int]:
    visit = state.visit
    if visit is None:
        return {}
    ledger = visit.ledger
    return {
        "max_iterations": ledger.iterations,
        "model_requests": ledger.model_requests,
        "tool_calls": ledger.tool_calls,
        "token_budget": ledger.tokens_held,
        "cost_budget_micros": ledger.cost_held,
        "timeout_ms": now_active_ms - visit.started_active_ms,
    }


def _unpriced(state: RunState, run: NewRunBounds, visit: NewVisitBounds) -> Misfit | None:
    """A budget of money needs to know what every model costs that may spend it."""
    if run.cost_budget_micros is None and visit.cost_budget_micros is None:
        return None
    if all(model.price is not None for model in state.plan.models.values()):
        return None
    scope = "visit" if run.cost_budget_micros is None else "run"
    return Misfit(rejection=Rejection.PRICE_UNKNOWN, field=f"{scope}.cost_budget_micros")
