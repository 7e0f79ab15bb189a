"""A strict double of the services on a real grpc.aio server, for tests of clients; of workers only the list.

Owns a small log per run, scripted ends of streams and scripted answers. Serves a log faithfully once its
stream scripts are used up. A call that was not scripted is UNIMPLEMENTED and noted in `unexpected`; `unused`
names what was scripted and never asked for.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]  # ships its own types

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.control_pb2 import CommandDisposition, Receipt, ReceiptStage
from jackline.v1.event_pb2 import Content, ResultContent, RunFinished, RunStarted, StepEvent
from jackline.v1.run_pb2 import ForkOrigin, Run, RunState, StopReason
from jackline.v1.run_service_pb2_grpc import RunServiceServicer, add_RunServiceServicer_to_server
from jackline.v1.tool_worker_pb2_grpc import (
    ToolWorkerServiceServicer,
    add_ToolWorkerServiceServicer_to_server,
)
from jackline.v1.webhook_service_pb2_grpc import (
    WebhookServiceServicer,
    add_WebhookServiceServicer_to_server,
)
from jackline.v1.workflow_service_pb2_grpc import (
    WorkflowServiceServicer,
    add_WorkflowServiceServicer_to_server,
)

TOKEN = "test-token"
RUN_ID = "run_01hzy3v9q4n8xk2m5t7w6r0abc"
ORIGIN_ID = "run_01hzy3v9q4n8xk2m5t7w6r0xyz"

_Request = TypeVar("_Request", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error answer, with our details unless `reason` is empty."""

    code: grpc.StatusCode
    reason: str = ""
    message: str = "said by the script"
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    violations: tuple[tuple[str, str], ...] = ()
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamScript:
    """One stream: these frames, then an end. Without frames, the faithful ones."""

    frames: Sequence[wire.StreamProgressResponse] | None = None
    through: int | None = None
    """With the faithful frames: the last event before the end."""
    end: Failure | None = None
    """None ends with OK."""
    hang: bool = False
    """Never ends by itself."""


class ScriptedService(
    RunServiceServicer, WorkflowServiceServicer, ToolWorkerServiceServicer, WebhookServiceServicer
):
    """The services. Answers are scripted by method name, in order."""

    def __init__(self) -> None:
        self.log: list[StepEvent] = []
        self.streams: deque[StreamScript] = deque()
        self.asked: list[Message] = []
        self.unexpected: list[str] = []
        self.open_streams = 0
        self.stream_opened = asyncio.Condition()
        self._answers: defaultdict[str, deque[Message | Failure]] = defaultdict(deque)

    def script(self, method: str, *answers: Message | Failure) -> None:
        """Adds answers for a unary method."""
        self._answers[method].extend(answers)

    @property
    def unused(self) -> list[str]:
        """What was scripted and never asked for."""
        left = [method for method, answers in self._answers.items() for _ in answers]
        return left + ["StreamProgress"] * len(self.streams)

    def requests(self, kind: type[_Request]) -> list[_Request]:
        """The requests of one kind, in order."""
        return [request for request in self.asked if isinstance(request, kind)]

    async def until_streams(self, number: int) -> None:
        """Waits until so many streams are open at once."""
        async with self.stream_opened:
            await self.stream_opened.wait_for(lambda: self.open_streams >= number)

    async def _answer(self, request: Message, context: Any) -> Any:
        method = type(request).__name__.removesuffix("Request")
        self.asked.append(request)
        await authenticate(context)
        if not self._answers[method]:
            self.unexpected.append(method)
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{method} was not scripted")
        answer = self._answers[method].popleft()
        if isinstance(answer, Failure):
            await fail(context, answer)
        return answer

    async def StreamProgress(  # noqa: N802 - the contract's name
        self, request: wire.StreamProgressRequest, context: Any
    ) -> AsyncIterator[wire.StreamProgressResponse]:
        self.asked.append(request)
        await authenticate(context)
        script = self.streams.popleft() if self.streams else StreamScript()
        async with self.stream_opened:
            self.open_streams += 1
            self.stream_opened.notify_all()
        try:
            for frame in (
                script.frames if script.frames is not None else self._faithful(request, script.through)
            ):
                yield frame
            if script.hang:
                await asyncio.Event().wait()
        finally:
            self.open_streams -= 1
        if script.end is not None:
            await fail(context, script.end)

    def _faithful(
        self, request: wire.StreamProgressRequest, through: int | None
    ) -> Iterator[wire.StreamProgressResponse]:
        head = len(self.log)
        last = head if through is None else through
        yield wire.StreamProgressResponse(sent_through=request.after_sequence, head_sequence=head)
        for event in self.log[request.after_sequence : last]:
            if request.kinds and event.WhichOneof("fact") not in (*request.kinds, "run_finished"):
                yield wire.StreamProgressResponse(sent_through=event.sequence, head_sequence=head)
            else:
                yield frame_of(event, head=head)

    async def _nobody_serves(self, requests: Any, context: Any) -> None:
        del requests
        self.unexpected.append("Connect")
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Connect can't be scripted")

    # One answer a method: the script says which.

    StartRun = ForkRun = Control = GetRun = WaitRun = ListRuns = cast("Any", _answer)
    ListToolCalls = GetToolCallResult = ListRunMessages = cast("Any", _answer)
    ListInterrupts = GetServerInfo = cast("Any", _answer)
    BulkControl = KillSwitch = GetKillSwitch = cast("Any", _answer)
    ListThreads = GetThread = AppendMessages = cast("Any", _answer)
    ValidateWorkflow = PutWorkflow = GetWorkflow = ListWorkflows = DescribeWorkflow = cast("Any", _answer)
    ListToolWorkers = ListConnections = cast("Any", _answer)
    ListWebhooks = cast("Any", _answer)
    ListWebhookDeliveries = cast("Any", _answer)
    ResendWebhookDelivery = cast("Any", _answer)
    TestWebhook = cast("Any", _answer)
    Connect = cast("Any", _nobody_serves)


async def authenticate(context: Any) -> None:
    """Ends a call that does not bring the token."""
    metadata: list[tuple[str, str]] = list(context.invocation_metadata() or ())
    if ("authorization", f"Bearer {TOKEN}") not in metadata:
        await fail(context, Failure(code=grpc.StatusCode.UNAUTHENTICATED, reason="UNAUTHENTICATED"))


async def fail(context: Any, failure: Failure) -> None:
    """Ends a call with an error and the standard details."""
    details: list[Message] = []
    if failure.reason:
        details.append(
            error_details_pb2.ErrorInfo(domain="jackline", reason=failure.reason, metadata=failure.metadata)
        )
    if failure.violations:
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=name, description=text)
            for name, text in failure.violations
        ]
        details.append(error_details_pb2.BadRequest(field_violations=violations))
    if failure.retry_after_s is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(int(failure.retry_after_s * 1000))
        details.append(retry)
    packed: list[AnyMessage] = []
    for detail in details:
        packed.append(AnyMessage())
        packed[-1].Pack(detail)
    status = status_pb2.Status(code=failure.code.value[0], message=failure.message, details=packed)
    trailing = (("grpc-status-details-bin", status.SerializeToString()),) if packed else ()
    await context.abort(failure.code, failure.message, trailing_metadata=trailing)


def frame_of(*events: StepEvent, head: int = 0) -> wire.StreamProgressResponse:
    """A frame with these events."""
    last = events[-1].sequence
    return wire.StreamProgressResponse(events=events, sent_through=last, head_sequence=max(head, last))


def small_log(
    length: int = 5,
    *,
    state: RunState.ValueType = RunState.RUN_STATE_SUCCEEDED,
    make: Callable[[int], StepEvent] | None = None,
    signal: str = "resolved",
) -> list[StepEvent]:
    """A log of `length` events from the start to the end of a run."""
    events = [StepEvent(run_started=RunStarted(workflow="refunds"))]
    events += [make(number) if make else StepEvent(step_id="handle") for number in range(2, length)]
    events.append(
        StepEvent(
            signal=signal,
            run_finished=RunFinished(state=state, signal=signal, stop_reason=StopReason.STOP_REASON_OUTCOME),
            content=Content(result=ResultContent(result_json=b'{"refunded":true}')),
        )
    )
    return numbered(events)


def numbered(events: Iterable[StepEvent]) -> list[StepEvent]:
    """Gives events the run's id and their sequences."""
    found = list(events)
    for sequence, event in enumerate(found, start=1):
        event.run_id = RUN_ID
        event.sequence = sequence
    return found


def ended_run(log: Sequence[StepEvent]) -> wire.GetRunResponse:
    """The answer of GetRun for a run with this log."""
    finished = log[-1].run_finished
    return wire.GetRunResponse(
        run=Run(run_id=RUN_ID, state=finished.state, signal=finished.signal, head_sequence=len(log))
    )


def started(
    disposition: wire.StartDisposition.ValueType = wire.StartDisposition.START_DISPOSITION_STARTED,
) -> wire.StartRunResponse:
    """The answer of StartRun."""
    return wire.StartRunResponse(
        run=Run(run_id=RUN_ID, state=RunState.RUN_STATE_RUNNING), disposition=disposition
    )


def forked(sequence: int) -> wire.ForkRunResponse:
    """The answer of ForkRun."""
    origin = ForkOrigin(run_id=ORIGIN_ID, sequence=sequence)
    return wire.ForkRunResponse(
        run=Run(run_id=RUN_ID, state=RunState.RUN_STATE_RUNNING, forked_from=origin),
        disposition=wire.StartDisposition.START_DISPOSITION_STARTED,
    )


def receipt(
    disposition: CommandDisposition.ValueType = CommandDisposition.COMMAND_DISPOSITION_APPLIED,
) -> wire.ControlResponse:
    """The answer of Control."""
    stage = ReceiptStage.RECEIPT_STAGE_EFFECTIVE
    return wire.ControlResponse(
        receipt=Receipt(command_id="c1", stage=stage, disposition=disposition, sequence=3), reached=True
    )


@asynccontextmanager
async def serving(service: ScriptedService, *, max_streams: int | None = None) -> AsyncGenerator[str]:
    """Serves on a free port of the loopback and yields the address."""
    options: list[tuple[str, Any]] = [("grpc.so_reuseport", 0)]
    if max_streams is not None:
        options.append(("grpc.max_concurrent_streams", max_streams))
    server = grpc.aio.server(options=options)
    add_RunServiceServicer_to_server(service, server)
    add_WorkflowServiceServicer_to_server(service, server)
    add_ToolWorkerServiceServicer_to_server(service, server)
    add_WebhookServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
