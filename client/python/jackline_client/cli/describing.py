"""What a workflow can do and spend, in lines.

Owns the words of `jackline workflow describe`. A name or text of the server is never printed as it came.
"""

from collections.abc import Iterator

from jackline.v1.plan_pb2 import ApprovalPlan, ChildShare, Plan, StepPlan
from jackline.v1.run_pb2 import Effect
from jackline.v1.workflow_service_pb2 import DescribeWorkflowResponse, ToolDescription, WorstCase
from jackline_client.cli.approval_lines import MEANS
from jackline_client.cli.listings import DIGEST
from jackline_client.cli.printable import printable
from jackline_client.cli.wording import LONG, Line, count, enum_word, short


def described(found: DescribeWorkflowResponse) -> Iterator[Line]:
    """Yields the lines of one revision."""
    revision, plan = found.revision, found.plan
    yield Line(text=f"workflow {short(revision.name)}@{revision.digest[:DIGEST]}", style="head")
    if plan.preset:
        yield Line(text=f"  preset: {short(plan.preset)}")
    yield Line(text=f"  flow: {' → '.join(short(step) for step in plan.flow)}")
    yield Line(text=f"  {_most(found)}")
    for step in plan.steps:
        kind = ", ".join((short(step.kind), *_effect(step)))
        yield Line(text=f"step {short(step.step_id)} ({kind})", style="head")
        if step.description:
            yield Line(text=f"  {step.description}")
        yield from _child(step)
        if step.tool_step.HasField("approval"):
            yield _approval(step.tool_step.approval, indent="  ")
        routes = (f"{short(signal)} → {short(step.routes[signal])}" for signal in sorted(step.routes))
        if step.routes:
            yield Line(text=f"  routes: {', '.join(routes)}")
        for tool in found.tools:
            if tool.step_id == step.step_id:
                yield from _tool(tool, step, plan)


def starts_runs(step: StepPlan) -> bool:
    """True for a step that is, or can be, a run of its own."""
    return step.tool_step.HasField("child") or step.model_step.HasField("as_tool")


def _tool(tool: ToolDescription, caller: StepPlan, plan: Plan) -> Iterator[Line]:
    """A tool of a step that asks a model: what a call of it does, and whether it needs somebody's leave."""
    does = [word for step in plan.steps if step.step_id == tool.name for word in _effect(step)]
    effect = f" ({does[0]})" if does else ""
    yield Line(text=f"  tool {short(tool.name)}{effect}: {tool.description}")
    for entry in caller.model_step.tools:
        if entry.ref == tool.name and entry.HasField("approval"):
            yield _approval(entry.approval, indent="    ")


def _effect(step: StepPlan) -> Iterator[str]:
    """What a step that is a tool does to the world; nothing of one that only asks somebody."""
    if step.tool_step.effect and not step.tool_step.HasField("human"):
        yield enum_word(Effect.Name, step.tool_step.effect, "EFFECT_")


def _approval(approval: ApprovalPlan, *, indent: str) -> Line:
    """Which calls wait for somebody's leave, how long, and what follows then."""
    which = f"a call waits to be approved where {printable(approval.when, limit=LONG)}"
    then = MEANS.get(approval.on_expiry, "")
    waits = f"{approval.expiry_ms / 1000:,.0f} s at most"
    words = which if approval.when else "each call waits to be approved"
    return Line(text=f"{indent}{words}: {waits}{', ' if then else ''}{then}")


def _child(step: StepPlan) -> Iterator[Line]:
    """Which workflow a step runs, and what its run is given."""
    if step.tool_step.HasField("child"):
        child = step.tool_step.child
        yield Line(text=f"  runs the workflow {short(child.workflow)}, given {_share(child.share)}")
    elif step.model_step.HasField("as_tool"):
        yield Line(text=f"  as a tool a run of its own, given {_share(step.model_step.as_tool.share)}")


def _share(share: ChildShare) -> str:
    given = [
        count(share.token_budget, "token") if share.HasField("token_budget") else "",
        _usd(share.cost_budget_micros) if share.HasField("cost_budget_micros") else "",
        f"{share.run_timeout_ms / 1000:,.0f} s" if share.HasField("run_timeout_ms") else "",
    ]
    return ", ".join(filter(None, given)) or "an equal part of what is left"


def _most(found: DescribeWorkflowResponse) -> str:
    most, starts = found.worst_case, any(starts_runs(step) for step in found.plan.steps)
    if not starts:
        return f"one run spends at most {', '.join(_words(most, unpriced='an unknown price'))}"
    if not most.HasField("tokens") and not most.HasField("cost_micros"):
        return "nothing but time bounds what a run spends with all those that it starts"
    return f"one run spends at most {', '.join(_words(most))}, with all the runs that it starts"


def _words(most: WorstCase, *, unpriced: str = "") -> Iterator[str]:
    if most.HasField("model_requests"):
        yield count(most.model_requests, "model call")
    if most.HasField("tool_calls"):
        yield count(most.tool_calls, "tool call")
    if most.HasField("tokens"):
        yield count(most.tokens, "token")
    if most.HasField("cost_micros"):
        yield _usd(most.cost_micros)
    elif unpriced:
        yield unpriced
    if most.HasField("active_ms"):
        yield f"{most.active_ms / 1000:,.0f} s of active time"


def _usd(micros: int) -> str:
    return f"${micros / 1_000_000:.4f}"
