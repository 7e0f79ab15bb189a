"""What a tool step does, to and from `plan.proto`. Owns the one table of its kinds."""

from collections.abc import Callable, Mapping
from typing import assert_never

from jackline.v1 import plan_pb2
from jackline_server.codec.children import read_child, set_child
from jackline_server.core.plan import (
    ChildAction,
    FunctionAction,
    GrpcAction,
    HttpAction,
    HumanAction,
    HumanOption,
    McpAction,
    ResultAction,
    SqlAction,
    ToolAction,
    WorkerAction,
)
from jackline_server.runtime.ports.codec import UnknownFact


def set_action(  # noqa: C901 - one case a kind
    into: plan_pb2.ToolStepPlan, action: ToolAction
) -> None:
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
        case WorkerAction():
            into.worker.CopyFrom(_worker(action))
        case HumanAction():
            into.human.CopyFrom(_human(action))
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


def _worker(action: WorkerAction) -> plan_pb2.WorkerAction:
    return plan_pb2.WorkerAction(
        connection=action.connection,
        tool=action.tool,
        arguments_json=action.arguments_json,
        tool_digest=action.tool_digest,
        takes=action.takes,
        wait_ms=action.wait_ms,
    )


def _human(action: HumanAction) -> plan_pb2.HumanAction:
    return plan_pb2.HumanAction(
        question=action.question,
        options=[
            plan_pb2.HumanOption(value=option.value, description=option.description)
            for option in action.options
        ],
        schema_json=action.schema_json,
        default_json=action.default_json,
        choices=action.choices,
    )


def read_action(step_id: str, found: plan_pb2.ToolStepPlan) -> ToolAction:
    """Read it. Raises UnknownFact for a kind of a newer version."""
    kind = found.WhichOneof("action")
    if kind is None:
        raise UnknownFact(f"step {step_id} does what only a newer version knows")
    return _READERS[kind](found)


def _read_http(step: plan_pb2.ToolStepPlan) -> HttpAction:
    http = step.http
    return HttpAction(
        connection=http.connection,
        method=http.method,
        path=http.path,
        query=dict(http.query),
        headers=dict(http.headers),
        body_json=http.body_json if http.HasField("body_json") else None,
    )


def _read_worker(step: plan_pb2.ToolStepPlan) -> WorkerAction:
    worker = step.worker
    return WorkerAction(
        connection=worker.connection,
        tool=worker.tool,
        arguments_json=worker.arguments_json,
        tool_digest=worker.tool_digest,
        takes=tuple(worker.takes),
        wait_ms=worker.wait_ms if worker.HasField("wait_ms") else None,
    )


def _read_function(step: plan_pb2.ToolStepPlan) -> FunctionAction:
    return FunctionAction(function=step.function.function, isolated=step.function.isolated)


def _read_mcp(step: plan_pb2.ToolStepPlan) -> McpAction:
    mcp = step.mcp
    return McpAction(
        connection=mcp.connection,
        tool=mcp.tool,
        arguments_json=mcp.arguments_json,
        tool_digest=mcp.tool_digest,
    )


def _read_sql(step: plan_pb2.ToolStepPlan) -> SqlAction:
    sql = step.sql
    return SqlAction(
        connection=sql.connection,
        statement=sql.statement,
        max_rows=sql.max_rows if sql.HasField("max_rows") else None,
    )


def _read_grpc(step: plan_pb2.ToolStepPlan) -> GrpcAction:
    grpc = step.grpc
    return GrpcAction(
        connection=grpc.connection,
        method=grpc.method,
        arguments_json=grpc.arguments_json,
        method_digest=grpc.method_digest,
    )


def _read_child(step: plan_pb2.ToolStepPlan) -> ChildAction:
    return read_child(step.child)


def _read_human(step: plan_pb2.ToolStepPlan) -> HumanAction:
    human = step.human
    return HumanAction(
        question=human.question,
        options=tuple(
            HumanOption(value=option.value, description=option.description) for option in human.options
        ),
        schema_json=human.schema_json if human.HasField("schema_json") else None,
        default_json=human.default_json if human.HasField("default_json") else None,
        choices=human.choices,
    )


def _read_result(step: plan_pb2.ToolStepPlan) -> ResultAction:
    del step
    return ResultAction()


_READERS: Mapping[str, Callable[[plan_pb2.ToolStepPlan], ToolAction]] = {
    "http": _read_http,
    "function": _read_function,
    "mcp": _read_mcp,
    "sql": _read_sql,
    "grpc": _read_grpc,
    "worker": _read_worker,
    "child": _read_child,
    "human": _read_human,
    "result": _read_result,
}
