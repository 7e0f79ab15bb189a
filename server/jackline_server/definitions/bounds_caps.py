"""How far the bounds of a live run may be raised: `bounds_cap` of a file.

Owns resolving it and the check that no bound of the file stands above it already.
"""

from jackline_server.core.plan import BoundsCap, ModelStep, Plan
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import WorkflowShape
from jackline_server.definitions.yaml_nodes import Path

_WRITTEN = {"run_timeout_ms": "run_timeout", "cost_budget_micros": "cost_budget_usd", "timeout_ms": "timeout"}


def resolve(top: WorkflowShape) -> BoundsCap | None:
    """What the file says; None if it does not."""
    cap = top.bounds_cap
    if cap is None:
        return None
    return BoundsCap(
        run_timeout_ms=cap.run_timeout,
        token_budget=cap.token_budget,
        cost_budget_micros=cap.cost_budget_usd,
        steps=cap.steps,
        events=cap.events,
        max_iterations=cap.max_iterations,
        model_requests=cap.model_requests,
        tool_calls=cap.tool_calls,
    )


def check(plan: Plan, report: Report) -> None:
    """Report a cap that is below the bound it caps. A visit's budgets and time are no more than its run's."""
    if plan.bounds_cap is None:
        return
    most = plan.bounds_cap.__dict__
    _check(plan.bounds.__dict__, most, ("bounds",), report)
    for step in plan.steps.values():
        if isinstance(step, ModelStep) and step.kind == "agent":
            path: Path = ("steps", step.step_id, "bounds")
            _check(step.bounds.__dict__, {name: most[name] for name in _COUNTS}, path, report)


_COUNTS = ("max_iterations", "model_requests", "tool_calls")


def _check(bounds: dict[str, int | None], most: dict[str, int | None], path: Path, report: Report) -> None:
    for name, cap in most.items():
        bound = bounds.get(name)
        if cap is not None and bound is not None and bound > cap:
            key = _WRITTEN.get(name, name)
            message = f"the bound of {'.'.join(map(str, path))}.{key} is above it already; raise the cap"
            report.error("bounds_cap_low", message, ("bounds_cap", key))
