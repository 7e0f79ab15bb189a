"""Steps that are made of MCP tools: those a workflow writes, and those that `from` stands for.

Owns the expansion of `{from: connection, allow: […]}`, the parameters of such a step, and what its effect is.
"""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from jackline_server.core.plan import Effect, McpAction
from jackline_server.definitions import defaults
from jackline_server.definitions.catalog import FunctionDescription, nearest
from jackline_server.definitions.parameters import Parameters, json_text
from jackline_server.definitions.pinned_source import PinnedSource, open_schema, properties_of, step_name
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    MAX_TOOLS,
    AgentShape,
    AnyStep,
    Document,
    McpShape,
    ToolShape,
)
from jackline_server.definitions.yaml_nodes import Path
from jackline_server.runtime.pinned_tools import PinnedTool, ToolHint

_HINTED = {
    ToolHint.READ: Effect.READ,
    ToolHint.IDEMPOTENT: Effect.IDEMPOTENT,
    ToolHint.DESTRUCTIVE: Effect.DESTRUCTIVE,
}


@dataclass(slots=True, kw_only=True)
class McpSteps:
    """The MCP steps of one compilation."""

    mcp: PinnedSource
    parameters: Parameters
    report: Report
    _places: dict[str, Path] = field(default_factory=dict[str, Path])
    _tools: dict[str, PinnedTool] = field(default_factory=dict[str, PinnedTool])

    # --- expansion -------------------------------------------------------------------------------

    def expanded(self, draft: Draft) -> Draft:
        """The draft with a step for each tool that a `from` allows, and an entry that names it."""
        if not any(isinstance(step, AgentShape) and _has_from(step) for step in draft.steps.values()):
            return draft
        steps: dict[str, AnyStep] = dict(draft.steps)
        places: dict[str, tuple[int, ...]] = {}
        for step_id, step in draft.steps.items():
            if not isinstance(step, AgentShape) or not _has_from(step):
                continue
            entries = list(self._entries(step_id, step, steps))
            if len(entries) > MAX_TOOLS:
                message = f"`{step_id}` gets {len(entries)} tools; at most {MAX_TOOLS} make sense to a model"
                self.report.error("too_many_tools", message, ("steps", step_id, "tools"))
            places[step_id] = tuple(index for index, _ in entries)
            steps[step_id] = step.model_copy(update={"tools": tuple(entry for _, entry in entries)})
        return dataclasses.replace(draft, steps=steps, places=places)

    def _entries(
        self, step_id: str, step: AgentShape, steps: dict[str, AnyStep]
    ) -> Iterator[tuple[int, ToolShape]]:
        for index, entry in enumerate(step.tools):
            if entry.from_ is None:
                yield index, entry
                continue
            path: Path = ("steps", step_id, "tools", index)
            for tool in self._allowed(entry, entry.from_, path):
                ref = self._step_for(entry.from_, tool, path, steps)
                if ref is not None:
                    properties = _properties(tool)
                    bind = {name: pointer for name, pointer in entry.bind.items() if name in properties}
                    yield index, entry.model_copy(update={"ref": ref, "from_": None, "bind": bind})

    def _allowed(self, entry: ToolShape, connection: str, path: Path) -> list[PinnedTool]:
        tools = self.mcp.tools(connection, (*path, "from"))
        if tools is None:
            return []
        found: list[PinnedTool] = []
        for index, name in enumerate(entry.allow if entry.allow is not None else sorted(tools)):
            place: Path = (*path, "allow", index) if entry.allow is not None else (*path, "from")
            tool = self.mcp.tool(connection, name, place)
            if tool is not None:
                found.append(tool)
        for name in entry.bind:
            if found and not any(name in _properties(tool) for tool in found):
                known = {one for tool in found for one in _properties(tool)}
                message = f"none of these tools has a parameter `{name}`{nearest(name, known)}"
                self.report.error("bind_unknown", message, (*path, "bind", name), of_key=True)
        return found

    def _step_for(
        self, connection: str, tool: PinnedTool, path: Path, steps: dict[str, AnyStep]
    ) -> str | None:
        """The step of a tool, made now if it is not there yet; None if its name is taken by another."""
        name = step_name(tool.name)
        if name is None:
            message = f"the tool `{tool.name[:64]}` can't name a step; write a step of kind mcp for it"
            self.report.error("bad_name", message, path)
            return None
        there = steps.get(name)
        made = McpShape(kind="mcp", connection=connection, tool=tool.name)
        if there is not None and (there != made or name not in self._places):
            message = f"the tool `{tool.name}` of `{connection}` would become the step `{name}`"
            hint = "there is one already; write a step of kind mcp for it"
            self.report.error("tool_clash", f"{message}; {hint}", path)
            return None
        steps[name] = made
        self._places.setdefault(name, path)
        return name

    # --- one step --------------------------------------------------------------------------------

    def place(self, step_id: str) -> Path:
        """Where a step stands in the file: a step that was expanded stands where its `from` does."""
        return self._places.get(step_id, ("steps", step_id))

    def describe(self, step_id: str, shape: McpShape) -> FunctionDescription | None:
        """What the tool of a step takes and does, without what is fixed; None if it can't be used."""
        path = self.place(step_id)
        tool = self.mcp.tool(shape.connection, shape.tool, (*path, "tool"))
        if tool is None:
            return None
        if tool.needs_task:
            message = f"`{tool.name[:64]}` can be called as a task alone; leave it out with `allow`"
            self.report.error("tool_needs_task", message, path)
            return None
        self._tools[step_id] = tool
        schema: Document = json.loads(tool.input_schema_json)
        if schema.get("type") != "object" or not self.parameters.check_schema(schema, path):
            message = f"the tool `{tool.name}` takes what can't be checked: its schema is refused"
            self.report.error("bad_schema", message, path)
            return None
        for name in shape.arguments:
            if name not in _properties(tool):
                message = f"`{tool.name}` has no parameter `{name[:64]}`{nearest(name, _properties(tool))}"
                self.report.warning("argument_unknown", message, (*path, "arguments", name), of_key=True)
        return FunctionDescription(
            parameters_json=json_text(open_schema(schema, shape, path, self.report)),
            docstring=tool.description,
        )

    def effect(self, step_id: str, shape: McpShape) -> Effect:
        """What a step may change: its own word, else a trusted server's, else a write."""
        if shape.effect is not None:
            return Effect(shape.effect)
        connection, tool = self.mcp.connection(shape.connection), self._tools.get(step_id)
        if connection is None or tool is None:
            return defaults.EFFECT
        hint = tool.hint if connection.trusted else ToolHint.NONE
        path = self.place(step_id)
        if hint not in _HINTED:
            why = "says nothing of its effect" if connection.trusted else "is of a server that is not trusted"
            message = f"`{tool.name}` {why} and counts as `write`: it is never run twice"
            self.report.warning("effect_undeclared", message, path)
        return _HINTED.get(hint, defaults.EFFECT)

    def action(self, step_id: str, shape: McpShape) -> McpAction:
        """The action of the plan."""
        tool = self._tools.get(step_id)
        return McpAction(
            connection=shape.connection,
            tool=shape.tool,
            arguments_json=json_text(shape.arguments),
            tool_digest=tool.digest if tool is not None else "",
        )


def _has_from(step: AgentShape) -> bool:
    return any(entry.from_ is not None for entry in step.tools)


def _properties(tool: PinnedTool) -> dict[str, Any]:
    return properties_of(json.loads(tool.input_schema_json))
