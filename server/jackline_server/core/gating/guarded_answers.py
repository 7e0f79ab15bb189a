"""Answers on their way out of a step: none leaves that its guardrails have not let pass.

Owns what a violation leads to: a repair while there are any, a closing answer that is left out, or the exit
`guardrail_violation`. Every end of a visit that the loop decides comes by here, whatever led to it; the ends
that come from outside keep no unfinished answer of a guarded step (`partial`).
"""

from jackline_server.core import exits, json_text
from jackline_server.core.deciding import finishing, judging, leaving
from jackline_server.core.deciding.outcome import Wrong
from jackline_server.core.exits import STOPPED
from jackline_server.core.facts import (
    AnswerProblem,
    CallStatus,
    Consulted,
    StepFinished,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.frozen import change, frozen
from jackline_server.core.gate_plans import GatesPlan, Judged, Point
from jackline_server.core.gates import NOTHING_HEARD, Refusal
from jackline_server.core.gating import guardrails, judges
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import FINISH, JsonValue, ModelStep
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import Record, Step


@frozen
class _Violation:
    """What was violated, the fact to be recorded for it if there is none yet, and if it ends the step."""

    refusal: Refusal
    told: tuple[Consulted, ...]
    ends: bool


def before_leaving(
    state: RunState,
    visit: Visit,
    step: ModelStep,
    decided: Record,
    *,
    now_active_ms: int,
    instruments: Instruments,
) -> Step | None:
    """What has to happen before the visit may end so; None once nothing has."""
    plan, finished = step.gates, decided.facts[-1]
    if plan is None or not plan.output or not isinstance(finished, StepFinished):
        return None
    if finished.result_json is None:
        return None
    result = json_text.parse(finished.result_json)
    violation = _violation(state, plan, result, instruments)
    if violation is not None:
        return _refused(state, visit, step, decided, violation)
    heard = NOTHING_HEARD if state.gates is None else state.gates.heard
    for rail in plan.output:
        if isinstance(rail.check, Judged) and (Point.OUTPUT, "", rail.place) not in heard:
            case = judges.Case(
                who=rail.place,
                judged=rail.check,
                point=Point.OUTPUT,
                subject="",
                title="Answer",
                text=guardrails.text_of(result),
            )
            return judges.try_case(state, visit, step, case, now_active_ms=now_active_ms)
    return None


def _violation(
    state: RunState, plan: GatesPlan, result: JsonValue, instruments: Instruments
) -> _Violation | None:
    broken = guardrails.violated(plan.output, result, instruments)
    if broken is not None:
        rail, problem = broken
        refusal = Refusal(point=Point.OUTPUT, who=rail.place, reason=problem)
        told = guardrails.violation(rail, Point.OUTPUT, problem)
        return _Violation(refusal=refusal, told=(told,), ends=rail.ends)
    refusal = None if state.gates is None else state.gates.refusal
    if refusal is None or refusal.point is not Point.OUTPUT:
        return None
    ends = any(rail.place == refusal.who and rail.ends for rail in plan.output)
    return _Violation(refusal=refusal, told=(), ends=ends)


def _refused(
    state: RunState, visit: Visit, step: ModelStep, decided: Record, violation: _Violation
) -> Record:
    finished, refusal = decided.facts[-1], violation.refusal
    if isinstance(finished, StepFinished) and finished.partial:
        without = change(finished, result_json=None, partial=False)
        return Record(facts=(*violation.told, *decided.facts[:-1], without))
    error = (
        f"the guardrail {refusal.who} does not let your answer pass: {refusal.reason or 'no reason given'}"
    )
    final = visit.closing is not None or (isinstance(finished, StepFinished) and finished.signal == STOPPED)
    if violation.ends or final or visit.repairs >= step.outcome.repairs:
        end = exits.abnormal(StopReason.GUARDRAIL, leaf=refusal.who, error=error)
        return Record(facts=(*violation.told, *leaving.leave(state, visit, end).facts))
    wrong = Wrong(problem=AnswerProblem.GUARDRAIL, explanation=f"{error}. Answer again, and keep to it.")
    call = _finish_call(state, decided)
    if call is None:
        again = judging.reject(state, visit, step, wrong)
    else:
        again = finishing.rejected(state, step, state.calls[call], wrong)
    return Record(facts=(*violation.told, *again.facts))


def _finish_call(state: RunState, decided: Record) -> str | None:
    """The call of `finish` that the step would end by."""
    for fact in decided.facts:
        if isinstance(fact, ToolCallFinished) and fact.tool == FINISH and fact.status is CallStatus.COMPLETED:
            return fact.call_id if fact.call_id in state.calls else None
    return None
