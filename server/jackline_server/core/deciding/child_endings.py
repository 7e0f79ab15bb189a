"""What the end of a child run comes to for the call that started it.

Owns the facts that follow. A child that did not succeed is an error for whoever called it, named by its exit.
"""

from jackline_server.core.commands import LongResult
from jackline_server.core.facts import CallStatus, ChildFinished, Fact, Phase, StopReason, ToolCallFinished
from jackline_server.core.frozen import change
from jackline_server.core.state import RunState, ToolCall


def ended(
    state: RunState, finished: ChildFinished, long: LongResult | None = None
) -> tuple[Fact, ...] | None:
    """The facts that follow from the end of a child; None if no such child lives here."""
    family = state.family
    if family is None or finished.child_run_id not in family.living:
        return None
    told = change(finished, result_json=None, error="")
    call = _call_ended(state.calls[finished.call_id], finished, stopping=state.oversight.abort is not None)
    if long is None or call.status is not CallStatus.COMPLETED:
        return told, call
    kept = change(call, cut_from_bytes=long.cut_from_bytes, tail=long.tail, blob=long.blob)
    return (told, kept, *long.notices)


def _call_ended(call: ToolCall, finished: ChildFinished, *, stopping: bool) -> ToolCallFinished:
    """How the call ends that started the child. A child that failed is an error for whoever called it."""
    if finished.phase is Phase.SUCCEEDED:
        return ToolCallFinished(
            call_id=call.call_id,
            tool=call.tool,
            status=CallStatus.COMPLETED,
            duration_ms=finished.active_ms,
            output_json=finished.result_json or "null",
        )
    cancelled = stopping and finished.phase is Phase.ABORTED
    why = f": {finished.error}" if finished.error else ""
    return ToolCallFinished(
        call_id=call.call_id,
        tool=call.tool,
        status=CallStatus.CANCELLED if cancelled else CallStatus.FAILED,
        duration_ms=finished.active_ms,
        timed_out=finished.stop_reason in (StopReason.TIME_BUDGET, StopReason.DEADLINE) and not cancelled,
        error=f"the run {finished.child_run_id} ended with {finished.signal} ({finished.stop_leaf}){why}",
    )
