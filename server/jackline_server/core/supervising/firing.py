"""What the supervisor's action leads to: the facts behind a rule that fired, or a judge that came back.

Owns the consequences, which are the same whoever acts. What a message or an abort does is the fold's of the
fact itself.
"""

from typing import assert_never

from jackline_server.core import exits
from jackline_server.core.deciding import leaving
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    Fact,
    InterruptKind,
    InterruptRaised,
    RuleFired,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.frozen import frozen
from jackline_server.core.reading import limit_questions, pauses, supervisor_words
from jackline_server.core.state import RunState, ToolCall, Visit
from jackline_server.core.steps import Moment
from jackline_server.core.supervising.rules import Sight
from jackline_server.core.supervisor_plans import RuleAction, RulePlan


@frozen
class Acting:
    """Who acts, and what of it: `words` are what a person is asked, `call` the call that is held up."""

    who: str
    action: RuleAction
    words: str
    expiry_ms: int
    call: ToolCall | None = None


def fired(rule: RulePlan, sight: Sight) -> tuple[Fact, ...]:
    """The fact that a rule fired, with those that follow from it."""
    call = sight.call
    fact = RuleFired(
        rule=rule.place,
        stage=rule.stage,
        action=rule.then,
        turn=sight.visit.ledger.iterations,
        call_id="" if call is None else call.call_id,
        tool="" if call is None else call.tool,
        words=rule.message,
    )
    acting = Acting(who=rule.place, action=rule.then, words=rule.message, expiry_ms=rule.expiry_ms, call=call)
    return (fact, *consequences(sight.state, sight.visit, acting, sight.now))


def consequences(state: RunState, visit: Visit, acting: Acting, now: Moment) -> tuple[Fact, ...]:
    """The facts behind the one that names the action; none where that does it all."""
    match acting.action:
        case RuleAction.STEER | RuleAction.ABORT:
            return ()
        case RuleAction.PAUSE:
            return (pauses.paused(state, acting.who, now),)
        case RuleAction.DENY_CALL:
            return () if acting.call is None else (denied(acting.call, acting.words),)
        case RuleAction.ASK:
            return _asked(state, visit, acting, now)
        case _:
            assert_never(acting.action)


def denied(call: ToolCall, words: str) -> ToolCallFinished:
    """The end of a call that may not start."""
    return ToolCallFinished(
        call_id=call.call_id,
        tool=call.tool,
        status=CallStatus.DENIED,
        problem=CallProblem.SUPERVISOR,
        error=words,
    )


def _asked(state: RunState, visit: Visit, acting: Acting, now: Moment) -> tuple[Fact, ...]:
    if limit_questions.nobody_is_there(state):
        end = review(acting.who, "nobody is there to ask")
        return leaving.leave(state, visit, with_best(end, state, visit)).facts
    oversight = state.oversight
    ordinal = len(oversight.decided) + len(oversight.expired) + len(oversight.interrupts) + 1
    before_call = acting.call is not None
    question = InterruptRaised(
        interrupt_id=f"supervisor-{ordinal}",
        kind=InterruptKind.SUPERVISION,
        call_id="" if acting.call is None else acting.call.call_id,
        options=(
            supervisor_words.BEFORE_CALL_OPTIONS if before_call else supervisor_words.AFTER_TURN_OPTIONS
        ),
        expires_unix_ms=now.unix_ms + acting.expiry_ms,
        limit_leaf=acting.who,
        question=acting.words,
    )
    return (question,)


def review(who: str, why: str) -> Exit:
    """The exit of a step that nobody has decided about."""
    return exits.abnormal(StopReason.REVIEW, leaf=who, error=f"{who} asks how it goes on, and {why}")
