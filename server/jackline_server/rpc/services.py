"""Which function serves which method of the contract."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from jackline.v1 import run_service_pb2, tool_worker_pb2, webhook_service_pb2, workflow_service_pb2
from jackline_server.rpc.many_runs import ManyRunsMethods
from jackline_server.rpc.runs import RunMethods
from jackline_server.rpc.server_methods import ServerMethods
from jackline_server.rpc.streams import ProgressStreams
from jackline_server.rpc.threads import ThreadMethods
from jackline_server.rpc.webhooks import WebhookMethods
from jackline_server.rpc.worker_streams import WorkerStreams
from jackline_server.rpc.workflows import WorkflowMethods

RUN_SERVICE: ServiceDescriptor = run_service_pb2.DESCRIPTOR.services_by_name["RunService"]
WORKFLOW_SERVICE: ServiceDescriptor = workflow_service_pb2.DESCRIPTOR.services_by_name["WorkflowService"]
WEBHOOK_SERVICE: ServiceDescriptor = webhook_service_pb2.DESCRIPTOR.services_by_name["WebhookService"]
TOOL_WORKER_SERVICE: ServiceDescriptor = tool_worker_pb2.DESCRIPTOR.services_by_name["ToolWorkerService"]

Behavior = Callable[[Any, Any], Awaitable[Any]]


def run_service(
    runs: RunMethods,
    many: ManyRunsMethods,
    threads: ThreadMethods,
    streams: ProgressStreams,
    server_info: ServerMethods,
) -> grpc.GenericRpcHandler:
    """RunService."""
    return _service(
        RUN_SERVICE,
        {
            "StartRun": runs.start_run,
            "ForkRun": runs.fork_run,
            "Control": runs.control,
            "BulkControl": many.bulk_control,
            "KillSwitch": many.kill_switch,
            "GetKillSwitch": many.get_kill_switch,
            "GetRun": runs.get_run,
            "WaitRun": runs.wait_run,
            "ListRuns": runs.list_runs,
            "ListToolCalls": runs.list_tool_calls,
            "GetToolCallResult": runs.get_tool_call_result,
            "ListRunMessages": runs.list_run_messages,
            "ListInterrupts": runs.list_interrupts,
            "ListThreads": threads.list_threads,
            "GetThread": threads.get_thread,
            "AppendMessages": threads.append_messages,
            "GetServerInfo": server_info.get_server_info,
            "ListConnections": server_info.list_connections,
        },
        {"StreamProgress": streams.stream_progress},
    )


def workflow_service(workflows: WorkflowMethods) -> grpc.GenericRpcHandler:
    """WorkflowService."""
    return _service(
        WORKFLOW_SERVICE,
        {
            "ValidateWorkflow": workflows.validate_workflow,
            "PutWorkflow": workflows.put_workflow,
            "GetWorkflow": workflows.get_workflow,
            "ListWorkflows": workflows.list_workflows,
            "DescribeWorkflow": workflows.describe_workflow,
        },
        {},
    )


def webhook_service(webhooks: WebhookMethods) -> grpc.GenericRpcHandler:
    """WebhookService."""
    return _service(
        WEBHOOK_SERVICE,
        {
            "ListWebhooks": webhooks.list_webhooks,
            "ListWebhookDeliveries": webhooks.list_deliveries,
            "ResendWebhookDelivery": webhooks.resend_delivery,
            "TestWebhook": webhooks.test_webhook,
        },
        {},
    )


def tool_worker_service(workers: WorkerStreams) -> grpc.GenericRpcHandler:
    """ToolWorkerService."""
    return _service(
        TOOL_WORKER_SERVICE,
        {"ListToolWorkers": workers.list_tool_workers},
        {"Connect": workers.connect},
    )


def _service(
    service: ServiceDescriptor, unary: Mapping[str, Behavior], streams: Mapping[str, Behavior]
) -> grpc.GenericRpcHandler:
    """The service's handlers; the guard reads the deserializer, and bytes are written as they are."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in service.methods:
        parse = message_factory.GetMessageClass(method.input_type).FromString
        behavior: Any = streams[method.name] if method.server_streaming else unary[method.name]
        handlers[method.name] = _make(method)(behavior, request_deserializer=parse)
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _make(method: MethodDescriptor) -> "Callable[..., grpc.RpcMethodHandler[Any, Any]]":
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler
    return (
        grpc.unary_stream_rpc_method_handler
        if method.server_streaming
        else grpc.unary_unary_rpc_method_handler
    )
