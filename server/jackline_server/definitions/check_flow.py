"""Checks of how the steps lead to each other: routes, reachability, cycles, cleanup, and what they read.

Owns the findings about the graph and the shared context. Does not own a single step's content (`resolving`)
or its caps (`check_bounds`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from jackline_server.core.exits import ABORTED, ANY, DEFAULT, ERROR, GUARDRAIL_VIOLATION, STOPPED
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import GatesPlan
from jackline_server.core.plan import (
    END,
    RESERVED_EXITS,
    AnswerForm,
    ChildAction,
    ChoiceMode,
    HumanAction,
    ModelStep,
    Plan,
    RouterStep,
    StepPlan,
    ToolStep,
)
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.parameters import placeholders
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    GrpcShape,
    HttpShape,
    HumanShape,
    McpShape,
    SqlShape,
    WorkerShape,
)
from jackline_server.definitions.yaml_nodes import Path

_ENGINE_KEYS = ("_last_error", "_last_error_type")


@frozen
class Graph:
    """Where each step can lead, and what a run can visit. `tools` are called by visited model steps."""

    edges: Mapping[str, tuple[str, ...]]
    visited: frozenset[str]
    tools: frozenset[str]

    @property
    def cyclic(self) -> bool:
        """True if a visited step can be visited again: taking steps that nothing leads to leaves some."""
        leading = Counter(target for step in self.visited for target in self.edges[step])
        free = [step for step in self.visited if not leading[step]]
        for step in free:
            for target in self.edges[step]:
                leading[target] -= 1
                if not leading[target]:
                    free.append(target)
        return len(free) < len(self.visited)


def graph(plan: Plan) -> Graph:
    """The graph of a plan; routes to steps that don't exist are left out."""
    edges = {step_id: tuple(_targets(step, plan.steps)) for step_id, step in plan.steps.items()}
    visited = reachable(edges, tuple(step for step in plan.flow[:1] if step in edges))
    return Graph(edges=edges, visited=visited, tools=_called(plan, visited))


def _called(plan: Plan, visited: frozenset[str]) -> frozenset[str]:
    """The tools of visited agents, and those of agents that are tools themselves."""
    tools, ahead = set[str](), list(visited)
    while ahead:
        step = plan.steps.get(ahead.pop())
        for entry in step.tools if isinstance(step, ModelStep) else ():
            if entry.ref not in tools:
                tools.add(entry.ref)
                ahead.append(entry.ref)
    return frozenset(tools)


def reachable(edges: Mapping[str, tuple[str, ...]], start: tuple[str, ...]) -> frozenset[str]:
    """Every step that can follow, the first ones included."""
    seen: set[str] = set()
    pending = list(start)
    while pending:
        step = pending.pop()
        if step not in seen:
            seen.add(step)
            pending.extend(edges[step])
    return frozenset(seen)


def check(plan: Plan, draft: Draft, report: Report) -> None:
    """Report everything about the graph of a plan."""
    _check_flow(plan, report)
    found = graph(plan)
    for step in plan.steps.values():
        _check_routes(step, plan, found, report)
        _check_signals(step, report)
    for step_id in sorted(set(plan.steps) - found.visited - found.tools):
        message = f"no route leads to `{step_id}` and no step has it as a tool"
        report.warning("step_unreachable", message, ("steps", step_id), of_key=True)
    for step_id in sorted(_idle_cycles(plan, found)):
        message = f"from `{step_id}` only routers lead back to it: once round, nothing ever leads out"
        report.warning("cycle_idle", message, ("steps", step_id), of_key=True)
    if found.cyclic:
        report.info("cycle", f"steps can repeat; the bound of {plan.bounds.steps} visited steps ends it")
    _check_outputs(plan, draft, report)
    _check_reads(plan, draft, report, found)


def _idle_cycles(plan: Plan, found: Graph) -> Iterator[str]:
    """Routers that can lead to themselves by routers alone, which change nothing that a condition reads."""
    routers = {name for name in found.visited if isinstance(plan.steps[name], RouterStep)}
    edges = {name: tuple(target for target in found.edges[name] if target in routers) for name in routers}
    yield from (name for name in routers if name in reachable(edges, edges[name]))


def _targets(step: StepPlan, steps: Mapping[str, StepPlan]) -> Iterator[str]:
    yield from (target for target in step.routes.values() if target in steps)
    default_routed = DEFAULT in step.routes
    if step.next_step in steps and not default_routed:
        yield step.next_step


def _check_flow(plan: Plan, report: Report) -> None:
    for index, step_id in enumerate(plan.flow):
        if step_id not in plan.steps:
            message = f"there is no step `{step_id}`{nearest(step_id, plan.steps)}"
            report.error("unknown_step", message, ("flow", index))
        if step_id in plan.flow[:index]:
            report.error(
                "flow_repeats", f"`{step_id}` stands twice in the flow; use a route", ("flow", index)
            )


def _check_routes(step: StepPlan, plan: Plan, found: Graph, report: Report) -> None:
    path: Path = ("steps", step.step_id, "routes")
    known = {*_own_signals(step), *RESERVED_EXITS, DEFAULT, ANY}
    for signal, target in step.routes.items():
        if signal not in known:
            message = f"`{step.step_id}` never gives the signal `{signal[:64]}`{nearest(signal, known)}"
            report.error("unknown_signal", message, (*path, signal), of_key=True)
        if target != END and target not in plan.steps:
            message = f"there is no step `{target[:64]}`{nearest(target, (*plan.steps, END))}"
            report.error("unknown_target", message, (*path, signal))
    cleanup = step.routes.get(ABORTED, END)
    if cleanup in plan.steps:
        if _asks_model(plan.steps[cleanup]):
            message = f"`{cleanup}` asks a model; a cleanup after an abort runs none"
            report.error("cleanup_asks_model", message, (*path, ABORTED))
        elif any(_asks_model(plan.steps[name]) for name in reachable(found.edges, (cleanup,))):
            message = f"`{cleanup}` can lead to a step that asks a model; the cleanup ends there"
            report.warning("cleanup_leads_to_model", message, (*path, ABORTED))


def _asks_model(step: StepPlan) -> bool:
    """True for a step that asks a model, or starts a run that may."""
    return isinstance(step, ModelStep) or (
        isinstance(step, ToolStep) and isinstance(step.action, ChildAction)
    )


def _own_signals(step: StepPlan) -> tuple[str, ...]:
    match step:
        case ModelStep():
            return step.outcome.enum
        case RouterStep():
            return tuple(case.signal for case in step.cases)
        case ToolStep(action=HumanAction(options=options)):
            return tuple(option.value for option in options)
        case ToolStep():
            return ()


def _check_signals(step: StepPlan, report: Report) -> None:
    """An outcome or a condition has to lead somewhere; at the end of a flow, ending is somewhere."""
    if ANY in step.routes:
        return
    path: Path = ("steps", step.step_id)
    own = [signal for signal in dict.fromkeys(_own_signals(step)) if signal != DEFAULT]
    unrouted = [signal for signal in own if signal not in step.routes]
    for signal in unrouted:
        message = f"the signal `{signal[:64]}` of `{step.step_id}` has no route"
        place: Path = (*path, *_SIGNALS_AT[step.kind])
        if step.next_step or isinstance(step, RouterStep):
            report.error("outcome_unrouted", message, place)
        elif len(unrouted) < len(own):
            report.warning("outcome_unrouted", f"{message}: it ends the run", place)
    if _leads_on(step) and ERROR not in step.routes:
        missing = [name for name in _exits(step) if name not in step.routes]
        if missing:
            message = (
                f'these exits of `{step.step_id}` end the run: {", ".join(missing)}; route `error` or `"*"`'
            )
            report.warning("exit_unrouted", message, path, of_key=True)
    if isinstance(step, ModelStep) and step.stop_when and step.next_step and STOPPED not in step.routes:
        message = f'`{step.step_id}` ends the run when it stops; route `stopped` or `"*"`'
        report.warning("exit_unrouted", message, path, of_key=True)


_SIGNALS_AT: Mapping[str, tuple[str, ...]] = {
    "agent": ("outcome", "enum"),
    "completion": ("outcome", "enum"),
    "router": ("conditions",),
    "human": ("options",),
}
"""Where in a step of the file its own signals stand."""


def _leads_on(step: StepPlan) -> bool:
    """True if somebody thought of what follows the step: then an exit without a route is likely forgotten."""
    match step:
        case ModelStep():
            return bool(step.next_step or step.routes)
        case ToolStep():
            return bool(step.next_step) or any(target != END for target in step.routes.values())
        case RouterStep():
            return False


def _exits(step: StepPlan) -> Iterator[str]:
    """The failures and limits that the step can end with."""
    match step:
        case ModelStep():
            yield from _model_exits(step)
        case ToolStep(action=HumanAction(options=options)) if options:
            return  # whoever is asked chooses one of them
        case ToolStep():
            yield ERROR
        case RouterStep():
            return


def _model_exits(step: ModelStep) -> Iterator[str]:
    if step.kind == "agent":
        yield "max_iterations"
    yield "budget_exceeded"
    yield "time_exceeded"
    if step.repeat is not None and step.tools:
        yield "tool_loop"
    if step.ground is not None:
        yield "grounding_failed"
    free = step.outcome.form is not AnswerForm.FINISH_TOOL and step.tool_choice.mode is ChoiceMode.AUTO
    if step.outcome.enum or step.outcome.schema_json is not None or not free:
        yield "invalid_output"
    if _may_be_held_back(step.gates):
        yield GUARDRAIL_VIOLATION
    yield ERROR


def _may_be_held_back(gates: GatesPlan | None) -> bool:
    """True if a guardrail or the policy can end the step."""
    if gates is None:
        return False
    denies = gates.policy is not None and gates.policy.ends
    return bool(gates.input or gates.output) or denies or any(rail.ends for rail in gates.tools)


def _check_outputs(plan: Plan, draft: Draft, report: Report) -> None:
    owners: dict[str, str] = {"input": "the run's input"}
    for step_id in draft.steps:
        step = plan.steps[step_id]
        if isinstance(step, RouterStep):
            continue
        model = isinstance(step, ModelStep)
        key = step.outcome.output_key if isinstance(step, ModelStep) else step.output_key
        path: Path = (
            ("steps", step_id, "outcome", "output_key") if model else ("steps", step_id, "output_key")
        )
        if key.startswith("_"):
            report.error("output_key_private", "keys that begin with `_` are the engine's own", path)
        elif not key.isidentifier() or not key.isascii() or len(key) > 128:  # noqa: PLR2004  # generous
            report.error("bad_name", "an output key is a letter, then letters, digits and `_`", path)
        elif key in owners:
            report.error("output_key_clash", f"the key `{key}` already holds {owners[key]}", path)
        owners.setdefault(key, f"the output of `{step_id}`")


def _check_reads(plan: Plan, draft: Draft, report: Report, found: Graph) -> None:
    """Pointers and templates may only name what can be in the context."""
    known = {"input", *_outputs(plan), *_ENGINE_KEYS}
    for step_id, step in plan.steps.items():
        if not isinstance(step, RouterStep):
            for name, pointer in (step.input or {}).items():
                _check_pointer(pointer, known, ("steps", step_id, "input", name), report)
        if isinstance(step, ModelStep):
            places = draft.tool_places(step_id)
            for entry in step.tools:
                path: Path = ("steps", step_id, "tools", places[entry.ref], "bind")
                for name, pointer in entry.bind.items():
                    _check_pointer(pointer, known, (*path, name), report)
        shape = draft.steps[step_id]
        if isinstance(shape, HttpShape | McpShape | SqlShape | GrpcShape | WorkerShape | HumanShape):
            _check_visit(shape, known, ("steps", step_id), report, visited=step_id in found.visited)


def _check_pointer(pointer: str, known: set[str], path: Path, report: Report) -> None:
    key = pointer.split("/", 2)[1].replace("~1", "/").replace("~0", "~")
    if key not in known:
        hint = "" if report.is_full else nearest(key, known)
        message = f"nothing writes `{key[:64]}` into the context{hint}"
        report.warning("pointer_unknown", message, path)


def _check_visit(
    shape: HttpShape | McpShape | SqlShape | GrpcShape | WorkerShape | HumanShape,
    known: set[str],
    path: Path,
    report: Report,
    *,
    visited: bool,
) -> None:
    """A step that the flow visits has only its input: no model chooses arguments for it."""
    names = placeholders(shape, path, report)
    if not visited:
        return
    given = set(shape.input) if shape.input is not None else known - set(_ENGINE_KEYS)
    for name in names:
        if name not in given:
            message = f"`{{{{ {name} }}}}` has no value when the flow visits this step; add it to `input`"
            report.error("template_unknown", message, path)


def _outputs(plan: Plan) -> Iterator[str]:
    for step in plan.steps.values():
        if isinstance(step, ModelStep):
            yield step.outcome.output_key
        elif isinstance(step, ToolStep):
            yield step.output_key
