"""Question 8 of the loop: is a stop condition true at the top of a turn, and what follows if it is.

Owns what each leaf looks at, the facts that an expression and a function are given, and the facts that a
question leads to. Does not own the tree's logic (`conditions`) or the closing answer (`turns`).

A turn has to have ended before a condition is judged: before the first one nothing has happened that it could
be about. A repair and a retry belong to the turn that is under way.
"""

from collections.abc import Mapping
from typing import assert_never

from jackline_server.core import conditions, context, json_text
from jackline_server.core.bounds import Limit
from jackline_server.core.conditions import (
    AskFunction,
    Confidence,
    Cost,
    Elapsed,
    Expression,
    Iterations,
    Leaf,
    NoToolCalls,
    OutcomeIs,
    TextMention,
    Tokens,
    ToolCalled,
)
from jackline_server.core.deciding import leaving, outcome, turns
from jackline_server.core.deciding.outcome import Accepted
from jackline_server.core.exits import STOPPED, Exit
from jackline_server.core.facts import (
    CallStatus,
    ConsultAnswer,
    Consulted,
    ConsultKind,
    Fact,
    NoticeCode,
    Noticed,
    StopReason,
)
from jackline_server.core.instruments import ExpressionError, Instruments
from jackline_server.core.plan import JsonObject, JsonValue, ModelStep
from jackline_server.core.reading import reflection, timing
from jackline_server.core.state import Note, Reply, RunState, ToolCall, Visit, calls_of, last_reply
from jackline_server.core.steps import Consult, Moment, Question, Record, Step

VARIABLES = (
    "input",
    "context",
    "iterations",
    "tokens",
    "cost_usd",
    "elapsed_s",
    "reply",
    "calls",
    "run",
)
"""What an expression may name, and a function have as parameters."""

CALLS_VARIABLES = ("name", "arguments", "success", "result", "error")
"""What each of `calls` has."""

RUN_VARIABLES = ("tokens", "cost_usd", "elapsed_s", "steps")

MOST_RESULT_CHARS = 64 * 1024
MOST_RESULTS_CHARS = 256 * 1024
"""A result that is longer, or that comes after so much, is null to an expression."""

_OPEN = (CallStatus.REQUESTED, CallStatus.STARTED, CallStatus.ASKING)
_MICROS, _MS = 1_000_000, 1_000


def ask(
    state: RunState, visit: Visit, step: ModelStep, *, now: Moment, instruments: Instruments
) -> Step | None:
    """The step that the stop condition leads to; None if there is none, or it does not hold."""
    if step.stop_when is None or not _at_top_of_a_turn(visit):
        return None
    leaves = _Leaves(state, visit, step, now=now, instruments=instruments)
    found = conditions.judge(step.stop_when, leaves.holds)
    if leaves.failures:
        return Record(facts=tuple(leaves.failures))
    if found.value is None:
        return _consult(found, leaves)
    return _stop(state, visit, step, found.path, now=now, instruments=instruments) if found.value else None


def _at_top_of_a_turn(visit: Visit) -> bool:
    """True before a new turn, unless guidance, or the word of a supervisor's judge, waits to be answered."""
    newest = visit.entries[-1] if visit.entries else None
    if isinstance(newest, Note) and newest.is_guidance:
        return False
    if visit.supervision is not None and visit.supervision.sent_back:
        return False
    return (
        visit.ledger.iterations > 0
        and visit.closing is None
        and visit.attempts is None
        and not visit.repairing
    )


def _consult(found: conditions.Verdict, leaves: "_Leaves") -> Consult:
    leaf = found.leaf
    if not isinstance(leaf, AskFunction):
        raise TypeError("only a function has to be asked")
    left = timing.left_ms(leaves.state, leaves.now.active_ms)
    question = Question(
        kind=ConsultKind.STOP_CONDITION,
        who=found.path,
        target=leaf.function,
        variables=leaves.variables(),
        timeout_ms=leaf.timeout_ms if left is None else min(leaf.timeout_ms, left),
    )
    return Consult(questions=(question,))


def answered(state: RunState, fact: Consulted) -> tuple[Fact, ...]:
    """The facts that an answer is recorded with: the first failure of a leaf in a visit is noticed."""
    known = state.visit is not None and fact.who in state.visit.stopping.failed
    if fact.answer is not ConsultAnswer.FAILED or known:
        return (fact,)
    return (fact, _notice(fact))


def _notice(fact: Consulted) -> Noticed:
    text = f"condition {fact.who} counts as false: {fact.error}"
    return Noticed(code=NoticeCode.CONDITION_FAILED, text=text)


def _stop(
    state: RunState, visit: Visit, step: ModelStep, path: str, *, now: Moment, instruments: Instruments
) -> Step:
    """End the visit: with the last reply if it is a sound answer, else by way of a closing one."""
    reply = last_reply(visit)
    if reply is not None and reply == visit.grounding.refused:
        reply = None  # the judge sent it back
    verdict = None if reply is None else outcome.read(reply, step.outcome, instruments.schemas)
    if isinstance(verdict, Accepted) and turns.choice_met(state, visit, step):
        end = Exit(
            signal=STOPPED,
            reason=StopReason.STOP_CONDITION,
            leaf=path,
            result=verdict.result,
            has_result=True,
        )
        return leaving.leave(state, visit, end)
    limit = Limit(reason=StopReason.STOP_CONDITION, leaf=path)
    return turns.at_limit(state, visit, step, limit, now=now)


class _Leaves:
    """What the leaves of a step's condition hold at one moment, each looked at when it is asked for."""

    def __init__(
        self, state: RunState, visit: Visit, step: ModelStep, *, now: Moment, instruments: Instruments
    ) -> None:
        self.state = state
        self.now = now
        self.failures: list[Fact] = []
        """What has to be recorded before the condition can be judged: expressions that failed just now."""
        self._visit = visit
        self._step = step
        self._instruments = instruments
        self._answers: dict[str, bool] = dict(visit.stopping.answers)
        self._variables: JsonObject | None = None

    def holds(self, leaf: Leaf, path: str) -> bool | None:  # noqa: C901, PLR0911, PLR0912 - one case a leaf
        """Whether a leaf holds; None for a function that was not asked in this turn."""
        visit = self._visit
        match leaf:
            case Iterations():
                return visit.ledger.iterations >= leaf.gte
            case Tokens():
                return visit.ledger.tokens >= leaf.gte
            case Cost():
                return visit.ledger.cost_micros >= leaf.gte_micros
            case Elapsed():
                return self.now.active_ms - visit.started_active_ms >= leaf.gte_ms
            case Confidence():
                return reflection.confidence(visit) * 1_000 >= leaf.gte_permille
            case NoToolCalls():
                reply = last_reply(visit)
                return reply is not None and not reply.calls
            case ToolCalled():
                return any(_ended(call, leaf) for call in calls_of(self.state, visit))
            case TextMention():
                return _mentions(last_reply(visit), leaf)
            case OutcomeIs():
                return self._has_outcome(leaf.outcome)
            case Expression():
                return self._evaluated(leaf, path)
            case AskFunction():
                return self._answers.get(path)
            case _:
                assert_never(leaf)

    def _has_outcome(self, value: str) -> bool:
        reply = last_reply(self._visit)
        if reply is None:
            return False
        verdict = outcome.read(reply, self._step.outcome, self._instruments.schemas)
        return isinstance(verdict, Accepted) and verdict.signal == value

    def _evaluated(self, leaf: Expression, path: str) -> bool:
        if path in self._answers:
            return self._answers[path]
        try:
            return self._instruments.expressions.is_true(leaf.cel, self.variables())
        except ExpressionError as error:
            if path not in self._visit.stopping.failed:
                failed = Consulted(
                    kind=ConsultKind.STOP_CONDITION,
                    who=path,
                    answer=ConsultAnswer.FAILED,
                    duration_ms=0,
                    error=str(error),
                )
                self.failures.extend(answered(self.state, failed))
            return False

    def variables(self) -> JsonObject:
        """What an expression or a function is given, made once."""
        if self._variables is None:
            self._variables = variables(self.state, self._visit, now_active_ms=self.now.active_ms)
        return self._variables


def _ended(call: ToolCall, leaf: ToolCalled) -> bool:
    if call.tool != leaf.name or call.status in _OPEN:
        return False
    return leaf.success is None or (call.status is CallStatus.COMPLETED) is leaf.success


def _mentions(reply: Reply | None, leaf: TextMention) -> bool:
    if reply is None:
        return False
    if leaf.case:
        return leaf.text in reply.text
    return leaf.text.casefold() in reply.text.casefold()


# --- what an expression and a function are given -------------------------------------------------


def variables(state: RunState, visit: Visit, *, now_active_ms: int) -> JsonObject:
    """The values of `VARIABLES`. Their size is bounded by that of a reply, its results and the context."""
    reply = last_reply(visit)
    given: Mapping[str, JsonValue] = {
        "input": state.context.get("input"),
        "context": context.public(state.context),
        "iterations": visit.ledger.iterations,
        "tokens": visit.ledger.tokens,
        "cost_usd": visit.ledger.cost_micros / _MICROS,
        "elapsed_s": (now_active_ms - visit.started_active_ms) / _MS,
        "reply": "" if reply is None else reply.text,
        "calls": [] if reply is None else _calls_shown(state, reply),
        "run": {
            "tokens": state.ledger.tokens,
            "cost_usd": state.ledger.cost_micros / _MICROS,
            "elapsed_s": now_active_ms / _MS,
            "steps": state.ledger.steps,
        },
    }
    return dict(given)


def _calls_shown(state: RunState, reply: Reply) -> list[JsonValue]:
    shown: list[JsonValue] = []
    room = MOST_RESULTS_CHARS
    for call_id in reply.calls:
        call = state.calls[call_id]
        text = call.output_json or ""
        fits = len(text) <= min(MOST_RESULT_CHARS, room) and not call.cut_from_bytes
        room -= len(text) if fits else 0
        shown.append(
            {
                "name": call.name,
                "arguments": _parsed(call.arguments.strip() or "{}"),
                "success": call.status is CallStatus.COMPLETED,
                "result": _parsed(text) if fits else None,
                "error": call.error,
            }
        )
    return shown


def _parsed(text: str) -> JsonValue:
    """The value of a JSON text; null where it is none."""
    try:
        return json_text.parse(text) if text else None
    except json_text.JsonError:
        return None
