"""How far the bounds of a live run may be raised.

Owns putting together what caps them: its workflow, and for a child what its parent gave it, since the parent
has promised the rest elsewhere. Does not own what the operator allows (`runtime.run_limits`).
"""

from jackline_server.core.frozen import change
from jackline_server.core.plan import BoundsCap
from jackline_server.core.state import RunState

_NO_CAP = BoundsCap()


def cap(state: RunState) -> BoundsCap | None:
    """The most that each bound may be; None without any."""
    own, parent = state.plan.bounds_cap, state.started.parent
    if parent is None:
        return own
    own = own or _NO_CAP
    return change(
        own,
        token_budget=_tighter(own.token_budget, parent.tokens),
        cost_budget_micros=_tighter(own.cost_budget_micros, parent.cost_micros),
        run_timeout_ms=_tighter(own.run_timeout_ms, parent.run_timeout_ms),
    )


def _tighter(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
