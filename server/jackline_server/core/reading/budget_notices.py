"""Telling the model that a budget is nearly used: once for each budget of the run, and of each visit.

Owns when a budget counts as nearly used, what is said, and that it is said again once the budget was raised.
Does not own what follows when a budget is used up (`turns`).
"""

from jackline_server.core.bounds import Ledger
from jackline_server.core.facts import BoundsAdjusted, NoticeCode, Noticed
from jackline_server.core.frozen import change
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import ModelStep, RunBounds, StepBounds
from jackline_server.core.state import Note, RunState, Visit, bounds_of, current

_AT = (4, 5)
_CODE = NoticeCode.BUDGET_NEARLY_USED
_TOKENS, _COST = "token_budget", "cost_budget_usd"
_RAISED = (("token_budget", _TOKENS), ("cost_budget_micros", _COST))
"""The budgets as bounds have them, and as they are named."""


def due(state: RunState, visit: Visit, step: ModelStep) -> Noticed | None:
    """What has to be said before the next call of the model: of a visit's budgets before the run's."""
    return _of_scope(state, visit, "step", bounds_of(visit, step), visit.ledger) or _of_scope(
        state, visit, "run", state.bounds, state.ledger
    )


def told(state: RunState, fact: Noticed) -> RunState:
    """The notice enters the conversation, and is remembered."""
    visit = current(state)
    entries = (*visit.entries, Note(text=fact.text, provenance="notice"))
    if fact.subject.startswith("step."):
        return change(state, visit=change(visit, entries=entries, told=visit.told | {fact.subject}))
    oversight = state.oversight
    return change(
        state,
        oversight=change(oversight, told=oversight.told | {(_CODE, fact.subject)}),
        visit=change(visit, entries=entries),
    )


def raised(state: RunState, fact: BoundsAdjusted) -> RunState:
    """What was said of a budget that is raised now does not count any more. Asked before it is raised."""
    visit, oversight = state.visit, state.oversight
    if oversight.told:
        again = {(_CODE, f"run.{name}") for name in _higher(state.bounds, fact.run)}
        state = change(state, oversight=change(oversight, told=oversight.told - again))
    if visit is not None and visit.told:
        step = state.plan.step(visit.step_id)
        if isinstance(step, ModelStep):
            higher = _higher(bounds_of(visit, step), fact.visit)
            state = change(state, visit=change(visit, told=visit.told - {f"step.{name}" for name in higher}))
    return state


def _of_scope(
    state: RunState, visit: Visit, scope: str, caps: StepBounds | RunBounds, ledger: Ledger
) -> Noticed | None:
    if _is_nearly_used(caps.token_budget, ledger.tokens_held) and not _known(state, visit, scope, _TOKENS):
        return _notice(scope, _TOKENS)
    if _is_nearly_used(caps.cost_budget_micros, ledger.cost_held) and not _known(state, visit, scope, _COST):
        return _notice(scope, _COST)
    return None


def _is_nearly_used(budget: int | None, held: int) -> bool:
    parts, whole = _AT
    return bool(budget) and held * whole >= budget * parts


def _known(state: RunState, visit: Visit, scope: str, name: str) -> bool:
    """True if the model was told. A notice of before, which names no budget, stands for all of them."""
    leaf, told_of_run = f"{scope}.{name}", state.oversight.told
    return leaf in visit.told or (_CODE, leaf) in told_of_run or (_CODE, "") in told_of_run


def _notice(scope: str, name: str) -> Noticed:
    what = "token" if name == _TOKENS else "cost"
    whose = "this step" if scope == "step" else "the whole run"
    text = f"More than four fifths of the {what} budget of {whose} is used. Come to an end soon."
    return Noticed(code=_CODE, subject=f"{scope}.{name}", text=text)


def _higher(now: RunBounds | StepBounds, new: NewRunBounds | NewVisitBounds) -> list[str]:
    """The budgets that are raised, by name."""
    found: list[str] = []
    for field, name in _RAISED:
        before, after = getattr(now, field), getattr(new, field)
        if before is not None and after is not None and after > before:
            found.append(name)
    return found
