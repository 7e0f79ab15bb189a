"""New bounds for a live run: which caps are changed, and the bounds that come of it.

Owns the shapes that the command and the fact share, and putting them over the bounds there are. Does not own
whether a run may have them (`adjusting`).
"""

from jackline_server.core.frozen import change, frozen
from jackline_server.core.plan import RunBounds, StepBounds


@frozen
class NewRunBounds:
    """Caps of the whole run to be set; what is None stays as it is."""

    run_timeout_ms: int | None = None
    token_budget: int | None = None
    cost_budget_micros: int | None = None
    steps: int | None = None
    events: int | None = None


@frozen
class NewVisitBounds:
    """Caps of the visit under way to be set; what is None stays as it is."""

    max_iterations: int | None = None
    model_requests: int | None = None
    tool_calls: int | None = None
    token_budget: int | None = None
    cost_budget_micros: int | None = None
    timeout_ms: int | None = None


NO_RUN_BOUNDS = NewRunBounds()
NO_VISIT_BOUNDS = NewVisitBounds()


def of_run(bounds: RunBounds, new: NewRunBounds) -> RunBounds:
    """The bounds of a run with the new ones in place."""
    return change(bounds, **given(new))


def of_visit(bounds: StepBounds, new: NewVisitBounds) -> StepBounds:
    """The bounds of a visit with the new ones in place."""
    return change(bounds, **given(new))


def given(new: NewRunBounds | NewVisitBounds) -> dict[str, int]:
    """What is set, by name, in the order of the fields."""
    return {name: value for name, value in new.__dict__.items() if value is not None}
