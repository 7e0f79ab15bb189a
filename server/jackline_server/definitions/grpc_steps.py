"""Steps that are made of methods of gRPC services.

Owns the parameters of such a step, what its effect is, and that it is a method which can be a tool.
"""

import json
from dataclasses import dataclass, field

from jackline_server.core.plan import Effect, GrpcAction
from jackline_server.definitions import defaults
from jackline_server.definitions.catalog import FunctionDescription, nearest
from jackline_server.definitions.parameters import Parameters, json_text
from jackline_server.definitions.pinned_source import PinnedSource, open_schema, properties_of
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import Document, GrpcShape
from jackline_server.definitions.yaml_nodes import Path
from jackline_server.runtime.pinned_tools import PinnedTool, ToolHint

_HINTED = {ToolHint.READ: Effect.READ, ToolHint.IDEMPOTENT: Effect.IDEMPOTENT}


@dataclass(slots=True, kw_only=True)
class GrpcSteps:
    """The gRPC steps of one compilation."""

    source: PinnedSource
    parameters: Parameters
    report: Report
    _methods: dict[str, PinnedTool] = field(default_factory=dict[str, PinnedTool])

    def describe(self, step_id: str, shape: GrpcShape) -> FunctionDescription | None:
        """What the request of a step takes, without what is fixed; None if it can't be called."""
        path: Path = ("steps", step_id)
        method = self.source.tool(shape.connection, shape.method, (*path, "method"))
        if method is None:
            return None
        said: Document = json.loads(method.annotations_json)
        if said.get("streaming"):
            message = f"`{shape.method}` streams; a step calls methods with one request and one reply"
            self.report.error("grpc_streaming", message, (*path, "method"))
            return None
        schema: Document = json.loads(method.input_schema_json)
        refused = said.get("refused")
        if refused is None and not self.parameters.check_schema(schema, (*path, "method")):
            return None  # the report says why
        if refused is not None:
            message = f"`{shape.method}` can't be called: {refused}"
            self.report.error("grpc_request", message, (*path, "method"))
            return None
        self._methods[step_id] = method
        for name in shape.arguments:
            if name not in properties_of(schema):
                known = properties_of(schema)
                message = f"`{shape.method}` takes no `{name[:64]}`{nearest(name, known)}"
                self.report.warning("argument_unknown", message, (*path, "arguments", name), of_key=True)
        return FunctionDescription(
            parameters_json=json_text(open_schema(schema, shape, path, self.report)),
            docstring=method.description,
        )

    def effect(self, step_id: str, shape: GrpcShape) -> Effect:
        """What a step may change: its own word, else the method's if its server is trusted, else a write."""
        if shape.effect is not None:
            return Effect(shape.effect)
        connection, method = self.source.connection(shape.connection), self._methods.get(step_id)
        if connection is None or method is None:
            return defaults.EFFECT
        hint = method.hint if connection.trusted else ToolHint.NONE
        if hint not in _HINTED:
            why = (
                "says nothing of its effect" if connection.trusted else "is of a service that is not trusted"
            )
            message = f"`{shape.method}` {why} and counts as `write`: it is never run twice"
            self.report.warning("effect_undeclared", message, ("steps", step_id))
        return _HINTED.get(hint, defaults.EFFECT)

    def action(self, step_id: str, shape: GrpcShape) -> GrpcAction:
        """The action of the plan."""
        method = self._methods.get(step_id)
        return GrpcAction(
            connection=shape.connection,
            method=shape.method,
            arguments_json=json_text(shape.arguments),
            method_digest=method.digest if method is not None else "",
        )
