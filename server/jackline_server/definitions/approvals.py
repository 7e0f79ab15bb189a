"""`approval`: which calls may start only if somebody lets them, and for how long that stays open.

Owns which word counts (the entry's of `tools`, then the tool step's, then the agent's for all its tools),
what counts where nobody says anything, and the findings about them. Does not own what is asked
(`core.calling.approvals`).
"""

from collections.abc import Iterator

from jackline_server.core.approval_plans import ApprovalPlan, OnExpiry
from jackline_server.core.plan import Effect, ModelStep, OnQuestion, Plan, ToolStep
from jackline_server.core.reading.approvals import VARIABLES
from jackline_server.definitions import defaults
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.check_calls import CallCheck, Callee, callees, visited
from jackline_server.definitions.check_names import context_keys
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    AgentShape,
    ApprovalExpiryShape,
    ApprovalText,
    ApprovalWhenShape,
    HumanShape,
    ToolShape,
    ToolStepShape,
)
from jackline_server.definitions.yaml_nodes import Path

Written = ApprovalText | ApprovalWhenShape | None
Expiry = int | ApprovalExpiryShape | None


def of_entry(
    entry: ToolShape, tool: ToolStepShape | AgentShape, agent: AgentShape, effect: Effect, top: Expiry
) -> ApprovalPlan | None:
    """What holds for a tool of an agent. A question to a person needs nobody's word."""
    if isinstance(tool, HumanShape):
        return None
    own = tool.approval if isinstance(tool, ToolStepShape) else None
    said = _first(entry.approval, own, agent.approval)
    if said is None and effect is Effect.DESTRUCTIVE and isinstance(tool, ToolStepShape):
        said = "required"  # of an agent its own tools are asked about
    return _plan(said, agent.bounds.approval_expiry, top)


def of_step(step: ToolStepShape, effect: Effect, top: Expiry) -> ApprovalPlan | None:
    """What holds for a tool step where the flow visits it."""
    if isinstance(step, HumanShape):
        return None
    said = step.approval
    if said is None and effect is Effect.DESTRUCTIVE:
        said = "required"
    return _plan(said, None, top)


def _first(*said: Written) -> Written:
    return next((one for one in said if one is not None), None)


def _plan(said: Written, *expiries: Expiry) -> ApprovalPlan | None:
    if said is None or said == "none":
        return None
    return ApprovalPlan(
        when=said.when if isinstance(said, ApprovalWhenShape) else "",
        expiry_ms=next(
            (ms for one in expiries if (ms := _after(one)) is not None), defaults.APPROVAL_EXPIRY_MS
        ),
        on_expiry=next(
            (then for one in expiries if (then := _then(one)) is not None), defaults.ON_APPROVAL_EXPIRY
        ),
    )


def _after(expiry: Expiry) -> int | None:
    return expiry.after if isinstance(expiry, ApprovalExpiryShape) else expiry


def _then(expiry: Expiry) -> OnExpiry | None:
    then = expiry.then if isinstance(expiry, ApprovalExpiryShape) else None
    return None if then is None else OnExpiry(then)


# --- findings ----------------------------------------------------------------------------------


def check(plan: Plan, draft: Draft, expressions: ExpressionChecker, report: Report) -> None:
    """Report conditions that can't be read, approvals that nobody is asked for, times of none."""
    for said, path in _written(draft):
        if isinstance(said, ApprovalWhenShape):
            calls = CallCheck(
                callees=tuple(_asked_about(path, plan, draft)),
                expressions=expressions,
                report=report,
                path=(*path, "when"),
                code="approval_always",
                follows="so this always asks",
            )
            _check_condition(said.when, plan, calls)
    approvals = dict(_approvals(plan, draft))
    if plan.on_question is OnQuestion.REVIEW:
        for path in approvals:
            message = (
                "this call has to be approved, and `on_question: review` asks nobody: "
                "the run ends for review before it"
            )
            report.warning("approval_unasked", message, path)
    _check_expiries(draft, approvals, report)


def _written(draft: Draft) -> Iterator[tuple[Written, Path]]:
    for step_id, shape in draft.steps.items():
        if isinstance(shape, AgentShape | ToolStepShape):
            yield shape.approval, ("steps", step_id, "approval")
        for index, entry in enumerate(shape.tools if isinstance(shape, AgentShape) else ()):
            place = draft.tool_places(step_id).get(entry.ref, index)
            yield entry.approval, ("steps", step_id, "tools", place, "approval")


def _approvals(plan: Plan, draft: Draft) -> Iterator[tuple[Path, ApprovalPlan]]:
    """What has to be approved, where it stands: tools of agents, and tool steps that the flow can come to."""
    reached = _visited(plan)
    for step_id, step in plan.steps.items():
        if isinstance(step, ToolStep) and step.approval is not None and step_id in reached:
            yield ("steps", step_id), step.approval
        for entry in step.tools if isinstance(step, ModelStep) else ():
            if entry.approval is not None:
                place = draft.tool_places(step_id).get(entry.ref, 0)
                yield ("steps", step_id, "tools", place), entry.approval


def _asked_about(path: Path, plan: Plan, draft: Draft) -> Iterator[Callee]:
    """The tools whose calls a word at this place of the file is about."""
    step_id = str(path[1])
    step = plan.steps.get(step_id)
    if isinstance(step, ToolStep):
        agents = [one for one in plan.steps.values() if isinstance(one, ModelStep)]
        entries = [entry for one in agents for entry in one.tools if entry.ref == step_id]
        yield from callees(entries, plan, as_given=True)
        if step_id in _visited(plan):
            yield visited(step, plan)
    elif isinstance(step, ModelStep):
        places = draft.tool_places(step_id)
        every = path[2] == "approval"
        entries = [entry for entry in step.tools if every or places.get(entry.ref) == path[3]]
        yield from callees(entries, plan, as_given=True)


def _visited(plan: Plan) -> set[str]:
    """The steps that the flow can come to."""
    return set(plan.flow) | {target for step in plan.steps.values() for target in step.routes.values()}


def _check_condition(when: str, plan: Plan, calls: CallCheck) -> None:
    expressions, report, path = calls.expressions, calls.report, calls.path
    if problem := expressions.check(when):
        report.error("bad_expression", problem, path)
        return
    known = context_keys(plan)
    for members in sorted(expressions.members(when)):
        if members[0] not in VARIABLES:
            message = (
                f"there is no variable `{members[0][:64]}` here{nearest(members[0], VARIABLES)}; there are "
                f"{', '.join(VARIABLES)}, and what steps wrote is in `context`"
            )
            report.error("bad_expression", message, path)
        elif members[0] == "context" and members[1:] and members[1] not in known:
            message = f"nothing writes `{members[1][:64]}` into the context, so this always asks"
            report.warning("approval_always", f"{message}{nearest(members[1], known)}", path)
        elif members[0] == "arguments":
            calls.check_arguments(members[1:])
    calls.check_texts(when, tools=(("tool",),))


def _check_expiries(draft: Draft, approvals: dict[Path, ApprovalPlan], report: Report) -> None:
    message = "no call has to be approved here, so nothing can expire; leave `approval_expiry` out"
    if draft.top.bounds.approval_expiry is not None and not approvals:
        report.warning("approval_expiry_unused", message, ("bounds", "approval_expiry"))
    for step_id, shape in draft.steps.items():
        if not isinstance(shape, AgentShape) or shape.bounds.approval_expiry is None:
            continue
        if not any(path[:2] == ("steps", step_id) for path in approvals):
            place: Path = ("steps", step_id, "bounds", "approval_expiry")
            report.warning("approval_expiry_unused", message, place)
