"""Child runs without a store: what a scripted one leaves in its parent's log.

Owns the facts. Does not own the two runs together (`harness`).
"""

from jackline_server.core.deciding import child_endings
from jackline_server.core.facts import CallStatus, ChildFinished, ChildStarted, Fact, Phase, StopReason
from jackline_server.core.state import RunState
from jackline_server.core.steps import ToolAttempt


def begun(attempt: ToolAttempt) -> ChildStarted:
    """The child of an attempt lives. Raises TypeError: it starts none."""
    share = attempt.child
    if share is None:
        raise TypeError(f"{attempt.step.step_id} starts no run")
    return ChildStarted(
        call_id=attempt.started.call_id,
        child_run_id=share.run_id,
        workflow=attempt.step.step_id,
        plan_digest="0" * 64,
        tokens=share.tokens,
        cost_micros=share.cost_micros,
        run_timeout_ms=share.run_timeout_ms,
    )


def ended(
    attempt: ToolAttempt, state: RunState, *, status: CallStatus, output_json: str, takes_ms: int
) -> tuple[Fact, ...]:
    """It ends, well if the status says completed, having used half of the tokens and money it was given."""
    share = attempt.child
    if share is None:
        raise TypeError(f"{attempt.step.step_id} starts no run")
    fine = status is CallStatus.COMPLETED
    finished = ChildFinished(
        call_id=attempt.started.call_id,
        child_run_id=share.run_id,
        phase=Phase.SUCCEEDED if fine else Phase.FAILED,
        signal="default" if fine else "error",
        stop_reason=StopReason.DEFAULT if fine else StopReason.TOOL_ERROR,
        stop_leaf="" if fine else "script",
        tokens=(share.tokens or 0) // 2,
        cost_micros=(share.cost_micros or 0) // 2,
        active_ms=takes_ms,
        result_json=output_json if fine else None,
    )
    facts = child_endings.ended(state, finished)
    if facts is None:
        raise TypeError("no such child lives")
    return facts
