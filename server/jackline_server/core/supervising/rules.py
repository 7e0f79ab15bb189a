"""Whether a rule of a supervisor holds now.

Owns what each condition looks at, what an expression is given, and whether a rule may fire again. What is
seen as the turns pass is counted by the fold; nothing is looked back for. Does not own what follows
(`firing`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from jackline_server.core.deciding import stopping
from jackline_server.core.facts import CallStatus
from jackline_server.core.folding import evolve_calls
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import ExpressionEvaluator
from jackline_server.core.plan import JsonObject, ModelStep
from jackline_server.core.reading import repetition, supervisor_words
from jackline_server.core.repetition_plans import RepeatBy
from jackline_server.core.state import RunState, ToolCall, Visit, bounds_of, last_reply
from jackline_server.core.steps import Moment, ToolAttempt
from jackline_server.core.supervision import Supervision
from jackline_server.core.supervisor_plans import (
    BudgetFraction,
    BudgetKind,
    ErrorRate,
    IterationReached,
    RuleAction,
    RuleExpression,
    RulePlan,
    ToolRepeated,
)

CALL_VARIABLES = ("tool", "arguments", "effect")
"""What `call` has, which an expression before a call may name beside those of a stop condition."""

_PERMILLE = 1_000
_ENDED = (CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.DENIED)


@frozen
class Sight:
    """What a rule is held against: the visit now, and the attempt at a call that is about to start."""

    state: RunState
    visit: Visit
    step: ModelStep
    seen: Supervision
    now: Moment
    attempt: ToolAttempt | None = None

    @property
    def call(self) -> ToolCall | None:
        """The call that is about to start."""
        return None if self.attempt is None else self.state.calls[self.attempt.started.call_id]


def is_armed(rule: RulePlan, sight: Sight) -> bool:
    """True if the rule may fire: it has not yet, or long enough ago.

    Each call is a matter of its own for a rule that denies, and for an expression before a call. What came of
    a call that was held up is of the run that it was held up in, and of none of its forks.
    """
    if rule.then is RuleAction.DENY_CALL:
        return True
    call, origin = sight.call, sight.state.started.forked_from
    held_at = None if call is None else sight.seen.held.get((rule.place, call.call_id))
    if held_at is not None:
        return origin is not None and held_at <= origin.sequence
    if call is not None and isinstance(rule.when, RuleExpression):
        return True
    fired = sight.seen.fired.get(rule.place)
    if fired is None:
        return True
    return rule.rearm > 0 and sight.visit.ledger.iterations - fired >= rule.rearm


def holds(rule: RulePlan, sight: Sight, expressions: ExpressionEvaluator) -> bool:
    """True if the condition of the rule is met. Raises ExpressionError."""
    when = rule.when
    match when:
        case ToolRepeated():
            return _is_repeated(when, sight)
        case BudgetFraction():
            return _is_used(when, sight)
        case IterationReached():
            return sight.visit.ledger.iterations >= when.gte
        case ErrorRate():
            failures = sight.seen.failures[-when.window :]
            return len(failures) >= when.window and sum(failures) * _PERMILLE > when.gt_permille * when.window
        case RuleExpression():
            return expressions.is_true(when.cel, _variables(sight))
        case _:
            assert_never(when)


# --- calls that are alike ----------------------------------------------------------------------


def _is_repeated(when: ToolRepeated, sight: Sight) -> bool:
    call = sight.call
    if call is not None:
        return when.tool in ("", call.tool) and _alike(when, call, sight) + 1 >= when.count
    reply = last_reply(sight.visit)
    calls = () if reply is None else (sight.state.calls[call_id] for call_id in reply.calls)
    counts = sight.seen.counts
    return any(
        when.tool in ("", one.tool) and counts.get(repetition.likeness(one, when.by), 0) >= when.count
        for one in calls
    )


def _alike(when: ToolRepeated, call: ToolCall, sight: Sight) -> int:
    """How many calls came before this one that are like it. What they returned only those know that have."""
    counts, call = sight.seen.counts, evolve_calls.as_given(sight.state, call)
    if when.by is not RepeatBy.ARGS_RESULT:
        key = repetition.likeness(call, when.by)
        now = sum(repetition.likeness(one, when.by) == key for one in _earlier(call, sight))
        return counts.get(key, 0) + now
    key = repetition.likeness(call, RepeatBy.ARGS)
    returned = Counter(
        repetition.likeness(one, RepeatBy.ARGS_RESULT)
        for one in _earlier(call, sight)
        if one.status in _ENDED and repetition.likeness(one, RepeatBy.ARGS) == key
    )
    known = counts.get(supervisor_words.most_alike(call), 0)
    return max([known, *(counts.get(one, 0) + more for one, more in returned.items())])


def _earlier(call: ToolCall, sight: Sight) -> Iterable[ToolCall]:
    """The calls of the same turn that were asked for before it."""
    calls = (sight.state.calls[call_id] for call_id in sight.visit.open_calls)
    return [evolve_calls.as_given(sight.state, one) for one in calls if one.ordinal < call.ordinal]


# --- bounds ------------------------------------------------------------------------------------


def _is_used(when: BudgetFraction, sight: Sight) -> bool:
    return any(
        cap is not None and used * _PERMILLE > cap * when.gt_permille for used, cap in _uses(when.of, sight)
    )


def _uses(of: BudgetKind, sight: Sight) -> tuple[tuple[int, int | None], ...]:
    """What is used of each bound of that kind, and the bound; None is no bound."""
    state, visit = sight.state, sight.visit
    caps, own, run = bounds_of(visit, sight.step), visit.ledger, state.ledger
    match of:
        case BudgetKind.TOKENS:
            return (own.tokens_held, caps.token_budget), (run.tokens_held, state.bounds.token_budget)
        case BudgetKind.COST_USD:
            costs = state.bounds.cost_budget_micros
            return (own.cost_held, caps.cost_budget_micros), (run.cost_held, costs)
        case BudgetKind.TIME:
            active_ms = sight.now.active_ms
            return (
                (active_ms - visit.started_active_ms, caps.timeout_ms),
                (active_ms, state.bounds.run_timeout_ms),
            )
        case BudgetKind.ITERATIONS:
            return ((own.iterations, caps.max_iterations),)
        case BudgetKind.MODEL_REQUESTS:
            return ((own.model_requests, caps.model_requests),)
        case BudgetKind.TOOL_CALLS:
            return ((own.tool_calls, caps.tool_calls),)


# --- expressions -------------------------------------------------------------------------------


def _variables(sight: Sight) -> JsonObject:
    given = stopping.variables(sight.state, sight.visit, now_active_ms=sight.now.active_ms)
    attempt = sight.attempt
    if attempt is not None:
        given["call"] = {
            "tool": attempt.started.tool,
            "arguments": attempt.given,
            "effect": attempt.started.effect.value,
        }
    return given
