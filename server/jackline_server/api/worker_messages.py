"""The messages of a worker's stream, to and from the runtime's own words."""

import asyncio
from typing import assert_never

from google.protobuf.duration_pb2 import Duration

from jackline.v1 import run_pb2, tool_worker_pb2
from jackline_server.api.limits import LIMITS
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.tool_reports import MOST_TEXT
from jackline_server.runtime.ports.workers import (
    MOST_INVOCATION_NAME,
    CancelInvocation,
    CancelReason,
    InvokeTool,
    PoolView,
    Registration,
    ResultTaken,
    ServerLeaves,
    WorkerErrorKind,
    WorkerFailure,
    WorkerLeaves,
    WorkerOrder,
    WorkerProgress,
    WorkerResult,
    WorkerSays,
    WorkerTool,
    WorkerView,
    WorkerWelcome,
)
from jackline_server.runtime.refusals import Violation

MOST_RESULT_BYTES = LIMITS.message_bytes - 64 * 1024
"""What of a message is left for a result."""

_EFFECTS = {
    run_pb2.EFFECT_READ: Effect.READ,
    run_pb2.EFFECT_IDEMPOTENT: Effect.IDEMPOTENT,
    run_pb2.EFFECT_WRITE: Effect.WRITE,
    run_pb2.EFFECT_DESTRUCTIVE: Effect.DESTRUCTIVE,
}
_EFFECT_VALUES = {effect: value for value, effect in _EFFECTS.items()}
_KINDS = {
    tool_worker_pb2.WORKER_ERROR_KIND_TRANSIENT: WorkerErrorKind.TRANSIENT,
    tool_worker_pb2.WORKER_ERROR_KIND_UNCERTAIN: WorkerErrorKind.UNCERTAIN,
    tool_worker_pb2.WORKER_ERROR_KIND_CANCELLED: WorkerErrorKind.CANCELLED,
    tool_worker_pb2.WORKER_ERROR_KIND_NOT_STARTED: WorkerErrorKind.NOT_STARTED,
}
_REASONS = {
    CancelReason.ABORTED: tool_worker_pb2.CANCEL_INVOCATION_REASON_ABORTED,
    CancelReason.TIMED_OUT: tool_worker_pb2.CANCEL_INVOCATION_REASON_TIMED_OUT,
    CancelReason.UNKNOWN: tool_worker_pb2.CANCEL_INVOCATION_REASON_UNKNOWN,
}


# --- what a worker says ------------------------------------------------------------------------


def registration_of(request: tool_worker_pb2.ConnectRequest) -> Registration:
    """The first message. Raises DoorRefused (INVALID_REQUEST) if it is another."""
    if request.WhichOneof("message") != "register":
        raise _against_the_rules("register", "the first message of a worker is `register`")
    register = request.register
    return Registration(
        pool=register.pool,
        worker=register.worker,
        session=register.session,
        tools=tuple(_tool(tool) for tool in register.tools),
        max_parallel=register.max_parallel if register.HasField("max_parallel") else None,
        invocations=tuple(register.invocations),
        draining=register.draining,
    )


def _tool(tool: tool_worker_pb2.WorkerTool) -> WorkerTool:
    return WorkerTool(
        name=tool.name,
        description=tool.description,
        parameters_json=tool.parameters_json,
        output_schema_json=tool.output_schema_json,
        effect=_EFFECTS.get(tool.effect),
        max_parallel=tool.max_parallel if tool.HasField("max_parallel") else None,
        cancellable=tool.cancellable,
    )


def said_by(request: tool_worker_pb2.ConnectRequest) -> WorkerSays | None:
    """A later message; None for a heartbeat. Raises DoorRefused (INVALID_REQUEST)."""
    match request.WhichOneof("message"):
        case "result":
            return _result(request.result)
        case "progress":
            progress = request.progress
            return WorkerProgress(
                invocation=_invocation(progress.invocation, "progress"),
                text=progress.text[: MOST_TEXT + 1],
                fraction=progress.fraction if progress.HasField("fraction") else None,
            )
        case "drain":
            return WorkerLeaves()
        case "heartbeat":
            return None
        case "register":
            raise _against_the_rules("register", "a stream has one registration; open another stream")
        case None:
            raise _against_the_rules("message", "the message says nothing that this server knows")


def _result(result: tool_worker_pb2.InvocationResult) -> WorkerResult:
    outcome: bytes | str | WorkerFailure
    match result.WhichOneof("outcome"):
        case "json":
            outcome = result.json
        case "text":
            outcome = result.text
        case "error":
            error = result.error
            outcome = WorkerFailure(
                kind=_KINDS.get(error.kind, WorkerErrorKind.FAILED),
                message=error.message,
                retry_after_ms=max(error.retry_after.ToMilliseconds(), 0)
                if error.HasField("retry_after")
                else None,
            )
        case None:
            raise _against_the_rules("result.outcome", "a result has json, text or error")
    return WorkerResult(invocation=_invocation(result.invocation, "result"), outcome=outcome)


def _invocation(name: str, message: str) -> str:
    """The name; it is said back in an acknowledgement, so that a long one would be held for the worker."""
    if len(name) > MOST_INVOCATION_NAME:
        raise _against_the_rules(f"{message}.invocation", "no invocation has so long a name")
    return name


def _against_the_rules(field: str, what: str) -> DoorRefused:
    return DoorRefused(
        DoorReason.INVALID_REQUEST,
        f"The worker does not keep to the protocol: {what}.",
        violations=(Violation(field=field, description=what, reason="BAD_MESSAGE"),),
    )


# --- what a worker is told ---------------------------------------------------------------------


def welcome_message(welcome: WorkerWelcome, *, version: str) -> tool_worker_pb2.ConnectResponse:
    """The answer to a registration."""
    return tool_worker_pb2.ConnectResponse(
        welcome=tool_worker_pb2.WorkerWelcome(
            session=welcome.session,
            resumed=welcome.resumed,
            heartbeat=_span(welcome.heartbeat_ms),
            resume_grace=_span(welcome.resume_grace_ms),
            max_result_bytes=MOST_RESULT_BYTES,
            server_version=version,
        )
    )


def heartbeat_message() -> tool_worker_pb2.ConnectResponse:
    """A sign of life."""
    return tool_worker_pb2.ConnectResponse(heartbeat=tool_worker_pb2.WorkerHeartbeat())


def order_message(order: WorkerOrder) -> tool_worker_pb2.ConnectResponse:
    """What a worker is told. Call it right before it is sent, in the loop whose clock deadlines are of."""
    match order:
        case InvokeTool():
            return tool_worker_pb2.ConnectResponse(invoke=_invoke(order))
        case CancelInvocation(invocation=invocation, reason=reason):
            cancel = tool_worker_pb2.CancelInvocation(invocation=invocation, reason=_REASONS[reason])
            return tool_worker_pb2.ConnectResponse(cancel=cancel)
        case ResultTaken(invocation=invocation):
            taken = tool_worker_pb2.ResultAcknowledged(invocation=invocation)
            return tool_worker_pb2.ConnectResponse(acknowledged=taken)
        case ServerLeaves(grace_ms=grace_ms):
            grace = None if grace_ms is None else _span(grace_ms)
            return tool_worker_pb2.ConnectResponse(drain=tool_worker_pb2.WorkerDrain(grace=grace))
        case _:
            assert_never(order)


def _invoke(order: InvokeTool) -> tool_worker_pb2.InvokeTool:
    left_ms = int((order.deadline - asyncio.get_running_loop().time()) * 1000)
    message = tool_worker_pb2.InvokeTool(
        invocation=order.invocation,
        tool=order.tool,
        arguments_json=order.arguments_json.encode(),
        timeout=_span(max(left_ms, 1)),
        call_key=order.call_key,
        attempt=order.attempt,
        run_id=order.run_id,
        step_id=order.step_id,
        traceparent=order.traceparent,
    )
    if order.subject:
        message.subject.update(dict(order.subject))
    return message


def _span(ms: int) -> Duration:
    span = Duration()
    span.FromMilliseconds(ms)
    return span


# --- views -------------------------------------------------------------------------------------


def pool_message(pool: PoolView) -> tool_worker_pb2.WorkerPool:
    """A pool and its workers."""
    return tool_worker_pb2.WorkerPool(
        name=pool.name,
        workers=[_worker(worker) for worker in pool.workers],
        tools=[_offered(tool) for tool in pool.tools],
        waiting_count=pool.waiting,
        dropped_results_count=pool.dropped_results,
    )


def _worker(worker: WorkerView) -> tool_worker_pb2.ToolWorker:
    message = tool_worker_pb2.ToolWorker(
        worker=worker.worker,
        principal=worker.principal,
        connected=worker.connected,
        draining=worker.draining,
        tools=worker.tools,
        max_parallel=worker.max_parallel,
        in_flight_count=worker.in_flight,
    )
    message.started_at.FromMilliseconds(worker.started_unix_ms)
    return message


def _offered(tool: WorkerTool) -> tool_worker_pb2.WorkerTool:
    return tool_worker_pb2.WorkerTool(
        name=tool.name,
        description=tool.description,
        parameters_json=tool.parameters_json,
        output_schema_json=tool.output_schema_json,
        effect=_EFFECT_VALUES.get(tool.effect or Effect.WRITE, run_pb2.EFFECT_WRITE),
        max_parallel=tool.max_parallel,
        cancellable=tool.cancellable,
    )
