"""Which gates hold for a part of a run."""

from jackline_server.core.facts import CallStatus, ToolCallFinished
from jackline_server.core.gate_plans import GatesPlan, GuardrailPlan, HookPlan, Point
from jackline_server.core.plan import ModelStep, ToolStep
from jackline_server.core.state import RunState


def of_step(state: RunState, step_id: str) -> GatesPlan | None:
    """What is asked around a step that the run visits."""
    step = state.plan.steps.get(step_id)
    return step.gates if isinstance(step, ModelStep | ToolStep) else None


def here(state: RunState) -> GatesPlan | None:
    """What is asked where the run is: around its step, or between steps around the run itself."""
    return state.plan.gates if state.visit is None else of_step(state, state.visit.step_id)


def hook(gates: GatesPlan | None, who: str) -> HookPlan | None:
    """The hook of that name."""
    hooks = () if gates is None else gates.hooks
    return next((one for one in hooks if one.who == who), None)


def guardrail(gates: GatesPlan | None, place: str) -> GuardrailPlan | None:
    """The guardrail of that place."""
    rails = () if gates is None else (*gates.input, *gates.output, *gates.tools)
    return next((one for one in rails if one.place == place), None)


def awaiting(state: RunState, step_id: str, fact: ToolCallFinished) -> tuple[str, ...]:
    """The hooks that look at a call which ended so, before it counts as settled."""
    over = fact.status in (CallStatus.COMPLETED, CallStatus.FAILED) and fact.retry_in_ms is None
    gates = of_step(state, step_id)
    if gates is None or not over or fact.reused_from or fact.problem is not None:
        return ()
    return tuple(one.who for one in gates.at(Point.AFTER_TOOL_CALL))
