"""Forks: the first facts of a run as the first facts of another.

Owns where a log may be cut, how each fact is taken over, and whether the facts fit another plan. A fork's
facts keep their sequence and active time. Its epochs and bounds are its own, a question that is open stays
open for as long as it did at first, a pause lasts as long, and of a deadline and a delay nothing is left.
What somebody has granted to the other run is not the fork's: whoever may start runs could else have more than
a start allows.
"""

from jackline_server.core.commands import Command, Steer
from jackline_server.core.deciding import control
from jackline_server.core.errors import CorruptLog
from jackline_server.core.evolve import evolve
from jackline_server.core.facts import (
    OTHER_TOOL,
    BoundsAdjusted,
    CommandApplied,
    Fact,
    ForkOrigin,
    InterruptRaised,
    ModelCallStarted,
    Paused,
    RunRecovered,
    RunStarted,
    RunSuspended,
    Steered,
    StepFinished,
    StepStarted,
    ToolCallRequested,
)
from jackline_server.core.frozen import change, frozen
from jackline_server.core.new_bounds import NO_RUN_BOUNDS, NO_VISIT_BOUNDS
from jackline_server.core.plan import FINISH, ModelStep, OnQuestion, Plan, RunBounds
from jackline_server.core.recorded.boundaries import Entry, is_boundary
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment


@frozen
class Fork:
    """What of a fork is its own: who started it, its caps, the epoch it begins under, and when."""

    origin: ForkOrigin
    principal: str
    bounds: RunBounds
    on_question: OnQuestion
    deadline_unix_ms: int | None
    epoch: int
    unix_ms: int


# --- where -------------------------------------------------------------------------------------


def goes_on(state: RunState, before: Fact, following: Fact | None) -> bool:
    """True if a fork can be made here: a boundary of a run that was not ending."""
    if state.finished is not None or state.oversight.abort is not None or state.oversight.deadline_passed:
        return False
    return is_boundary(state, before, following)


def takes_guidance(state: RunState) -> bool:
    """True at a boundary at which a conversation can take guidance, if another turn may follow."""
    visit = state.visit
    if visit is None or not isinstance(state.plan.step(visit.step_id), ModelStep):
        return False
    return not visit.open_calls and visit.closing is None


def guidance(state: RunState, *, principal: str, text: str, now: Moment) -> Steered | None:
    """The fact that guidance is given; None where the conversation takes none, or no turn follows."""
    command = Command(
        command_id="fork",
        ordinal=1,
        principal=principal,
        reason="",
        expect_phase=None,
        expect_sequence=None,
        action=Steer(text=text),
    )
    match control.settle(state, command, now):
        case (CommandApplied(), Steered() as steered):
            return steered
        case _:
            return None


# --- what --------------------------------------------------------------------------------------


def started_anew(started: RunStarted, plan: Plan, fork: Fork) -> RunStarted:
    """The first fact of a fork."""
    return change(
        started,
        workflow=plan.name,
        plan_digest=plan.digest,
        epoch=fork.epoch,
        principal=fork.principal,
        deadline_unix_ms=fork.deadline_unix_ms,
        bounds=fork.bounds,
        on_question=fork.on_question,
        forked_from=fork.origin,
        parent=None,
        start_unix_ms=None,
        thread=None if started.thread is None else change(started.thread, thread_id="", waits=False),
    )


def taken_over(entry: Entry, fork: Fork) -> Fact:
    """Any further fact as the fork has it."""
    fact = entry.fact
    match fact:
        case RunRecovered() | RunSuspended():
            return change(fact, epoch=fork.epoch)
        case BoundsAdjusted():
            return change(fact, run=NO_RUN_BOUNDS, visit=NO_VISIT_BOUNDS)
        case InterruptRaised(expires_unix_ms=int() as expires) | Paused(expires_unix_ms=int() as expires):
            return change(fact, expires_unix_ms=expires - entry.unix_ms + fork.unix_ms)
        case _:
            return fact


# --- under another plan ------------------------------------------------------------------------


def carried(started: RunBounds, own: RunBounds, other: RunBounds) -> RunBounds:
    """The bounds of a run under another plan: what its caller had tightened stays, the rest is the plan's."""

    def pick(given: int | None, before: int | None, now: int | None) -> int | None:
        if given is None or given == before:
            return now
        return given if now is None else min(given, now)

    steps = pick(started.steps, own.steps, other.steps)
    events = pick(started.events, own.events, other.events)
    return RunBounds(
        run_timeout_ms=pick(started.run_timeout_ms, own.run_timeout_ms, other.run_timeout_ms),
        token_budget=pick(started.token_budget, own.token_budget, other.token_budget),
        cost_budget_micros=pick(started.cost_budget_micros, own.cost_budget_micros, other.cost_budget_micros),
        steps=other.steps if steps is None else steps,
        events=other.events if events is None else events,
        child_depth=min(started.child_depth, other.child_depth),
    )


def folded(state: RunState, fact: Fact, *, active_ms: int, own: Plan) -> RunState | str:
    """The state after a fact that was recorded under the plan `own`, or why the state's plan can't take it.

    Raises CorruptLog if the two plans are one and it can't.
    """
    if state.plan is own:
        return evolve(state, fact, active_ms=active_ms)
    why = _why_not(fact, own=own, other=state.plan)
    if why:
        return why
    try:
        return evolve(state, fact, active_ms=active_ms)
    except (CorruptLog, KeyError, TypeError):
        return "the workflow can't take it there"


def _why_not(fact: Fact, *, own: Plan, other: Plan) -> str:
    """Why a fact names something that the other plan lacks or has as another kind; empty if it does not."""
    match fact:
        case StepStarted(step_id=step_id):
            return _other_kind(step_id, own=own, other=other)
        case StepFinished(next_step=step_id):
            return _other_kind(step_id, own=own, other=other) if step_id else ""
        case ModelCallStarted(model=model):
            return "" if model in other.models else f"it has no model {model}"
        case ToolCallRequested(tool=tool) if tool not in (OTHER_TOOL, FINISH):
            return _other_kind(tool, own=own, other=other)
        case _:
            return ""


def _other_kind(step_id: str, *, own: Plan, other: Plan) -> str:
    step = other.steps.get(step_id)
    if step is None:
        return f"it has no step {step_id}"
    before = own.steps.get(step_id)
    return "" if type(step) is type(before) else f"its step {step_id} is of another kind"
