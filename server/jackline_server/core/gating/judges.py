"""A judge at a gate: a model that passes or does not pass what a guardrail shows it.

Owns what it is shown and what its word means at a gate: a judge that fails, says nothing usable, or has no
room has not passed it. Does not own how it is asked (`side_calls`) or how its reply is read (`verdicts`).
"""

from jackline_server.core import json_text
from jackline_server.core.bounds import Limit
from jackline_server.core.context import step_input
from jackline_server.core.deciding import side_calls, turns, verdicts
from jackline_server.core.deciding.side_calls import SideCall
from jackline_server.core.deciding.verdicts import MOST_CASE_CHARS
from jackline_server.core.facts import (
    ConsultAnswer,
    Consulted,
    ConsultKind,
    Purpose,
)
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import Judged, Point
from jackline_server.core.gates import Trial
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import transcript
from jackline_server.core.state import RunState, Visit
from jackline_server.core.steps import CallModel, Record, Step


@frozen
class Case:
    """What a judge is shown: which guardrail asks, where, about which call if about one, and the text."""

    who: str
    judged: Judged
    point: Point
    subject: str
    title: str
    text: str


def try_case(state: RunState, visit: Visit, step: ModelStep, case: Case, *, now_active_ms: int) -> Step:
    """The next thing that brings the judge's word about."""
    trial = None if state.gates is None else state.gates.trial
    if trial is not None and trial.said is not None:
        return Record(facts=(_word(case, trial.said),))
    if trial is not None and trial.failed:
        if trial.retry_at_active_ms is None:
            return Record(facts=(_no_word(case, f"the judge failed: {trial.error}"),))
        if now_active_ms < trial.retry_at_active_ms:
            return turns.wait_for_retry(state, trial.retry_at_active_ms, now_active_ms)
    if len(case.text) > MOST_CASE_CHARS:
        return Record(facts=(_no_word(case, f"more than {MOST_CASE_CHARS} characters are not judged"),))
    call = _call(state, visit, step, case, trial, now_active_ms=now_active_ms)
    if isinstance(call, CallModel):
        return call
    return Record(facts=(_no_word(case, f"no room for the judge: {turns.limit_words(call)}"),))


def _call(
    state: RunState, visit: Visit, step: ModelStep, case: Case, trial: Trial | None, *, now_active_ms: int
) -> CallModel | Limit:
    """The next attempt at the judge with its reservation, or the bound that forbids it."""
    asked = SideCall(
        purpose=Purpose.JUDGE,
        model=case.judged.model,
        instructions=verdicts.instructions(case.judged.criteria),
        case=_shown(state, step, case),
        failed=0 if trial is None else trial.failed,
    )
    return side_calls.call(state, visit, step, asked, now_active_ms=now_active_ms)


def _shown(state: RunState, step: ModelStep, case: Case) -> str:
    """What is judged, behind what the step was given, each fenced."""
    judged = f"# {case.title}\n{transcript.fenced(case.text)}"
    if case.point is Point.INPUT:
        return judged
    given = transcript.fenced(json_text.write(step_input(state.context, step.input)))
    return f"# Input, which is not what you judge\n{given}\n\n{judged}"


def _word(case: Case, said: str) -> Consulted:
    verdict = verdicts.read(said)
    if isinstance(verdict, str):
        return _no_word(case, verdict)
    answer = ConsultAnswer.PROCEED if verdict.passed else ConsultAnswer.DENY
    return _consulted(case, answer, reason=verdict.reason)


def _no_word(case: Case, error: str) -> Consulted:
    return _consulted(case, ConsultAnswer.FAILED, error=error)


def _consulted(case: Case, answer: ConsultAnswer, *, reason: str = "", error: str = "") -> Consulted:
    return Consulted(
        kind=ConsultKind.JUDGE,
        who=case.who,
        answer=answer,
        duration_ms=0,
        error=error,
        point=case.point,
        subject=case.subject,
        reason=reason,
    )
