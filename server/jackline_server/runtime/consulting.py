"""Asks those who can change nothing, and makes a fact of what they say.

Owns the question as it leaves the core and the answer as it comes back: whatever goes wrong is an answer too.
Does not own who is asked (a `Consultants`). Nothing is announced: a question that a crash cut off is asked
again.
"""

import logging
from collections.abc import Mapping

from jackline_server.core import json_text, stopping
from jackline_server.core.facts import ConsultAnswer, Consulted, Fact
from jackline_server.core.state import RunState
from jackline_server.core.steps import Consult
from jackline_server.runtime.ports import Clock, Consultants, Consultation, ConsultReply

_log = logging.getLogger(__name__)

_MOST_ERROR_CHARS = 2_000
_ANSWERS: Mapping[bool | None, ConsultAnswer] = {
    True: ConsultAnswer.YES,
    False: ConsultAnswer.NO,
    None: ConsultAnswer.FAILED,
}


async def consult(
    step: Consult, state: RunState, *, consultants: Consultants, clock: Clock
) -> tuple[Fact, ...]:
    """Ask, and return the facts of the answer. Raises nothing but CancelledError."""
    began = clock.monotonic_ms()
    try:
        reply = await consultants.ask(_consultation(step, state))
    except Exception as error:  # noqa: BLE001 - the question ends here; the run must not
        _log.exception("a consultant failed", extra={"run_id": state.run_id})
        reply = ConsultReply(answer=None, error=f"it failed: {type(error).__name__}")
    fact = Consulted(
        kind=step.kind,
        who=step.who,
        answer=_ANSWERS[reply.answer],
        duration_ms=clock.monotonic_ms() - began,
        error=reply.error[:_MOST_ERROR_CHARS],
    )
    return stopping.answered(state, fact)


def _consultation(step: Consult, state: RunState) -> Consultation:
    return Consultation(
        function=step.function,
        run_id=state.run_id,
        who=step.who,
        variables=step.variables,
        subject=json_text.parse_object(state.started.subject_json),
        timeout_ms=step.timeout_ms,
    )
