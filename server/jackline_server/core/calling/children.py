"""Calls that are runs of their own: which start, under which id, and with what of their parent's.

Owns the id of a child (it follows from the call's key, so that no crash starts a second one), its part of the
tokens, the money and the time that are left, and its bounds. While a child lives its parent does nothing
else: `decide` waits. Does not own what the end of a child comes to (`deciding.child_endings`).

A child is given what its step's `share` says. Left out, the children that start together and, where a model
called them, the parent itself get equal parts: whoever asked has to be able to read the answers.
"""

import hashlib
from collections.abc import Sequence

from jackline_server.core.bounds import Scope, run_scope
from jackline_server.core.deciding import turns
from jackline_server.core.deciding.batches import Batch, tool_step
from jackline_server.core.deciding.call_checks import Problem
from jackline_server.core.facts import CallProblem
from jackline_server.core.frozen import change
from jackline_server.core.plan import BoundsCap, ChildAction, JsonObject, RunBounds
from jackline_server.core.state import ToolCall
from jackline_server.core.steps import CallTools, ChildShare, ToolAttempt

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_CHARS, _ID_BYTES = 26, 16

Checked = list[tuple[ToolCall, JsonObject | Problem]]


def child_id(call_key: str) -> str:
    """The id of the run that a call starts: one a call, and as hard to guess as its parent's."""
    number = int.from_bytes(hashlib.sha256(call_key.encode()).digest()[:_ID_BYTES], "big")
    characters = [_ALPHABET[(number >> (5 * place)) & 31] for place in range(_ID_CHARS)]
    return "run_" + "".join(reversed(characters))


# --- what starts -------------------------------------------------------------------------------


def within_depth(batch: Batch, checked: Checked) -> Checked:
    """The same with calls refused that would start a run below the last level, or while the run ends."""
    ends = batch.state.oversight.abort is not None
    if batch.state.bounds.child_depth > 0 and not ends:
        return checked
    why = _ENDING if ends else _TOO_DEEP
    return [
        (call, found if isinstance(found, tuple) or not _is_child(batch, call) else why)
        for call, found in checked
    ]


_ENDING = CallProblem.NOT_ALLOWED, "a run that is being aborted starts no other"
_TOO_DEEP = CallProblem.CHILD_DEPTH, "no further run may be started below this one: `child_depth` is reached"


def _is_child(batch: Batch, call: ToolCall) -> bool:
    return isinstance(tool_step(batch, call).action, ChildAction)


def together(batch: Batch, attempts: Sequence[ToolAttempt], time_left_ms: int | None) -> CallTools:
    """The attempts of a wave that start now: those that are no runs of their own come, and end, first."""
    own = [one for one in attempts if not isinstance(one.step.action, ChildAction)]
    if own:
        return CallTools(attempts=tuple(own))
    parts = len(attempts) + (batch.step is not None)
    scopes = _scopes(batch)
    tokens = _left([(scope.token_budget, scope.ledger.tokens_held) for scope in scopes])
    cost = _left([(scope.cost_budget_micros, scope.ledger.cost_held) for scope in scopes])
    parted_tokens, parted_cost = _part(tokens, parts), _part(cost, parts)
    shared: list[ToolAttempt] = []
    for attempt in attempts:
        action = attempt.step.action
        if not isinstance(action, ChildAction):
            raise TypeError("only children are given a share")
        share = action.share
        given_tokens = _given(share.token_budget, parted_tokens, tokens)
        given_cost = _given(share.cost_budget_micros, parted_cost, cost)
        shared.append(
            change(
                attempt,
                child=ChildShare(
                    run_id=child_id(attempt.started.call_key),
                    tokens=given_tokens,
                    cost_micros=given_cost,
                    run_timeout_ms=_least(share.run_timeout_ms, time_left_ms),
                ),
            )
        )
        tokens = None if tokens is None else tokens - (given_tokens or 0)
        cost = None if cost is None else cost - (given_cost or 0)
    return CallTools(attempts=tuple(shared))


def _scopes(batch: Batch) -> tuple[Scope, ...]:
    if batch.step is None:
        return (run_scope(batch.state.bounds, batch.state.ledger),)
    return turns.scopes(batch.state, batch.visit, batch.step)


def _left(budgets: Sequence[tuple[int | None, int]]) -> int | None:
    """What the tightest budget has left; None without any."""
    left = [max(budget - held, 0) for budget, held in budgets if budget is not None]
    return min(left) if left else None


def _part(left: int | None, parts: int) -> int | None:
    return None if left is None else left // parts


def _given(declared: int | None, part: int | None, left: int | None) -> int | None:
    """What one child gets: as much as is declared, or its part; never more than is left."""
    return _least(part if declared is None else declared, left)


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def bounds_of(own: RunBounds, share: ChildShare, parent: RunBounds, most: BoundsCap) -> RunBounds:
    """The bounds of a child: its workflow's, within its share, its parent's levels and the operator's."""
    return RunBounds(
        run_timeout_ms=_least(_least(own.run_timeout_ms, share.run_timeout_ms), most.run_timeout_ms),
        token_budget=_least(_least(own.token_budget, share.tokens), most.token_budget),
        cost_budget_micros=_least(_least(own.cost_budget_micros, share.cost_micros), most.cost_budget_micros),
        steps=own.steps if most.steps is None else min(own.steps, most.steps),
        events=own.events if most.events is None else min(own.events, most.events),
        child_depth=max(min(own.child_depth, parent.child_depth - 1), 0),
    )
