"""Every method that a door serves, and what a caller must be allowed to use it.

Owns the one policy table: a method that is not in it is not served. What depends on the request (a view, an
inline workflow, an answer to a question) is in `check_request`.
"""

from collections.abc import Mapping

from google.protobuf.message import Message

from jackline.v1 import run_pb2, run_service_pb2
from jackline_server.api.limits import LIMITS
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.core.frozen import frozen
from jackline_server.core.reading.limit_questions import RAISE
from jackline_server.identity.principals import Principal, Scope
from jackline_server.runtime.refusals import Violation

_RUNS = "/jackline.v1.RunService/"
_WORKFLOWS = "/jackline.v1.WorkflowService/"
_WEBHOOKS = "/jackline.v1.WebhookService/"
_WORKERS = "/jackline.v1.ToolWorkerService/"


@frozen
class MethodRule:
    """Who may use a method: anybody (`public`), or whoever holds one of `any_of`.

    An empty `any_of` lets every valid credential in; the first of it is named to those who lack them all.
    `capped` is false for calls that wait by design. A request has at most `most_bytes`: what a method never
    needs is not even parsed.
    """

    any_of: tuple[Scope, ...] = ()
    public: bool = False
    capped: bool = True
    most_bytes: int = LIMITS.request_bytes


def _with(*scopes: Scope, most_bytes: int = LIMITS.request_bytes) -> MethodRule:
    return MethodRule(any_of=scopes, most_bytes=most_bytes)


PUBLIC = MethodRule(public=True)
ANY_CREDENTIAL = MethodRule()

METHODS: Mapping[str, MethodRule] = {
    f"{_RUNS}StartRun": _with(Scope.RUNS_START, most_bytes=LIMITS.start_request_bytes),
    f"{_RUNS}ForkRun": _with(Scope.RUNS_START, most_bytes=LIMITS.fork_request_bytes),
    f"{_RUNS}StreamProgress": MethodRule(any_of=(Scope.RUNS_OBSERVE,), capped=False),
    f"{_RUNS}Control": _with(
        Scope.RUNS_CONTROL, Scope.RUNS_APPROVE, Scope.RUNS_BOUNDS, most_bytes=LIMITS.control_request_bytes
    ),
    f"{_RUNS}BulkControl": _with(Scope.RUNS_CONTROL, most_bytes=LIMITS.control_request_bytes),
    f"{_RUNS}KillSwitch": _with(Scope.ADMIN),
    f"{_RUNS}GetKillSwitch": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}GetRun": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}WaitRun": MethodRule(any_of=(Scope.RUNS_OBSERVE,), capped=False),
    f"{_RUNS}ListRuns": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}ListToolCalls": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}GetToolCallResult": _with(Scope.RUNS_CONTENT),
    f"{_RUNS}ListRunMessages": _with(Scope.RUNS_CONTENT),
    f"{_RUNS}ListInterrupts": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}ListThreads": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}GetThread": _with(Scope.RUNS_OBSERVE),
    f"{_RUNS}AppendMessages": _with(Scope.RUNS_START, most_bytes=LIMITS.append_request_bytes),
    f"{_RUNS}GetServerInfo": ANY_CREDENTIAL,
    f"{_RUNS}ListConnections": _with(Scope.WORKFLOWS_READ),
    f"{_WORKFLOWS}ValidateWorkflow": _with(Scope.WORKFLOWS_READ, most_bytes=LIMITS.workflow_request_bytes),
    f"{_WORKFLOWS}PutWorkflow": _with(Scope.WORKFLOWS_WRITE, most_bytes=LIMITS.workflow_request_bytes),
    f"{_WORKFLOWS}GetWorkflow": _with(Scope.WORKFLOWS_READ),
    f"{_WORKFLOWS}ListWorkflows": _with(Scope.WORKFLOWS_READ),
    f"{_WORKFLOWS}DescribeWorkflow": _with(Scope.WORKFLOWS_READ),
    f"{_WEBHOOKS}ListWebhooks": _with(Scope.ADMIN),
    f"{_WEBHOOKS}ListWebhookDeliveries": _with(Scope.ADMIN),
    f"{_WEBHOOKS}ResendWebhookDelivery": _with(Scope.ADMIN),
    f"{_WEBHOOKS}TestWebhook": _with(Scope.ADMIN),
    f"{_WORKERS}Connect": MethodRule(
        any_of=(Scope.TOOLS_SERVE,), capped=False, most_bytes=LIMITS.message_bytes
    ),
    f"{_WORKERS}ListToolWorkers": _with(Scope.WORKFLOWS_READ),
    "/grpc.health.v1.Health/Check": PUBLIC,
    "/grpc.health.v1.Health/Watch": MethodRule(public=True, capped=False),
    "/grpc.health.v1.Health/List": PUBLIC,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": MethodRule(capped=False),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": MethodRule(capped=False),
}


def check_method(principal: Principal, rule: MethodRule) -> None:
    """Refuse a caller that may not use the method at all. Raises DoorRefused (SCOPE_MISSING)."""
    if rule.any_of and principal.scopes.isdisjoint(rule.any_of):
        raise _scope_missing(rule.any_of[0])


def check_size(rule: MethodRule, size: int) -> None:
    """Refuse a request that is larger than its method ever needs. Raises DoorRefused (FIELD_TOO_LARGE)."""
    if size > rule.most_bytes:
        violation = Violation(
            field="request", description=f"has {size} bytes, at most {rule.most_bytes}", reason="TOO_LARGE"
        )
        raise DoorRefused(
            DoorReason.FIELD_TOO_LARGE,
            f"The request has {size} bytes and may have {rule.most_bytes}. Send less.",
            metadata={"field": "request", "size": str(size), "limit": str(rule.most_bytes)},
            violations=(violation,),
        )


def check_request(principal: Principal, request: Message) -> None:
    """Refuse what this request asks for beyond its method. Raises DoorRefused (SCOPE_MISSING)."""
    for scope in _needed(request):
        if scope not in principal.scopes:
            raise _scope_missing(scope)


def _needed(request: Message) -> tuple[Scope, ...]:
    match request:
        case run_service_pb2.StartRunRequest():
            inline = request.WhichOneof("source") == "inline_workflow"
            return (Scope.WORKFLOWS_WRITE,) if inline else ()
        case run_service_pb2.ForkRunRequest():
            return (Scope.RUNS_CONTENT,)
        case run_service_pb2.ControlRequest():
            kind = request.WhichOneof("command")
            raises = kind == "answer" and request.answer.option == RAISE
            more = (Scope.RUNS_BOUNDS,) if raises else ()
            return (_COMMANDS.get(kind or "", Scope.RUNS_CONTROL), *more)
        case run_service_pb2.StreamProgressRequest():
            content = request.view == run_pb2.VIEW_FULL or request.include_deltas
            needed = (Scope.RUNS_CONTENT,) if content else ()
            return (*needed, Scope.RUNS_CONTROL) if request.HasField("owner") else needed
        case (
            run_service_pb2.GetRunRequest()
            | run_service_pb2.WaitRunRequest()
            | run_service_pb2.ListToolCallsRequest()
            | run_service_pb2.ListInterruptsRequest()
            | run_service_pb2.GetThreadRequest()
        ):
            return (Scope.RUNS_CONTENT,) if request.view == run_pb2.VIEW_FULL else ()
        case _:
            return ()


_COMMANDS = {
    "answer": Scope.RUNS_APPROVE,
    "approve": Scope.RUNS_APPROVE,
    "edit_and_approve": Scope.RUNS_APPROVE,
    "reject": Scope.RUNS_APPROVE,
    "submit_tool_result": Scope.RUNS_APPROVE,
    "adjust_bounds": Scope.RUNS_BOUNDS,
}
"""What a command needs; those that are not here need `runs:control`."""


def _scope_missing(scope: Scope) -> DoorRefused:
    return DoorRefused(
        DoorReason.SCOPE_MISSING,
        f"The credential lacks the scope {scope.value}. Use one that has it.",
        metadata={"scope": scope.value},
    )
