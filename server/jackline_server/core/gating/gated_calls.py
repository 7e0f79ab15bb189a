"""Tool calls that may start once everybody has let them: guardrails, hooks, policy, judges, in this order.

Owns the order and what a denial leads to. All calls that would start together are asked about together. A
call that began once was let pass then; a further attempt asks nobody.
"""

from collections.abc import Sequence

from jackline_server.core import exits, json_text
from jackline_server.core.deciding import leaving
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    ConsultKind,
    Fact,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.folding import evolve_calls
from jackline_server.core.gate_plans import GatesPlan, Judged, Point
from jackline_server.core.gates import NOTHING_HEARD, Denial, Gates
from jackline_server.core.gating import gate_views, guardrails, judges
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import ModelStep, ToolStep
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState, Visit, current
from jackline_server.core.steps import CallTools, Consult, Moment, Question, Record, Step, ToolAttempt

_REASONS = {
    CallProblem.POLICY_DENIED: StopReason.POLICY_DENIED,
    CallProblem.GUARDRAIL: StopReason.GUARDRAIL,
}


def before_tools(
    state: RunState,
    visit: Visit,
    step: ModelStep | ToolStep,
    decided: CallTools,
    *,
    now: Moment,
    instruments: Instruments,
) -> Step | None:
    """What has to happen before these attempts; None once nothing has."""
    plan, found = step.gates, state.gates
    fresh = [attempt for attempt in decided.attempts if attempt.started.attempt == 1]
    if plan is None or found is None or not fresh:
        return None
    denied = _denied(state, visit, step, fresh, instruments)
    if denied is not None:
        return denied
    asked = _hooks(state, plan, found, fresh, now) or _policy(state, plan, found, fresh, now)
    if asked is not None or isinstance(step, ToolStep):
        return asked
    return _judge(state, visit, step, plan, fresh, now)


# --- asking --------------------------------------------------------------------------------------


def _hooks(
    state: RunState, plan: GatesPlan, found: Gates, fresh: Sequence[ToolAttempt], now: Moment
) -> Consult | None:
    for hook in plan.at(Point.BEFORE_TOOL_CALL):
        questions = [
            Question(
                kind=ConsultKind.HOOK,
                who=hook.who,
                target=hook.name,
                variables=gate_views.attempt(state, attempt),
                timeout_ms=_in_time(state, hook.timeout_ms, now),
                point=Point.BEFORE_TOOL_CALL,
                subject=attempt.started.call_id,
            )
            for attempt in fresh
            if (Point.BEFORE_TOOL_CALL, attempt.started.call_id, hook.who) not in found.heard
        ]
        if questions:
            return Consult(questions=tuple(questions))
    return None


def _policy(
    state: RunState, plan: GatesPlan, found: Gates, fresh: Sequence[ToolAttempt], now: Moment
) -> Consult | None:
    policy = plan.policy
    if policy is None:
        return None
    questions = [
        Question(
            kind=ConsultKind.POLICY,
            who=policy.who,
            target=policy.name,
            variables=gate_views.attempt(state, attempt),
            timeout_ms=_in_time(state, policy.timeout_ms, now),
            point=Point.BEFORE_TOOL_CALL,
            subject=attempt.started.call_id,
            view=policy.view,
        )
        for attempt in fresh
        if (Point.BEFORE_TOOL_CALL, attempt.started.call_id, policy.who) not in found.heard
    ]
    return Consult(questions=tuple(questions)) if questions else None


def _in_time(state: RunState, timeout_ms: int, now: Moment) -> int:
    left = timing.left_ms(state, now.active_ms)
    return timeout_ms if left is None else min(timeout_ms, left)


def _judge(
    state: RunState,
    visit: Visit,
    step: ModelStep,
    plan: GatesPlan,
    fresh: Sequence[ToolAttempt],
    now: Moment,
) -> Step | None:
    heard = NOTHING_HEARD if state.gates is None else state.gates.heard
    for attempt in fresh:
        call_id, tool = attempt.started.call_id, attempt.started.tool
        for rail in guardrails.about(plan.tools, tool):
            if isinstance(rail.check, Judged) and (Point.TOOLS, call_id, rail.place) not in heard:
                case = judges.Case(
                    who=rail.place,
                    judged=rail.check,
                    point=Point.TOOLS,
                    subject=call_id,
                    title=f"Call of the tool {tool}",
                    text=json_text.write(attempt.given),
                )
                return judges.try_case(state, visit, step, case, now_active_ms=now.active_ms)
    return None


# --- denying -------------------------------------------------------------------------------------


def _denied(
    state: RunState,
    visit: Visit,
    step: ModelStep | ToolStep,
    fresh: Sequence[ToolAttempt],
    instruments: Instruments,
) -> Record | None:
    """The ends of the calls that may not start, and that of the step where one of them ends it."""
    facts: list[Fact] = []
    worst: Denial | None = None
    settled = state
    for attempt in fresh:
        told, denial = _denial(state, step, attempt, instruments)
        if denial is None:
            continue
        ended = _end(attempt, denial)
        facts += [*told, ended]
        settled = evolve_calls.finish(settled, ended)
        if worst is None and (denial.ends or isinstance(step, ToolStep)):
            worst = denial
    if not facts:
        return None
    if worst is not None:
        end = exits.abnormal(_REASONS[worst.problem], leaf=worst.who, error=_words(worst))
        facts += leaving.leave(settled, current(settled), with_best(end, state, visit)).facts
    return Record(facts=tuple(facts))


def _denial(
    state: RunState, step: ModelStep | ToolStep, attempt: ToolAttempt, instruments: Instruments
) -> tuple[tuple[Fact, ...], Denial | None]:
    plan, found, call_id = step.gates, state.gates, attempt.started.call_id
    if plan is None or found is None:
        return (), None
    broken = guardrails.violated(plan.tools, attempt.given, instruments, tool=attempt.started.tool)
    if broken is None:
        return (), next((one for one in found.denials if one.call_id == call_id), None)
    rail, problem = broken
    denial = Denial(
        call_id=call_id, who=rail.place, problem=CallProblem.GUARDRAIL, reason=problem, ends=rail.ends
    )
    return (guardrails.violation(rail, Point.TOOLS, problem, subject=call_id),), denial


def _end(attempt: ToolAttempt, denial: Denial) -> ToolCallFinished:
    return ToolCallFinished(
        call_id=attempt.started.call_id,
        tool=attempt.started.tool,
        status=CallStatus.DENIED,
        problem=denial.problem,
        error=_words(denial),
    )


def _words(denial: Denial) -> str:
    by = "the policy" if denial.problem is CallProblem.POLICY_DENIED else f"the guardrail {denial.who}"
    return f"{by} does not allow this call: {denial.reason or 'no reason was given'}"
