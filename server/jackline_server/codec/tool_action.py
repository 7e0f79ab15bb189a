"""What a tool step does, to and from `plan.proto`. Owns the one table of its kinds."""

from typing import assert_never

from jackline.v1 import plan_pb2
from jackline_server.codec.children import read_child, set_child
from jackline_server.core.plan import (
    ChildAction,
    FunctionAction,
    GrpcAction,
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
        case HttpAction():
            into.http.CopyFrom(_http(action))
        case FunctionAction():
            into.function.CopyFrom(
                plan_pb2.FunctionAction(function=action.function, isolated=action.isolated)
            )
        case McpAction():
            into.mcp.CopyFrom(_mcp(action))
        case SqlAction():
            into.sql.CopyFrom(_sql(action))
        case GrpcAction():
            into.grpc.CopyFrom(_grpc(action))
        case ChildAction():
            set_child(into.child, action)
        case ResultAction():
            into.result.SetInParent()
        case _:
            assert_never(action)


def _http(action: HttpAction) -> plan_pb2.HttpAction:
    return plan_pb2.HttpAction(
        connection=action.connection,
        method=action.method,
        path=action.path,
        query=action.query,
        headers=action.headers,
        body_json=action.body_json,
    )


def _mcp(action: McpAction) -> plan_pb2.McpAction:
    return plan_pb2.McpAction(
        connection=action.connection,
        tool=action.tool,
        arguments_json=action.arguments_json,
        tool_digest=action.tool_digest,
    )


def _sql(action: SqlAction) -> plan_pb2.SqlAction:
    return plan_pb2.SqlAction(
        connection=action.connection, statement=action.statement, max_rows=action.max_rows
    )


def _grpc(action: GrpcAction) -> plan_pb2.GrpcAction:
    return plan_pb2.GrpcAction(
        connection=action.connection,
        method=action.method,
        arguments_json=action.arguments_json,
        method_digest=action.method_digest,
    )


def read_action(  # noqa: C901 - one case a kind
    step_id: str, found: plan_pb2.ToolStepPlan
) -> ToolAction:
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
            return FunctionAction(function=found.function.function, isolated=found.function.isolated)
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
        case "grpc":
            return GrpcAction(
                connection=found.grpc.connection,
                method=found.grpc.method,
                arguments_json=found.grpc.arguments_json,
                method_digest=found.grpc.method_digest,
            )
        case "child":
            return read_child(found.child)
        case "result":
            return ResultAction()
        case None:
            raise UnknownFact(f"step {step_id} does what only a newer version knows")
