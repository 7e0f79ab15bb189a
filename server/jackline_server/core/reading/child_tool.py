"""An agent as the tool of another: the step behind a call of it, which is a run of its own.

Owns that step, and the plan that such a run carries: the agent alone, with all that it can call.
"""

from jackline_server.core.frozen import change
from jackline_server.core.plan import (
    NO_SHARE,
    ChildAction,
    Effect,
    ModelStep,
    OnUnknown,
    Plan,
    StepPlan,
    ToolStep,
)

RESULT_CHARS = 32_000
"""The most of an agent's answer that the agent which asked it is shown at once."""


def of_agent(step: ModelStep) -> ToolStep:
    """What is behind a call of the agent."""
    told = step.as_tool
    return ToolStep(
        step_id=step.step_id,
        kind=step.kind,
        description=step.description,
        input={},
        routes={},
        next_step="",
        effect=Effect.WRITE if told is None else told.effect,
        action=ChildAction(workflow="", agent=step.step_id, share=NO_SHARE if told is None else told.share),
        output_key=step.outcome.output_key,
        timeout_ms=step.bounds.tool_timeout_ms,
        result_chars=RESULT_CHARS,
        on_unknown=OnUnknown.FAIL,
        unknown_expiry_ms=0,
    )


def is_child(step: StepPlan | None) -> bool:
    """True if a call of the step, made by another one, is a run of its own."""
    return isinstance(step, ModelStep) or (
        isinstance(step, ToolStep) and isinstance(step.action, ChildAction)
    )


def plan_of(plan: Plan, agent: str) -> Plan:
    """The plan of a run of that agent alone, not sealed. Raises KeyError, TypeError: it is no agent of it."""
    step = plan.steps[agent]
    if not isinstance(step, ModelStep):
        raise TypeError(f"{agent} is no agent")
    alone = change(step, routes={}, next_step="", thread=False)
    steps: dict[str, StepPlan] = {agent: alone}
    ahead: list[ModelStep] = [alone]
    while ahead:
        for entry in ahead.pop().tools:
            tool = plan.steps[entry.ref]
            if entry.ref in steps:
                continue
            steps[entry.ref] = tool
            if isinstance(tool, ModelStep):
                ahead.append(tool)
    return change(
        plan,
        digest="",
        flow=(agent,),
        steps={name: steps[name] for name in sorted(steps)},
        input_schema_json=None,
        warnings=(),
    )
