"""A limit that a person is asked about: `on_limit: ask`.

Owns when there is something to ask, the answers that are offered, how far `raise` goes and what it raises
with the bound, and which new bounds answer a question by themselves. Does not own what follows from an answer
(`turns.at_limit`).
"""

from collections.abc import Callable, Iterable

from jackline_server.core import new_bounds
from jackline_server.core.bounds import Limit
from jackline_server.core.facts import InterruptKind, InterruptRaised
from jackline_server.core.frozen import change, frozen
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds, given
from jackline_server.core.plan import BoundsCap, ModelStep, OnQuestion
from jackline_server.core.reading import raising
from jackline_server.core.state import Interrupt, RunState, Visit, bounds_of
from jackline_server.core.steps import Moment

RAISE = "raise"
FINAL_ANSWER = "final_answer"
GIVE_UP = "give_up"
EXPIRED = "expired"
"""What a visit remembers of a question that nobody answered; the same follows as from `give_up`."""

_BOUNDS = {
    "run.token_budget": ("run", "token_budget"),
    "run.cost_budget_usd": ("run", "cost_budget_micros"),
    "step.max_iterations": ("visit", "max_iterations"),
    "step.model_requests": ("visit", "model_requests"),
    "step.tool_calls": ("visit", "tool_calls"),
    "step.token_budget": ("visit", "token_budget"),
    "step.cost_budget_usd": ("visit", "cost_budget_micros"),
}
"""The bound behind each leaf that can be asked about. A loop, a stop condition or a time is none."""


def can_be_asked(limit: Limit) -> bool:
    """True for a bound that can be raised."""
    return limit.leaf in _BOUNDS


def nobody_is_there(state: RunState) -> bool:
    """True if the run was started without anybody to ask."""
    return state.started.on_question is OnQuestion.REVIEW


Following = Callable[[RunState, Visit], Limit | None]
"""The bound that forbids the next call under those bounds; None if it is allowed."""


@frozen
class Asking:
    """When it is asked, whether a closing answer is possible, and what would forbid the next call."""

    now: Moment
    closes: bool
    next_limit: Following


def question(state: RunState, visit: Visit, step: ModelStep, limit: Limit, asking: Asking) -> InterruptRaised:
    """The question what to do at the limit."""
    raise_to = _raise_to(state, visit, step, limit)
    also = None if not raise_to else _with(state, visit, step, limit.leaf, raise_to, asking.next_limit)
    if also is None:
        raise_to = 0
    together = "".join(f" `{RAISE}` also makes {leaf} {_amount(leaf, to)}." for leaf, to in (also or ())[1:])
    options = ((RAISE,) if raise_to else ()) + ((FINAL_ANSWER,) if asking.closes else ()) + (GIVE_UP,)
    words = limit.words or _reached(visit, step, limit)
    oversight = state.oversight
    ordinal = len(oversight.decided) + len(oversight.expired) + len(oversight.interrupts) + 1
    return InterruptRaised(
        interrupt_id=f"limit-{ordinal}",
        kind=InterruptKind.LIMIT_REACHED,
        call_id="",
        options=options,
        expires_unix_ms=asking.now.unix_ms + step.limit_expiry_ms,
        limit=limit.reason,
        limit_leaf=limit.leaf,
        raise_to=raise_to,
        question=f"{step.step_id} stands at {limit.leaf}: {words}. How shall it go on?{together}",
    )


def _reached(visit: Visit, step: ModelStep, limit: Limit) -> str:
    """What is said of a bound that counts: a request that is held back is not used, and yet can't be had."""
    most, used = bounds_of(visit, step).model_requests, visit.ledger.model_requests
    if limit.leaf != "step.model_requests" or used >= most:
        return "it is reached"
    return f"{used} of {most} are used, and the last is held back for the closing answer"


def granted(
    state: RunState, interrupt: Interrupt, next_limit: Following
) -> tuple[NewRunBounds, NewVisitBounds]:
    """The bounds that the answer `raise` sets: what was asked about, and what a call needs with it."""
    visit = state.visit
    step = None if visit is None else state.plan.step(visit.step_id)
    raises: tuple[tuple[str, int], ...] | None = None
    if visit is not None and isinstance(step, ModelStep):
        raises = _with(state, visit, step, interrupt.limit_leaf, interrupt.raise_to, next_limit)
    return _new(raises or ((interrupt.limit_leaf, interrupt.raise_to),))


def _with(
    state: RunState, visit: Visit, step: ModelStep, leaf: str, to: int, next_limit: Following
) -> tuple[tuple[str, int], ...] | None:
    """What has to be raised for a call to follow, the bound itself first; None where a cap is in the way."""
    raises = [(leaf, to)]
    while leaf != "step.tool_calls":  # whose calls come before the next call of the model
        run, own = _new(raises)
        raised = change(visit, adjusted=new_bounds.of_visit(bounds_of(visit, step), own))
        limit = next_limit(change(state, bounds=new_bounds.of_run(state.bounds, run), visit=raised), raised)
        if limit is None or not can_be_asked(limit) or any(limit.leaf == known for known, _ in raises):
            return tuple(raises)
        leaf, to = limit.leaf, _raise_to(state, visit, step, limit)
        if not to:
            return None
        raises.append((leaf, to))
    return tuple(raises)


def _new(raises: Iterable[tuple[str, int]]) -> tuple[NewRunBounds, NewVisitBounds]:
    of_run: dict[str, int] = {}
    of_visit: dict[str, int] = {}
    for leaf, to in raises:
        scope, name = _BOUNDS[leaf]
        (of_run if scope == "run" else of_visit)[name] = to
    return NewRunBounds(**of_run), NewVisitBounds(**of_visit)


def _amount(leaf: str, to: int) -> str:
    return f"${to / 1_000_000:g}" if leaf.endswith("cost_budget_usd") else f"{to:,}"


def answered_by(state: RunState, run: NewRunBounds, visit: NewVisitBounds) -> tuple[Interrupt, ...]:
    """The open questions that these new bounds answer: they raise what the question is about."""
    found: list[Interrupt] = []
    for interrupt in state.oversight.interrupts.values():
        if interrupt.kind is not InterruptKind.LIMIT_REACHED:
            continue
        scope, name = _BOUNDS[interrupt.limit_leaf]
        new = given(run if scope == "run" else visit).get(name)
        if new is not None and new > _now(state, scope, name):
            found.append(interrupt)
    return tuple(found)


def _now(state: RunState, scope: str, name: str) -> int:
    visit = state.visit
    step = None if visit is None else state.plan.step(visit.step_id)
    bounds = state.bounds if visit is None or not isinstance(step, ModelStep) else bounds_of(visit, step)
    return getattr(state.bounds if scope == "run" else bounds, name) or 0


def _raise_to(state: RunState, visit: Visit, step: ModelStep, limit: Limit) -> int:
    """As much again as there was at first, or what is needed; 0 where the cap is in the way."""
    scope, name = _BOUNDS[limit.leaf]
    first: int = getattr(state.started.bounds if scope == "run" else step.bounds, name) or 0
    now: int = getattr(state.bounds if scope == "run" else bounds_of(visit, step), name) or 0
    most: int | None = getattr(raising.cap(state) or BoundsCap(), name)
    new = max(now + first, limit.needs, now + 1)
    if most is None:
        return new
    return 0 if max(limit.needs, now + 1) > most else min(new, most)
