"""Calls that end their step: a failure that its policy does not let pass, one too many that can't start.

Owns how they are counted. Does not own whether a call may start (`call_checks`).
"""

from itertools import takewhile

from jackline_server.core import exits
from jackline_server.core.exits import Exit
from jackline_server.core.facts import CallProblem, CallStatus, StopReason
from jackline_server.core.folding.evolve_calls import failure_policy, is_settled
from jackline_server.core.plan import ModelStep, OnFailure
from jackline_server.core.reading import finish_tool
from jackline_server.core.state import Reply, RunState, ToolCall, Visit, last_reply


def fatal(state: RunState, visit: Visit, step: ModelStep) -> Exit | None:
    """The exit that the calls of the last reply lead to; None if the loop goes on, or some are under way.

    It is a failure that the tool's policy does not let pass, or one call too many that can't start.
    """
    last = last_reply(visit)
    if last is None or not last.calls:
        return None
    calls = [state.calls[call_id] for call_id in last.calls if not _is_finish(state, step, call_id)]
    if not calls or any(call.status in (CallStatus.STARTED, CallStatus.ASKING) for call in calls):
        return None
    for call in calls:
        if _ended_badly(call, state) and _policy_of_ending(state, call) is OnFailure.FAIL:
            error = call.error or call.status.value
            return exits.abnormal(StopReason.TOOL_ERROR, leaf=call.tool, error=error)
    most = step.invalid_args
    if most is not None and _never_ran(calls[-1]) and _unstartable_in_a_row(state, visit, step) > most:
        error = f"{most + 1} calls in a row could not start; the last: {calls[-1].error}"
        return exits.abnormal(StopReason.TOOL_ERROR, leaf="step.invalid_args", error=error)
    return None


def _is_finish(state: RunState, step: ModelStep, call_id: str) -> bool:
    return finish_tool.is_call(step, state.calls[call_id])  # an answer: `repairs` bounds it


def _ended_badly(call: ToolCall, state: RunState) -> bool:
    return bool(call.attempts) and is_settled(call, state.plan) and call.status is not CallStatus.COMPLETED


def _policy_of_ending(state: RunState, call: ToolCall) -> OnFailure:
    policy = failure_policy(state, call)
    return policy.on_timeout if call.timed_out and call.status is CallStatus.FAILED else policy.on_error


_UNSTARTABLE = (CallProblem.UNKNOWN_TOOL, CallProblem.MALFORMED_ARGUMENTS, CallProblem.INVALID_ARGUMENTS)


def _never_ran(call: ToolCall) -> bool:
    return call.problem in _UNSTARTABLE


def _unstartable_in_a_row(state: RunState, visit: Visit, step: ModelStep) -> int:
    """How many of the visit's calls, the newest first, could not start."""
    replies = (entry for entry in reversed(visit.entries) if isinstance(entry, Reply))
    newest_first = (
        state.calls[call_id]
        for reply in replies
        for call_id in reversed(reply.calls)
        if not _is_finish(state, step, call_id)
    )
    return sum(1 for _ in takewhile(_never_ran, newest_first))
