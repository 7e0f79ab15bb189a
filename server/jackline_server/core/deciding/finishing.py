"""Judging a call of `finish`: the answer of a step whose model answers by calling it.

Owns when such a call is judged and what it leads to. The calls beside it come first: it counts once all of
them have succeeded. If one has not, the model has answered without knowing that: it is told, and goes on with
its next turn. A call that is rejected has an error as its result, so that the conversation stays paired.
"""

from jackline_server.core.deciding import judging, leaving, outcome, turns
from jackline_server.core.deciding.outcome import Accepted, Wrong
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    AnswerProblem,
    CallProblem,
    CallStatus,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.folding import evolve_calls
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import FINISH, ModelStep
from jackline_server.core.reading import finish_tool
from jackline_server.core.state import Reply, RunState, ToolCall, Visit, current
from jackline_server.core.steps import Record

_ACCEPTED = '"The answer is accepted."'
_ONE_ONLY = f"one call of `{FINISH}` in a reply is looked at, the first"
_PROBLEMS = {
    AnswerProblem.NOT_JSON: CallProblem.MALFORMED_ARGUMENTS,
    AnswerProblem.TRUNCATED: CallProblem.MALFORMED_ARGUMENTS,
    AnswerProblem.TOOL_REQUIRED: CallProblem.NOT_ALLOWED,
    AnswerProblem.CALL_FAILED: CallProblem.NOT_ALLOWED,
    AnswerProblem.SUPERVISOR: CallProblem.SUPERVISOR,
}


def given(state: RunState, visit: Visit, step: ModelStep) -> ToolCall | None:
    """The call of `finish` that is to be judged now, the first one of the newest reply.

    The calls beside it are settled first, except in a closing reply, which runs none.
    """
    if not visit.open_calls or not finish_tool.has(step) or visit.attempts is not None:
        return None
    waiting = _waiting(state, visit, step)
    if not waiting or visit.closing is not None:
        return waiting[0] if waiting else None
    others = (state.calls[call_id] for call_id in visit.open_calls)
    ready = all(
        finish_tool.is_call(step, call) or evolve_calls.is_settled(call, state.plan) for call in others
    )
    return waiting[0] if ready else None


def judge(state: RunState, visit: Visit, step: ModelStep, call: ToolCall, schemas: SchemaValidator) -> Record:
    """What the call leads to: the end of the step, or a reason why it does not count."""
    verdict = _verdict(state, visit, step, call, schemas)
    if isinstance(verdict, Wrong):
        return rejected(state, step, call, verdict)
    accepted = ToolCallFinished(
        call_id=call.call_id, tool=FINISH, status=CallStatus.COMPLETED, output_json=_ACCEPTED
    )
    settled = evolve_calls.finish(state, accepted)
    if visit.closing is not None:
        left = judging.close(settled, current(settled), verdict)
    else:
        end = Exit(
            signal=verdict.signal, reason=StopReason.FINISH_TOOL, result=verdict.result, has_result=True
        )
        left = leaving.leave(settled, current(settled), end)
    return Record(facts=(accepted, *left.facts))


def _verdict(
    state: RunState, visit: Visit, step: ModelStep, call: ToolCall, schemas: SchemaValidator
) -> Accepted | Wrong:
    reply = _newest(visit)
    failed = [
        other.tool
        for other in (state.calls[call_id] for call_id in reply.calls)
        if other.status is not CallStatus.COMPLETED and not finish_tool.is_call(step, other)
    ]
    if failed and visit.closing is None:
        return Wrong(
            problem=AnswerProblem.CALL_FAILED,
            explanation=f"a call beside it did not succeed: {', '.join(dict.fromkeys(failed))}. Look at its "
            f"result, and call `{FINISH}` again when you are done.",
        )
    verdict = outcome.read_call(call.arguments, reply.finish, step.outcome, schemas)
    if visit.closing is not None or turns.choice_met(state, visit, step):
        return verdict
    return judging.tool_required(verdict)


def rejected(state: RunState, step: ModelStep, call: ToolCall, verdict: Wrong) -> Record:
    """Deny the reply's calls of `finish`, and do with the answer what is done with a wrong one."""
    settled, denied = state, list[ToolCallFinished]()
    for one in _waiting(state, current(state), step):
        fact = ToolCallFinished(
            call_id=one.call_id,
            tool=FINISH,
            status=CallStatus.DENIED,
            problem=_PROBLEMS.get(verdict.problem, CallProblem.INVALID_ARGUMENTS),
            error=verdict.explanation if one is call else _ONE_ONLY,
        )
        denied.append(fact)
        settled = evolve_calls.finish(settled, fact)
    visit = current(settled)
    if visit.closing is not None:
        left = judging.close(settled, visit, verdict)
    else:
        left = judging.reject(settled, visit, step, verdict, call_id=call.call_id)
    return Record(facts=(*denied, *left.facts))


def _waiting(state: RunState, visit: Visit, step: ModelStep) -> list[ToolCall]:
    """The calls of `finish` in the newest reply that nobody has judged."""
    calls = (state.calls[call_id] for call_id in _newest(visit).calls)
    return [call for call in calls if finish_tool.is_call(step, call) and call.status is CallStatus.REQUESTED]


def _newest(visit: Visit) -> Reply:
    """The reply that holds the open calls."""
    return next(entry for entry in reversed(visit.entries) if isinstance(entry, Reply))
