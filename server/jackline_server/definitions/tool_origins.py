"""Where the tools of a workflow come from, as far as its text alone says: nobody is asked.

Owns which connections have to be known for one tool, and the pins that stand in for those that need not be:
with them a workflow compiles without its other servers, for whoever looks at that tool alone.
"""

import json
from collections.abc import Collection, Iterator, Mapping

from jackline_server.core.frozen import change, frozen
from jackline_server.definitions.files import steps_of
from jackline_server.definitions.pinned_source import pinned_connections, step_name
from jackline_server.definitions.shapes import (
    AgentShape,
    AnyStep,
    GrpcShape,
    McpShape,
    ToolShape,
    ToolStepShape,
    WorkerShape,
)
from jackline_server.runtime.pinned_tools import PinnedTool, pins_path, pins_text
from jackline_server.runtime.ports.definitions import Source

_Served = McpShape | GrpcShape | WorkerShape


@frozen
class ToolOrigins:
    """What a text says of the tools that are looked for.

    `names` are those that it names, by their steps and by their servers; it `is_named` if one of them is the
    tool itself. `connections` are those whose tools have to be known. `is_possible` if the tool may be one
    that only they know of.
    """

    names: frozenset[str]
    is_named: bool
    is_possible: bool
    connections: frozenset[str]


def tool_origins(source: Source, *, tool: str | None, step_id: str | None) -> ToolOrigins | None:
    """Where that tool may come from, or each of a step's; None if the text can't be read that far.

    `tool` is a step's name or its server's own; `step_id` is an agent, or the tool's own step. A step that no
    agent has as a tool goes by its own name alone.
    """
    steps = steps_of(source)
    if not steps:
        return None
    entries = list(_entries(steps, step_id))
    refs = [entry.ref for entry in entries if entry.ref in steps]
    visited = (
        [] if tool is None or step_id is not None else [one for one in _callable(steps) if one not in refs]
    )
    listed = [(entry.from_, name) for entry in entries if entry.from_ for name in entry.allow or ()]
    open_ = frozenset(entry.from_ for entry in entries if entry.from_ and entry.allow is None)
    own = {name for ref in refs if (name := _own_name(steps[ref]))}
    names = frozenset({*refs, *visited, *own, *(name for _, name in listed)})
    if tool is None:
        needed = {*_connections(steps, refs), *(name for name, _ in listed), *open_}
        return ToolOrigins(names=names, is_named=False, is_possible=True, connections=frozenset(needed))
    chosen = [ref for ref in (*refs, *visited) if ref == tool] or [
        ref for ref in refs if _own_name(steps[ref]) == tool
    ]
    needed = {*_connections(steps, chosen)}
    if tool not in chosen:
        needed |= {name for name, listed_tool in listed if tool in (listed_tool, step_name(listed_tool))}
    is_named = bool(chosen or needed)
    return ToolOrigins(
        names=names,
        is_named=is_named,
        is_possible=is_named or bool(open_),
        connections=frozenset(needed if is_named else open_),
    )


def standing_in(source: Source, connections: Collection[str]) -> Source:
    """The source with pins for every connection but these that it uses and that is not pinned beside it.

    What they pin is made up: each tool that the text names takes anything. For nothing that is stored or run.
    """
    steps = steps_of(source)
    others = [
        name
        for name in pinned_connections(steps)
        if name not in connections and pins_path(name) not in source.files
    ]
    if not others:
        return source
    made = {pins_path(name): pins_text(_made_up(steps, name)).encode() for name in others}
    return change(source, files={**source.files, **made})


def _entries(steps: Mapping[str, AnyStep], step_id: str | None) -> Iterator[ToolShape]:
    """The tools of the agents, or of that step; a tool stands for itself."""
    for name, step in steps.items():
        if step_id is not None and name != step_id:
            continue
        if isinstance(step, AgentShape):
            yield from step.tools
        elif step_id is not None:
            yield ToolShape(ref=name)


def _callable(steps: Mapping[str, AnyStep]) -> Iterator[str]:
    """The steps that are one call each."""
    yield from (name for name, step in steps.items() if isinstance(step, ToolStepShape))


def _connections(steps: Mapping[str, AnyStep], refs: Collection[str]) -> Iterator[str]:
    for ref in refs:
        step = steps[ref]
        if isinstance(step, _Served):
            yield step.connection


def _own_name(step: AnyStep) -> str:
    match step:
        case McpShape(tool=tool) | WorkerShape(tool=tool):
            return tool
        case GrpcShape(method=method):
            return method
        case _:
            return ""


def _made_up(steps: Mapping[str, AnyStep], connection: str) -> dict[str, PinnedTool]:
    """A tool for each that the workflow names of a connection, with every parameter that it sets of any."""
    agents = [step for step in steps.values() if isinstance(step, AgentShape)]
    served = [step for step in steps.values() if isinstance(step, _Served) and step.connection == connection]
    entries = [entry for agent in agents for entry in agent.tools]
    names = {_own_name(step) for step in served}
    names |= {name for entry in entries if entry.from_ == connection for name in entry.allow or ()}
    parameters = {name for entry in entries for name in entry.bind}
    parameters |= {name for step in served for name in step.arguments}
    schema = json.dumps({"type": "object", "properties": {name: {} for name in sorted(parameters)}})
    return {
        name: PinnedTool(
            name=name,
            description="It stands for one that is not asked for.",
            input_schema_json=schema,
            output_schema_json=None,
            annotations_json="{}",
        )
        for name in names
    }
