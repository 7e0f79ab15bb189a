"""The bounds that a run begins with: the workflow's, as its caller has tightened them.

Owns the refusals: a bound that is looser than the workflow's, and a cost that can't be counted.
"""

from jackline_server.core.plan import Plan, RunBounds
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.use_cases import TighterBounds, tightened


def bounds_for(plan: Plan, given: TighterBounds, *, path: str, base: RunBounds | None = None) -> RunBounds:
    """The bounds of a run of the plan. `path` is where they stand in the request.

    What is not given is that of `base`, where there is one, else the plan's.

    Raises:
        Refused: BOUND_TOO_HIGH, or INVALID_REQUEST for a cost budget with a model without a price.
    """
    _, looser = tightened(plan.bounds, given)
    if looser:
        raise _too_high(plan, looser, path)
    bounds, _ = tightened(plan.bounds if base is None else base, given)
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


def _too_high(plan: Plan, looser: tuple[str, ...], path: str) -> Refused:
    name = looser[0]
    limit = getattr(plan.bounds, f"{name}_ms" if name == "run_timeout" else name)
    return Refused(
        Reason.BOUND_TOO_HIGH,
        f"{path}.{name} is looser than the workflow's. Give at most {limit}.",
        metadata={"field": f"{path}.{name}", "limit": str(limit)},
        violations=tuple(
            Violation(field=f"{path}.{one}", description="looser than the workflow's", reason="looser")
            for one in looser
        ),
    )
