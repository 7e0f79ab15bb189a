"""Steps that are made of tools which workers serve.

Owns the parameters of such a step, and what its effect is. A step with `parameters` describes its tool itself
and can be put while nobody serves it; any other is pinned to what a worker says of it.
"""

import json
from dataclasses import dataclass, field

from jackline_server.core.plan import Effect, WorkerAction
from jackline_server.definitions import defaults
from jackline_server.definitions.catalog import FunctionDescription, nearest
from jackline_server.definitions.parameters import Parameters, json_text
from jackline_server.definitions.pinned_source import PinnedSource, open_schema, properties_of
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import Document, WorkerShape
from jackline_server.definitions.yaml_nodes import Path
from jackline_server.runtime.pinned_tools import PinnedTool, ToolHint

_HINTED = {
    ToolHint.READ: Effect.READ,
    ToolHint.IDEMPOTENT: Effect.IDEMPOTENT,
    ToolHint.DESTRUCTIVE: Effect.DESTRUCTIVE,
    ToolHint.NONE: Effect.WRITE,
}


@dataclass(slots=True, kw_only=True)
class WorkerSteps:
    """The worker steps of one compilation."""

    source: PinnedSource
    parameters: Parameters
    report: Report
    _tools: dict[str, PinnedTool] = field(default_factory=dict[str, PinnedTool])

    def describe(self, step_id: str, shape: WorkerShape) -> FunctionDescription | None:
        """What the tool of a step takes, without what is fixed; None if it can't be called."""
        path: Path = ("steps", step_id)
        if shape.parameters is not None:
            self._check_named(shape, path)
            schema, said = shape.parameters, ""
        else:
            tool = self.source.tool(shape.connection, shape.tool, (*path, "tool"))
            if tool is None:
                return None
            schema, said = json.loads(tool.input_schema_json), tool.description
            if not self.parameters.check_schema(schema, (*path, "tool")):
                return None  # the report says why
            self._tools[step_id] = tool
        known = properties_of(schema)
        for name in shape.arguments:
            if name not in known:
                message = f"`{shape.tool}` has no parameter `{name[:64]}`{nearest(name, known)}"
                self.report.warning("argument_unknown", message, (*path, "arguments", name), of_key=True)
        return FunctionDescription(
            parameters_json=json_text(open_schema(schema, shape, path, self.report)), docstring=said
        )

    def effect(self, step_id: str, shape: WorkerShape) -> Effect:
        """What a step may change: its own word, else a trusted worker's, else a write."""
        if shape.effect is not None:
            return Effect(shape.effect)
        connection, tool = self.source.connection(shape.connection), self._tools.get(step_id)
        if connection is not None and tool is not None and connection.trusted:
            return _HINTED.get(tool.hint, defaults.EFFECT)
        if connection is not None and (tool is not None or shape.parameters is not None):
            why = "is served by workers that are not trusted" if tool is not None else "declares no effect"
            message = f"`{step_id}` {why} and counts as `write`: it is never run twice"
            self.report.warning("effect_undeclared", message, ("steps", step_id))
        return defaults.EFFECT

    def action(self, step_id: str, shape: WorkerShape) -> WorkerAction:
        """The action of the plan."""
        tool = self._tools.get(step_id)
        schema: Document = json.loads(tool.input_schema_json) if tool is not None else shape.parameters or {}
        return WorkerAction(
            connection=shape.connection,
            tool=shape.tool,
            arguments_json=json_text(shape.arguments),
            tool_digest=tool.digest if tool is not None else "",
            takes=tuple(sorted(properties_of(schema))),
            wait_ms=shape.wait,
        )

    def _check_named(self, shape: WorkerShape, path: Path) -> None:
        """A step that describes its tool itself still names a pool, and a tool that may be served."""
        connection = self.source.connection(shape.connection)
        if connection is None:
            self.source.tools(shape.connection, (*path, "connection"))  # reports that it is unknown
        elif not connection.allows(shape.tool):
            message = f"the operator lets no worker of `{shape.connection}` serve `{shape.tool}`"
            self.report.error("tool_unknown", message, (*path, "tool"))
