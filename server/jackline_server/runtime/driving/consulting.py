"""Asks those who can change nothing, and makes facts of what they say.

Owns the questions as they leave the core and the answers as they come back: whatever goes wrong is an
answer too. Does not own who is asked (a `Consultants`). Nothing is announced: a question that a
crash cut off is asked again.
"""

import asyncio
import logging
from collections.abc import Mapping

from jackline_server.core import json_text
from jackline_server.core.facts import ConsultAnswer, Consulted, ConsultKind, Fact
from jackline_server.core.gating import gate_answers
from jackline_server.core.state import RunState
from jackline_server.core.steps import Consult, Question
from jackline_server.runtime.ports.consultants import Consultants, Consultation, ConsultReply, RunPlace
from jackline_server.runtime.ports.machine import Clock

_log = logging.getLogger(__name__)

_MOST_ERROR_CHARS = 2_000
_MOST_METADATA = 32
_MOST_METADATA_CHARS = 256

_CONDITION: Mapping[bool, ConsultAnswer] = {True: ConsultAnswer.YES, False: ConsultAnswer.NO}
_HOOK: Mapping[bool, ConsultAnswer] = {True: ConsultAnswer.PROCEED, False: ConsultAnswer.VETO}
_POLICY: Mapping[bool, ConsultAnswer] = {True: ConsultAnswer.PROCEED, False: ConsultAnswer.DENY}


async def consult(
    step: Consult, state: RunState, *, consultants: Consultants, clock: Clock
) -> tuple[Fact, ...]:
    """Ask all at once, and return the facts of the answers. Raises nothing but CancelledError."""
    if len(step.questions) == 1:
        answers = [await _asked(step.questions[0], state, consultants=consultants, clock=clock)]
    else:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_asked(question, state, consultants=consultants, clock=clock))
                for question in step.questions
            ]
        answers = [task.result() for task in tasks]
    return gate_answers.facts_of(state, answers)


async def _asked(question: Question, state: RunState, *, consultants: Consultants, clock: Clock) -> Consulted:
    began = clock.monotonic_ms()
    try:
        reply = await consultants.ask(_consultation(question, state))
    except Exception as error:  # noqa: BLE001 - the question ends here; the run must not
        _log.exception("a consultant failed", extra={"run_id": state.run_id})
        reply = ConsultReply(answer=None, error=f"it failed: {type(error).__name__}")
    metadata = _metadata(reply.metadata)
    return Consulted(
        kind=question.kind,
        who=question.who,
        answer=_answer(question.kind, reply),
        duration_ms=clock.monotonic_ms() - began,
        error=json_text.clean(reply.error[:_MOST_ERROR_CHARS]),
        point=question.point,
        subject=question.subject,
        reason=json_text.clean(reply.reason[:_MOST_ERROR_CHARS]),
        metadata_json=json_text.write(metadata) if metadata else "",
    )


def _answer(kind: ConsultKind, reply: ConsultReply) -> ConsultAnswer:
    if reply.answer is None:
        return ConsultAnswer.FAILED
    if kind is ConsultKind.STOP_CONDITION:
        return _CONDITION[reply.answer]
    if kind is ConsultKind.HOOK:
        return ConsultAnswer.RETRY if reply.retry else _HOOK[reply.answer]
    return _POLICY[reply.answer]


def _metadata(given: Mapping[str, str]) -> dict[str, json_text.JsonValue]:
    """As many short texts as a run keeps of one answer."""
    kept = list(given.items())[:_MOST_METADATA]
    return {
        json_text.clean(name[:_MOST_METADATA_CHARS]): json_text.clean(value[:_MOST_METADATA_CHARS])
        for name, value in kept
    }


def _consultation(question: Question, state: RunState) -> Consultation:
    visit = state.visit
    return Consultation(
        kind=question.kind,
        target=question.target,
        run_id=state.run_id,
        who=question.who,
        variables=question.variables,
        subject=json_text.parse_object(state.started.subject_json),
        timeout_ms=question.timeout_ms,
        point=question.point,
        view=question.view,
        place=RunPlace(
            workflow=state.plan.name,
            principal=state.started.principal,
            step_id="" if visit is None else visit.step_id,
            visit=0 if visit is None else visit.number,
            iteration=0 if visit is None else visit.iteration,
        ),
    )
