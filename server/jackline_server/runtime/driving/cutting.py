"""What becomes of the calls of an effect that was cancelled for good.

Owns the facts that settle them. Pure.
"""

from jackline_server.core import bounds
from jackline_server.core.deciding.usage_reports import full
from jackline_server.core.facts import (
    CallStatus,
    Fact,
    FailureClass,
    ModelCallFailed,
    ModelCallStarted,
    ToolCallFinished,
)
from jackline_server.core.plan import Effect, ModelPlan
from jackline_server.core.state import RunState
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.driving.masking import hides_replies

MOST_KEPT_CHARS = 128 * 1024
"""So much is kept of a reply that broke off."""


def cut_short(run: LiveRun, *, abandoned: bool) -> tuple[Fact, ...]:
    """What becomes of the calls in flight when their effect was cancelled for good.

    `abandoned` says that the effect could not be stopped and was left behind.
    """
    state, visit = run.state, run.state.visit
    if visit is None:
        return ()
    facts: list[Fact] = []
    if visit.model_call is not None:
        facts.append(
            _cancelled(visit.model_call.started, _model_of(state, visit.model_call.started), heard(run))
        )
    for call_id in visit.open_calls:
        call = state.calls[call_id]
        if call.status is not CallStatus.STARTED or call.interrupted:
            continue
        harmless = call.effect is Effect.READ
        facts.append(
            ToolCallFinished(
                call_id=call_id,
                tool=call.tool,
                status=CallStatus.CANCELLED if harmless else CallStatus.UNKNOWN,
                abandoned=abandoned,
                error="the run was aborted during the call",
            )
        )
    return tuple(facts)


def _model_of(state: RunState, started: ModelCallStarted) -> ModelPlan:
    return state.plan.models[started.model]


def heard(run: LiveRun) -> str:
    """What came of the reply that is under way; nothing where it would have to be masked as a whole."""
    return "" if run.heard is None or hides_replies(run.state) else run.heard.text[:MOST_KEPT_CHARS]


def _cancelled(started: ModelCallStarted, model: ModelPlan, text: str) -> ModelCallFailed:
    usage = full(started)
    return ModelCallFailed(
        failure=FailureClass.CANCELLED,
        retry_in_ms=None,
        usage=usage,
        cost_micros=bounds.charge(model, usage),
        error="the run was aborted during the call",
        text=text,
    )
