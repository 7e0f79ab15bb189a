"""Steps that are runs of their own: workflows, and agents that are tools of others.

Owns what such a step may change, what it is given of its parent's, and the
findings about them: recursion, depth, shares, and keys that mean nothing where a run is started once and ends
by itself. Does not own what a child is given at run time (`core.calling.children`).
"""

from collections.abc import Iterator, Mapping

from jackline_server.core.plan import (
    NO_SHARE,
    ChildAction,
    Effect,
    ModelStep,
    Plan,
    SharePlan,
    StepPlan,
    ToolStep,
)
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AgentShape, AnyStep, ChildShape, ShareShape
from jackline_server.definitions.yaml_nodes import Path

_IDLE_KEYS = {
    "retry": "a run is started once and repeats its own calls; leave `retry` out",
    "timeout": "a run has its own time: set `run_timeout` in `share`",
    "on_unknown": "how a run ended is always known; leave `on_unknown` out",
    "unknown_expiry": "how a run ended is always known; leave `unknown_expiry` out",
}
_STRENGTH = (Effect.READ, Effect.IDEMPOTENT, Effect.WRITE, Effect.DESTRUCTIVE)


def action(step: ChildShape) -> ChildAction:
    """The action of a step that runs a workflow."""
    return ChildAction(workflow=step.workflow, share=share_of(step.share))


def share_of(shape: ShareShape | None) -> SharePlan:
    """What a child is given, as the file says."""
    if shape is None:
        return NO_SHARE
    return SharePlan(
        token_budget=shape.token_budget,
        cost_budget_micros=shape.cost_budget_usd,
        run_timeout_ms=shape.run_timeout,
    )


def called_agents(steps: Mapping[str, AnyStep]) -> frozenset[str]:
    """The agents that are tools of others."""
    refs = {entry.ref for step in steps.values() if isinstance(step, AgentShape) for entry in step.tools}
    return frozenset(ref for ref in refs if isinstance(steps.get(ref), AgentShape))


def effect_of_agent(step_id: str, steps: Mapping[str, AnyStep], effects: Mapping[str, Effect]) -> Effect:
    """What an agent may change: as much as the strongest of its tools, those of its agents included."""
    seen, ahead, strongest = {step_id}, [step_id], Effect.READ
    while ahead:
        step = steps[ahead.pop()]
        for entry in step.tools if isinstance(step, AgentShape) else ():
            if isinstance(steps.get(entry.ref), AgentShape) and entry.ref not in seen:
                seen.add(entry.ref)
                ahead.append(entry.ref)
            strongest = max(strongest, effects.get(entry.ref, Effect.READ), key=_STRENGTH.index)
    return strongest


def check_keys(step_id: str, shape: ChildShape, report: Report) -> None:
    """Report keys that mean nothing for a run of its own."""
    for key, why in _IDLE_KEYS.items():
        if getattr(shape, key) is not None:
            report.error("child_key", why, ("steps", step_id, key))


def check(plan: Plan, draft: Draft, report: Report) -> None:
    """Report recursion, levels that are not there, and shares of what is not there."""
    called = called_agents(draft.steps)
    for step_id, shape in draft.steps.items():
        path: Path = ("steps", step_id)
        if isinstance(shape, ChildShape) and shape.workflow.partition("@")[0] == plan.name:
            message = f"`{step_id}` runs the workflow that it stands in, over and over"
            report.error("child_recursion", message, (*path, "workflow"))
        if isinstance(shape, AgentShape):
            if shape.share is not None and step_id not in called:
                message = f"no agent has `{step_id}` as a tool, so it has no share of another run"
                report.warning("share_unused", message, (*path, "share"))
            _check_recursion(step_id, shape, plan, draft, report)
        if isinstance(shape, ChildShape | AgentShape) and shape.share is not None:
            _check_share(shape.share, plan, (*path, "share"), report)
    if not report.has_errors:
        _check_depth(plan, report)


def _check_recursion(step_id: str, shape: AgentShape, plan: Plan, draft: Draft, report: Report) -> None:
    for index, entry in enumerate(shape.tools):
        if entry.ref != step_id and entry.ref in plan.steps and step_id in _below(plan, entry.ref):
            place = draft.tool_places(step_id).get(entry.ref, index)
            message = (
                f"`{entry.ref}` has `{step_id}` as a tool in its turn, so that each would call the other"
            )
            report.error("child_recursion", message, ("steps", step_id, "tools", place, "ref"))


def _below(plan: Plan, step_id: str) -> frozenset[str]:
    """All that a run of an agent can call, by itself or through others."""
    found, ahead = set[str](), [step_id]
    while ahead:
        for ref in _tools(plan.steps.get(ahead.pop())):
            if ref not in found:
                found.add(ref)
                ahead.append(ref)
    return frozenset(found)


def _tools(step: StepPlan | None) -> Iterator[str]:
    yield from (entry.ref for entry in step.tools) if isinstance(step, ModelStep) else ()


def _check_share(share: ShareShape, plan: Plan, path: Path, report: Report) -> None:
    bounds = plan.bounds
    for key, given, own in (
        ("token_budget", share.token_budget, bounds.token_budget),
        ("cost_budget_usd", share.cost_budget_usd, bounds.cost_budget_micros),
        ("run_timeout", share.run_timeout, bounds.run_timeout_ms),
    ):
        if given is not None and own is not None and given > own:
            message = f"a share is of what the whole run has, and that has less: lower `{key}`"
            report.error("share_too_large", message, (*path, key))


def _check_depth(plan: Plan, report: Report) -> None:
    for step_id, step in sorted(plan.steps.items()):
        depth = _depth(plan, step, tuple(plan.steps))
        if depth > plan.bounds.child_depth and _is_started(plan, step_id):
            message = (
                f"`{step_id}` needs {depth} levels of child runs, and `child_depth` is "
                f"{plan.bounds.child_depth}: the last can never be started"
            )
            report.warning("child_too_deep", message, ("steps", step_id), of_key=True)


def _is_started(plan: Plan, step_id: str) -> bool:
    """True for a step that the run itself visits: what a child of it needs is counted there."""
    return not any(step_id in _tools(step) for step in plan.steps.values())


def _depth(plan: Plan, step: StepPlan | None, ahead: tuple[str, ...]) -> int:
    """How many levels of runs a visit of the step needs; `ahead` are steps that it has not come by."""
    match step:
        case ToolStep(action=ChildAction()):
            return 1
        case ModelStep():
            rest = tuple(name for name in ahead if name != step.step_id)
            below = [plan.steps[ref] for ref in _tools(step) if ref in rest]
            depths = [_depth(plan, one, rest) + isinstance(one, ModelStep) for one in below]
            return max(depths, default=0)
        case _:
            return 0


def starts_children(plan: Plan) -> bool:
    """True if a run of the plan can start others."""
    return any(
        (isinstance(step, ToolStep) and isinstance(step.action, ChildAction))
        or (isinstance(step, ModelStep) and step.as_tool is not None)
        for step in plan.steps.values()
    )
