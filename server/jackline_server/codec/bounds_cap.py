"""How far a live run's bounds may be raised, in protobuf."""

from jackline.v1 import plan_pb2
from jackline_server.core.plan import BoundsCap


def set_cap(into: plan_pb2.Plan, cap: BoundsCap | None) -> None:
    """Write what the workflow says; nothing where it does not."""
    if cap is None:
        return
    into.bounds_cap.SetInParent()
    for name, value in cap.__dict__.items():
        if value is not None:
            setattr(into.bounds_cap, name, value)


def read_cap(found: plan_pb2.Plan) -> BoundsCap | None:
    """What the workflow said."""
    if not found.HasField("bounds_cap"):
        return None
    cap = found.bounds_cap
    return BoundsCap(
        run_timeout_ms=cap.run_timeout_ms if cap.HasField("run_timeout_ms") else None,
        token_budget=cap.token_budget if cap.HasField("token_budget") else None,
        cost_budget_micros=cap.cost_budget_micros if cap.HasField("cost_budget_micros") else None,
        steps=cap.steps if cap.HasField("steps") else None,
        events=cap.events if cap.HasField("events") else None,
        max_iterations=cap.max_iterations if cap.HasField("max_iterations") else None,
        model_requests=cap.model_requests if cap.HasField("model_requests") else None,
        tool_calls=cap.tool_calls if cap.HasField("tool_calls") else None,
    )
