"""The bounds that a run begins with: the workflow's, as its caller and the operator have tightened them.

Owns the refusals: a bound that is looser than the workflow's or the operator's, and a cost that can't be
counted.
"""

from jackline_server.core.plan import BoundsCap, Plan, RunBounds
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.use_cases import TighterBounds, tightened


def bounds_for(
    plan: Plan, given: TighterBounds, *, path: str, most: BoundsCap, base: RunBounds | None = None
) -> RunBounds:
    """The bounds of a run of the plan, nowhere above `most`. `path` is where they stand in the request.

    What is not given is that of `base`, where there is one, else the plan's.

    Raises:
        Refused: BOUND_TOO_HIGH, or INVALID_REQUEST for a cost budget with a model without a price.
    """
    allowed = _within(plan.bounds, most)
    _, looser = tightened(allowed, given)
    if looser:
        raise _too_high(allowed, looser, path)
    bounds, _ = tightened(_within(plan.bounds if base is None else base, most), given)
    unpriced = sorted(name for name, model in plan.models.items() if model.price is None)
    if bounds.cost_budget_micros is not None and unpriced:
        raise Refused(
            Reason.INVALID_REQUEST,
            f"{path}.cost_budget_micros needs a price for {unpriced[0]}. Set one in its profile.",
            violations=(
                Violation(
                    field=f"{path}.cost_budget_micros",
                    description=f"the price of {', '.join(unpriced)} is unknown",
                    reason="unpriced_model",
                ),
            ),
        )
    return bounds


def _within(bounds: RunBounds, most: BoundsCap) -> RunBounds:
    def least(own: int | None, cap: int | None) -> int | None:
        return own if cap is None else cap if own is None else min(own, cap)

    return RunBounds(
        run_timeout_ms=least(bounds.run_timeout_ms, most.run_timeout_ms),
        token_budget=least(bounds.token_budget, most.token_budget),
        cost_budget_micros=least(bounds.cost_budget_micros, most.cost_budget_micros),
        steps=least(bounds.steps, most.steps) or bounds.steps,
        events=least(bounds.events, most.events) or bounds.events,
        child_depth=bounds.child_depth,
    )


def _too_high(allowed: RunBounds, looser: tuple[str, ...], path: str) -> Refused:
    name = looser[0]
    limit = getattr(allowed, f"{name}_ms" if name == "run_timeout" else name)
    return Refused(
        Reason.BOUND_TOO_HIGH,
        f"{path}.{name} is looser than the workflow or the operator allows. Give at most {limit}.",
        metadata={"field": f"{path}.{name}", "limit": str(limit)},
        violations=tuple(
            Violation(field=f"{path}.{one}", description="looser than is allowed", reason="looser")
            for one in looser
        ),
    )
