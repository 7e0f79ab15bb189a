"""What a tool step does, to and from `plan.proto`. Owns the one table of its kinds."""

from typing import assert_never

from jackline.v1 import plan_pb2
from jackline_server.core.plan import (
    FunctionAction,
    HttpAction,
    McpAction,
    ResultAction,
    SqlAction,
    ToolAction,
)
from jackline_server.runtime.ports import UnknownFact


def set_action(into: plan_pb2.ToolStepPlan, action: ToolAction) -> None:
    """Write it into the step."""
    match action:
        case HttpAction() as http:
            into.http.connection = http.connection
            into.http.method = http.method
            into.http.path = http.path
            into.http.query.update(http.query)
            into.http.headers.update(http.headers)
            if http.body_json is not None:
                into.http.body_json = http.body_json
        case FunctionAction() as function:
            into.function.function = function.function
        case McpAction() as mcp:
            into.mcp.connection = mcp.connection
            into.mcp.tool = mcp.tool
            into.mcp.arguments_json = mcp.arguments_json
            into.mcp.tool_digest = mcp.tool_digest
        case SqlAction() as sql:
            into.sql.connection = sql.connection
            into.sql.statement = sql.statement
            if sql.max_rows is not None:
                into.sql.max_rows = sql.max_rows
        case ResultAction():
            into.result.SetInParent()
        case _:
            assert_never(action)


def read_action(step_id: str, found: plan_pb2.ToolStepPlan) -> ToolAction:
    """Read it. Raises UnknownFact for a kind of a newer version."""
    match found.WhichOneof("action"):
        case "http":
            http = found.http
            return HttpAction(
                connection=http.connection,
                method=http.method,
                path=http.path,
                query=dict(http.query),
                headers=dict(http.headers),
                body_json=http.body_json if http.HasField("body_json") else None,
            )
        case "function":
            return FunctionAction(function=found.function.function)
        case "mcp":
            return McpAction(
                connection=found.mcp.connection,
                tool=found.mcp.tool,
                arguments_json=found.mcp.arguments_json,
                tool_digest=found.mcp.tool_digest,
            )
        case "sql":
            return SqlAction(
                connection=found.sql.connection,
                statement=found.sql.statement,
                max_rows=found.sql.max_rows if found.sql.HasField("max_rows") else None,
            )
        case "result":
            return ResultAction()
        case None:
            raise UnknownFact(f"step {step_id} does what only a newer version knows")
