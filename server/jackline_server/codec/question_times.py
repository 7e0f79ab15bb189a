"""How long a question is open in all: a run keeps only when it expires."""

from typing import assert_never

from jackline_server.core.facts import InterruptKind
from jackline_server.core.folding.evolve_calls import entry_of
from jackline_server.core.plan import ModelStep, StepPlan, ToolEntry, ToolStep
from jackline_server.core.state import Interrupt, RunState, ToolCall


def open_ms(state: RunState, interrupt: Interrupt, call: ToolCall | None) -> int | None:
    """In milliseconds, by the plan; None if that does not say."""
    own = state.plan.steps.get(interrupt.step_id)
    match interrupt.kind:
        case InterruptKind.APPROVAL:
            return _of_an_approval(own, call)
        case InterruptKind.SUPERVISION:
            return _of_a_supervisor(own, interrupt.limit_leaf)
        case InterruptKind.LIMIT_REACHED:
            return own.limit_expiry_ms if isinstance(own, ModelStep) else None
        case InterruptKind.UNKNOWN_OUTCOME | InterruptKind.QUESTION:
            step = own if call is None else state.plan.steps.get(call.tool)
            return step.unknown_expiry_ms if isinstance(step, ToolStep) else None
        case _:
            assert_never(interrupt.kind)


def _of_an_approval(own: StepPlan | None, call: ToolCall | None) -> int | None:
    entry = entry_of(own, call) if isinstance(own, ModelStep) and call is not None else own
    approval = entry.approval if isinstance(entry, ToolEntry | ToolStep) else None
    return None if approval is None else approval.expiry_ms


def _of_a_supervisor(own: StepPlan | None, place: str) -> int | None:
    plan = own.supervisor if isinstance(own, ModelStep) else None
    if plan is None:
        return None
    asks = plan.judge if plan.judge is not None and plan.judge.place == place else plan.rule(place)
    return None if asks is None else asks.expiry_ms
