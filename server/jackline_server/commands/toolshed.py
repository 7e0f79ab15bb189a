"""Tools as a model would see them, each with the step behind it: from a workflow, or from a connection alone.

Owns finding them. A tool of a connection becomes a step of a workflow made for it alone, and is compiled like
any other, so that what is shown and called here is what a run would have.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from jackline_server.bootstrap import Workbench
from jackline_server.commands.compiling import compiled, loaded_workflow, place_of
from jackline_server.commands.pins import drift
from jackline_server.core.frozen import change, frozen
from jackline_server.core.plan import (
    ChildAction,
    FunctionAction,
    GrpcAction,
    HttpAction,
    HumanAction,
    JsonObject,
    JsonValue,
    McpAction,
    ModelStep,
    Plan,
    ResultAction,
    SqlAction,
    ToolEntry,
    ToolStep,
    WorkerAction,
)
from jackline_server.core.reading import result_tool
from jackline_server.definitions.files import Loaded
from jackline_server.definitions.tool_origins import standing_in, tool_origins
from jackline_server.runtime.pinned_tools import (
    BadPins,
    Catalog,
    CatalogConnection,
    PinnedTool,
    ToolHint,
    pins_path,
)
from jackline_server.runtime.ports.definitions import Compilation, Severity, Source
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.tools.catalogs import ServerDown, pinned_by
from jackline_server.tools.locks import read_lock_file

_ANY_MODEL = "none/none"
"""A name as a provider's: it compiles without a profile, and is never called here."""


class NoTools(Exception):
    """The tools can't be had. `lines` say why; `unavailable`: a server does not answer."""

    def __init__(self, *lines: str, unavailable: bool = False) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.unavailable = unavailable


@frozen
class Shown:
    """A tool. `parameters` leaves out the `bound` names, which the engine sets in a run.

    `effect` is that of the step, or `destructive` where a trusted server says so and no step has declared it
    yet. `pin` says what it is pinned to. `step` is None for one that can't be used; `refusal` says why.
    `plan` is the workflow's, and `asked_by` the agent in it whose tool it is, empty for a step by itself.
    """

    name: str
    own_name: str
    description: str
    parameters: JsonObject
    bound: tuple[str, ...]
    given_by_step: tuple[str, ...]
    effect: str
    origin: str
    pin: str
    step: ToolStep | None
    refusal: str = ""
    plan: Plan | None = None
    asked_by: str = ""

    def answers_to(self, name: str) -> bool:
        """True for the step's name and for the server's own."""
        return name in (self.name, self.own_name)


@frozen
class Group:
    """The tools of one connection or workflow, or why they can't be had."""

    title: str
    tools: Sequence[Shown] = ()
    refused: NoTools | None = None


async def group_of_connection(name: str, bench: Workbench) -> Group:
    """See `tools_of_connection`."""
    title = f"connection {name}"
    try:
        return Group(title=title, tools=await tools_of_connection(name, bench))
    except NoTools as refused:
        return Group(title=title, refused=refused)


async def group_of_workflow(
    path: Path, bench: Workbench, *, step_id: str | None, tool: str | None = None
) -> Group:
    """See `tools_of_workflow`."""
    title = f"workflow {path}"
    try:
        loaded = await loaded_workflow(path)
        tools = await tools_of_workflow(loaded, path, bench, step_id=step_id, tool=tool)
        return Group(title=title, tools=tools)
    except OSError as error:
        return Group(title=title, refused=NoTools(f"{path} can't be read: {error.strerror}"))
    except NoTools as refused:
        return Group(title=title, refused=refused)


# --- of a workflow -----------------------------------------------------------------------------


async def tools_of_workflow(
    loaded: Loaded, path: Path, bench: Workbench, *, step_id: str | None, tool: str | None = None
) -> list[Shown]:
    """The tools of all agents of a workflow, or of that step; a tool stands for itself. Raises NoTools.

    With a step or a tool only the connections are asked that it comes from. Of a tool it is that one, also a
    step that the flow alone visits, and whichever others its connections list.
    """
    source = loaded.source
    if source is None:
        raise NoTools(*(f"{path}: {problem.message}" for problem in loaded.problems))
    compilation, asked = await _compiled_for(source, bench, path.parent, step_id=step_id, tool=tool)
    if compilation.plan is None:
        raise NoTools(*_errors(compilation, path, loaded.file))
    plan = compilation.plan
    theirs = {
        name: step
        for name, step in plan.steps.items()
        if isinstance(step, ToolStep)
        and (asked is None or (own := pinned_by(step)) is None or own[0] in asked)
    }
    changed = frozenset(await bench.catalogs.changed(change(plan, steps=theirs)))
    shown: dict[str, Shown] = {}
    for entry in _entries(plan, step_id, tool=tool):
        step = result_tool.behind(plan, entry.ref)
        is_others = entry.ref in plan.steps and entry.ref not in theirs
        if isinstance(step, ToolStep) and not is_others and entry.ref not in shown:
            pin = _pin_of(step, source, bench, changed)
            asker = _asker(plan, entry)
            found = change(_of_plan(step, entry, pin), plan=plan, asked_by=asker)
            # What a step that the flow visits takes by its `input` are its arguments.
            shown[entry.ref] = found if asker else change(found, given_by_step=())
    return list(shown.values())


async def _compiled_for(
    source: Source, bench: Workbench, folder: Path, *, step_id: str | None, tool: str | None
) -> tuple[Compilation, frozenset[str] | None]:
    """The workflow as far as that step or tool needs it, and the connections that are real in it (None: all).

    Where it does not compile without the others, they are asked: what is wrong is then said as ever.
    """
    if step_id is not None or tool is not None:
        origins = await asyncio.to_thread(tool_origins, source, tool=tool, step_id=step_id)
        if origins is not None:
            part = standing_in(source, origins.connections)
            compilation = await compiled(bench, part, folder=folder)
            if compilation.plan is not None:
                return compilation, origins.connections
    return await compiled(bench, source, folder=folder), None


def _asker(plan: Plan, entry: ToolEntry) -> str:
    """The agent whose tool it is; empty if it is none's."""
    agents = (step for step in plan.steps.values() if isinstance(step, ModelStep))
    return next((step.step_id for step in agents if entry in step.tools), "")


def _entries(plan: Plan, step_id: str | None, *, tool: str | None = None) -> Iterator[ToolEntry]:
    if step_id is not None and step_id not in plan.steps:
        raise NoTools(f"the workflow has no step {step_id!r}; it has {', '.join(plan.steps)}")
    agents = [step for step in plan.steps.values() if isinstance(step, ModelStep)]
    theirs = [entry for step in agents if step_id in (None, step.step_id) for entry in step.tools]
    yield from theirs
    alone = step_id or tool
    step = None if alone is None else plan.steps.get(alone)
    if isinstance(step, ToolStep) and step.step_id not in {entry.ref for entry in theirs}:
        yield ToolEntry(
            ref=step.step_id,
            description=step.description,
            parameters_json='{"type":"object"}',
            bind={},
            max_calls=None,
            writes_context=False,
        )


def _of_plan(step: ToolStep, entry: ToolEntry, pin: str) -> Shown:
    return Shown(
        name=entry.ref,
        own_name=own[1] if (own := pinned_by(step)) is not None else entry.ref,
        description=entry.description,
        parameters=_object(entry.parameters_json),
        bound=tuple(entry.bind),
        given_by_step=tuple(step.input or ()),
        effect=step.effect.value,
        origin=_origin(step),
        pin=pin,
        step=step,
    )


def _origin(step: ToolStep) -> str:
    match step.action:
        case HttpAction(connection=connection, method=method, path=path):
            return f"http {connection}: {method} {path}"
        case FunctionAction(function=function):
            return f"function {function}"
        case McpAction(connection=connection, tool=tool) | WorkerAction(connection=connection, tool=tool):
            return f"{step.kind} {connection}: {tool}"
        case GrpcAction(connection=connection, method=method):
            return f"grpc {connection}: {method}"
        case SqlAction(connection=connection):
            return f"sql {connection}"
        case ChildAction(workflow=workflow, agent=agent):
            return f"agent {agent}" if agent else f"workflow {workflow}"
        case HumanAction() | ResultAction():
            return "asks a person" if isinstance(step.action, HumanAction) else "built in"


def _pin_of(step: ToolStep, source: Source, bench: Workbench, changed: frozenset[str]) -> str:
    own = pinned_by(step)
    if own is None:
        return ""
    name = own[0]
    connection = bench.catalogs.connection(name)
    beside = pins_path(name)
    if beside in source.files:
        where = f"in {beside} beside the workflow"
    elif connection is not None and connection.lock is not None:
        where = f"in {connection.lock}"
    else:
        return "pinned when the workflow is put"
    return f"changed since it was pinned {where}" if step.step_id in changed else f"pinned {where}"


def _errors(compilation: Compilation, path: Path, name: str) -> list[str]:
    return [
        f"{place_of(finding, path, name)}: {finding.message} [{finding.code}]"
        for finding in compilation.findings
        if finding.severity is Severity.ERROR
    ]


# --- of a connection ---------------------------------------------------------------------------


async def tools_of_connection(name: str, bench: Workbench) -> list[Shown]:
    """The tools of a connection that its operator allows, as locked if they are. Raises NoTools."""
    link = bench.catalogs.link(name)
    if link is None:
        raise NoTools(f"there is no connection {name!r} with tools of its own")
    connection = link.connection
    listed: Catalog | None = None
    try:
        listed = await link.catalog(max_age_s=0)
    except ServerDown as down:
        if connection.lock is None:
            raise NoTools(f"the tools of {name} can't be listed: {down.message}", unavailable=True) from None
    pinned = read_lock(connection)
    tools = pinned if pinned is not None else listed or {}
    return [
        tool
        async for tool in _compiled_alone(
            connection, [tools[one] for one in tools if connection.allows(one)], listed, bench
        )
    ]


def read_lock(connection: CatalogConnection) -> Catalog | None:
    """What the lock file of the config pins; None without one. Raises NoTools."""
    if connection.lock is None:
        return None
    advice = f"make it with: jackline tools lock {connection.name} --config FILE"
    try:
        return read_lock_file(connection.lock)
    except OSError as error:
        raise NoTools(f"{connection.lock} can't be read: {error.strerror}; {advice}") from None
    except BadPins as bad:
        raise NoTools(f"{connection.lock} pins nothing: {bad}; {advice}") from None


async def _compiled_alone(
    connection: CatalogConnection, tools: Sequence[PinnedTool], listed: Catalog | None, bench: Workbench
) -> AsyncIterator[Shown]:
    for tool in tools:
        effect = _effect(connection, tool)
        kind = "grpc" if isinstance(connection, GrpcConnection) else "mcp"
        compilation = await compiled(bench, _alone(connection.name, tool, kind, effect))
        pin = _lock_state(connection, tool, listed)
        origin = f"{kind} {connection.name}: {tool.name}"
        plan = compilation.plan
        step = plan.steps["tool"] if plan is not None else None
        entry = next(_entries(plan, None), None) if plan is not None else None
        if not isinstance(step, ToolStep) or entry is None:
            errors = [one.message for one in compilation.findings if one.severity is Severity.ERROR]
            yield _unusable(tool, effect, origin, pin, "; ".join(errors))
            continue
        yield Shown(
            name=tool.name,
            own_name=tool.name,
            description=entry.description,
            parameters=_object(entry.parameters_json),
            bound=(),
            given_by_step=(),
            effect=effect,
            origin=origin,
            pin=pin,
            step=step,
            plan=plan,
            asked_by="ask",
        )


def _unusable(tool: PinnedTool, effect: str, origin: str, pin: str, refusal: str) -> Shown:
    return Shown(
        name=tool.name,
        own_name=tool.name,
        description=tool.description,
        parameters=_object(tool.input_schema_json),
        bound=(),
        given_by_step=(),
        effect=effect,
        origin=origin,
        pin=pin,
        step=None,
        refusal=refusal,
    )


def _effect(connection: CatalogConnection, tool: PinnedTool) -> str:
    hint = tool.hint if connection.trusted else ToolHint.NONE
    return {
        ToolHint.READ: "read",
        ToolHint.IDEMPOTENT: "idempotent",
        ToolHint.DESTRUCTIVE: "destructive",
        ToolHint.NONE: "write",
    }[hint]


def _lock_state(connection: CatalogConnection, tool: PinnedTool, listed: Catalog | None) -> str:
    if connection.lock is None:
        return "not pinned"
    if listed is None:
        return f"pinned in {connection.lock}; its server does not answer"
    one = {tool.name: tool}
    found = drift(one, {name: listed[name] for name in one if name in listed})
    return f"changed since it was pinned in {connection.lock}" if found else f"pinned in {connection.lock}"


def _alone(connection: str, tool: PinnedTool, kind: str, effect: str) -> Source:
    """A workflow of one agent with that one tool. JSON is YAML."""
    step: Mapping[str, JsonValue] = {
        "kind": kind,
        "connection": connection,
        "description": " ".join(tool.description.split())[:1_000] or "(no description)",
        "tool" if kind == "mcp" else "method": tool.name,
        "effect": effect,
    }
    workflow: JsonObject = {
        "name": "tools",
        "model": _ANY_MODEL,
        "flow": ["ask"],
        "steps": {"ask": {"kind": "agent", "tools": [{"ref": "tool"}], "answer": "text"}, "tool": dict(step)},
    }
    return Source(yaml=json.dumps(workflow, ensure_ascii=False), files={}, file="tools.yaml")


def _object(text: str) -> JsonObject:
    value: JsonValue = json.loads(text)
    return value if isinstance(value, dict) else {}
