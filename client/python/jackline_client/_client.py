"""The client: one method for each call of the contract.

Owns the Python face of RunService and WorkflowService, and the list of tool workers. Does not own channels
(`_connection`), resuming (`_watch`) or the shape of requests (`_requests`).
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack

import grpc
from google.protobuf.duration_pb2 import Duration

from jackline.v1 import connection_pb2 as connection_wire
from jackline.v1 import run_service_pb2 as wire
from jackline.v1 import workflow_service_pb2 as workflow_wire
from jackline.v1.control_pb2 import (
    AbortCommand,
    AbortMode,
    AdjustBoundsCommand,
    AnswerCommand,
    ApproveCommand,
    EditAndApproveCommand,
    RejectCommand,
    SteerCommand,
    SubmitToolResultCommand,
)
from jackline.v1.run_pb2 import (
    Interrupt,
    InterruptKind,
    Run,
    RunBounds,
    RunMessage,
    RunState,
    ToolCall,
    View,
    VisitBounds,
)
from jackline.v1.thread_pb2 import NewThreadMessage, Thread, ThreadMessage
from jackline.v1.tool_worker_pb2 import ListToolWorkersRequest, WorkerPool
from jackline_client._connection import Connection, Endpoint
from jackline_client._many_runs import BulkCalls, KillSwitchCalls
from jackline_client._paging import pages
from jackline_client._requests import (
    ControlOptions,
    ForkOptions,
    InputValue,
    RunFilter,
    StartOptions,
    append_request,
    control_request,
    fork_request,
    inline_workflow,
    json_bytes,
    start_request,
    timestamp,
)
from jackline_client._watch import Cut, Frame, Watch, WatchPolicy
from jackline_client._webhooks import WebhookCalls
from jackline_client.credentials import find_address, find_token

_CALL_S = 30.0
_WAIT_PIECE_S = 60.0
_WAIT_MARGIN_S = 10.0
TERMINAL_STATES = frozenset(
    {
        RunState.RUN_STATE_SUCCEEDED,
        RunState.RUN_STATE_NEEDS_REVIEW,
        RunState.RUN_STATE_EXHAUSTED,
        RunState.RUN_STATE_FAILED,
        RunState.RUN_STATE_ABORTED,
    }
)
"""The states that a run does not leave."""


class JacklineClient:
    """A client of one server. Make it inside a running event loop and close it, or use it with `async with`.

    Every `view` is one of `jackline.v1.run_pb2.View`: `View.VIEW_METADATA` (the default) has no prompt,
    reply, argument, result or reason; `View.VIEW_FULL` has all of it and needs the scope `runs:content`.
    Every command takes the `ControlOptions` as keywords: `reason`, `command_id`, `expect`, `wait`,
    `timeout_s`. An unknown keyword is a TypeError.

    All methods raise `CallError` by reason (see `errors`), and cancelling one cancels its call; a run is only
    ever stopped by `abort`. Calls that are safe to repeat are repeated when the server can't be reached.
    """

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        channel_credentials: grpc.ChannelCredentials | None = None,
        watch_policy: WatchPolicy | None = None,
        timeout_s: float = _CALL_S,
    ) -> None:
        """Prepares a client of `host:port`; without channel credentials the connection is not encrypted."""
        endpoint = Endpoint(address=address, token=token, channel_credentials=channel_credentials)
        self._connection = Connection(endpoint=endpoint)
        self._watch_policy = watch_policy or WatchPolicy()
        self._timeout_s = timeout_s
        self.webhooks = WebhookCalls(connection=self._connection, timeout_s=timeout_s)
        """The calls about webhooks."""
        self.bulk = BulkCalls(connection=self._connection, timeout_s=timeout_s)
        """Commands to many runs."""
        self.kill_switch = KillSwitchCalls(connection=self._connection, timeout_s=timeout_s)
        """The calls about the kill switch."""

    @classmethod
    def from_environment(cls, address: str | None = None) -> Self:
        """Makes a client with the address and the token that the environment and the state directory give.

        Raises AddressError and CredentialError; a token that is nowhere to be found is not an error yet.
        """
        found = find_address(address)
        return cls(found, token=find_token(found))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all calls and closes the connection. May be repeated. No run is stopped by it."""
        await self._connection.close()

    # Starting and watching.

    async def start_run(
        self,
        workflow: str | None = None,
        *,
        input: InputValue | None = None,  # noqa: A002 - the field's own name
        request_id: str | None = None,
        **options: Unpack[StartOptions],
    ) -> wire.StartRunResponse:
        """Starts a run of a named or inline workflow; returns when it is durable.

        Takes the `StartOptions` as keywords: `inline_yaml` with its `files` in place of a name, `labels`,
        `bounds`, `deadline`, `start_delay`, `on_question`, `subject`, `thread_id` with `on_busy`. Raises
        TypeError for any other, ThreadBusy if the thread has an active run and `on_busy` says nothing of it.
        The answer's `disposition` says what became of the start.

        A repeat with the same `request_id` and content returns the same run; RequestIdReused for another
        content.
        """
        request = start_request(workflow, input, request_id, options)
        return await self._connection.call(self._connection.runs.StartRun, request, timeout_s=self._timeout_s)

    async def fork_run(
        self,
        run_id: str,
        sequence: int,
        *,
        request_id: str | None = None,
        **options: Unpack[ForkOptions],
    ) -> wire.ForkRunResponse:
        """Starts a new run from the first events of another, up to `sequence`; returns when it is durable.

        Takes the `ForkOptions` as keywords: `workflow`, `bounds`, `labels`, `steer`, `deadline`. Raises
        TypeError for any other, ForkPoint where no fork can be made, PrefixMisfit if the events do not fit
        the workflow. A repeat with the same `request_id` and content returns the same run.
        """
        request = fork_request(run_id, sequence, request_id, options)
        return await self._connection.call(self._connection.runs.ForkRun, request, timeout_s=self._timeout_s)

    def watch(  # noqa: PLR0913 - one for each part of the request
        self,
        run_id: str,
        *,
        after_sequence: int = 0,
        view: View.ValueType = View.VIEW_METADATA,
        deltas: bool = False,
        progress: bool = False,
        kinds: Sequence[str] = (),
        children: bool = False,
        positions: Mapping[str, int] | None = None,
        owner_grace_s: float | None = None,
        on_cut: Callable[[Cut], None] | None = None,
    ) -> AsyncGenerator[Frame]:
        """Yields the run's events after `after_sequence`, follows it, and ends after its last event only.

        `deltas` are of what models say and of how far tool calls are; `progress` of the second alone, in the
        view METADATA without words.

        `kinds` leaves out all other events but the last: names of members of `StepEvent.fact`, such as
        `tool_call_finished`.

        With `children` the events of the runs that it starts come too, and of those that these start, each
        with its own `run_id`; the last event of all of them ends it. `positions` are those of an earlier
        frame, to go on after.

        With `owner_grace_s` this is an owner of the run: it is aborted once all of its owners have been away
        for longer. That needs the scope `runs:control`.

        Resumes by itself where it was, for as long as the client's `WatchPolicy` says; `on_cut` is called
        before each attempt to. Raises StreamCut when that does not help, SequenceBroken for a hole or a
        repeated event. Leave it early inside `contextlib.aclosing`, which ends the stream at once.
        """
        connection = self._connection
        watch = Watch(
            request=wire.StreamProgressRequest(
                run_id=run_id,
                after_sequence=after_sequence,
                view=view,
                include_deltas=deltas,
                include_progress=progress,
                kinds=kinds,
                include_children=children,
                positions=positions,
                owner=None if owner_grace_s is None else wire.StreamOwner(grace=_duration(owner_grace_s)),
            ),
            open_stream=lambda request: connection.streams.StreamProgress(
                request, metadata=connection.metadata
            ),
            is_over=lambda position: self._is_over(run_id, position),
            policy=self._watch_policy,
            on_cut=on_cut,
        )
        return watch.frames()

    async def _is_over(self, run_id: str, position: int) -> bool:
        run = await self.get_run(run_id)
        return run.state in TERMINAL_STATES and run.head_sequence == position

    # Commands.

    async def pause(self, run_id: str, **options: Unpack[ControlOptions]) -> wire.ControlResponse:
        """Holds the run before its next call. A paused run stays paused."""
        request = control_request(run_id, options, method="pause")
        request.pause.SetInParent()
        return await self._control(request, options)

    async def resume(self, run_id: str, **options: Unpack[ControlOptions]) -> wire.ControlResponse:
        """Lets a paused run go on. A running run is left as it is."""
        request = control_request(run_id, options, method="resume")
        request.resume.SetInParent()
        return await self._control(request, options)

    async def steer(self, run_id: str, text: str, **options: Unpack[ControlOptions]) -> wire.ControlResponse:
        """Puts guidance into the conversation, as a marked message of the user's role."""
        request = control_request(run_id, options, method="steer")
        request.steer.CopyFrom(SteerCommand(text=text))
        return await self._control(request, options)

    async def abort(
        self,
        run_id: str,
        *,
        graceful: bool = False,
        skip_routes: bool = False,
        **options: Unpack[ControlOptions],
    ) -> wire.ControlResponse:
        """Ends the run at once, or at its next boundary. Aborting a finished run changes nothing."""
        request = control_request(run_id, options, method="abort")
        mode = AbortMode.ABORT_MODE_GRACEFUL if graceful else AbortMode.ABORT_MODE_NOW
        request.abort.CopyFrom(AbortCommand(mode=mode, skip_routes=skip_routes))
        return await self._control(request, options)

    async def answer(
        self,
        run_id: str,
        interrupt_id: str,
        option: str,
        *,
        text: str = "",
        **options: Unpack[ControlOptions],
    ) -> wire.ControlResponse:
        """Answers an open interrupt with one of its options."""
        request = control_request(run_id, options, method="answer")
        request.answer.CopyFrom(AnswerCommand(interrupt_id=interrupt_id, option=option, text=text))
        return await self._control(request, options)

    async def approve(
        self, run_id: str, interrupt_id: str, arguments_digest: str, **options: Unpack[ControlOptions]
    ) -> wire.ControlResponse:
        """Lets a call start, once, that waits for it.

        `arguments_digest` is the interrupt's, as it was shown. Raises ArgumentsChanged if that is not what it
        asks about, OwnRun for whoever started the run unless the operator lets them, and AlreadyDecided or
        InterruptExpired if it is too late. Needs the scope `runs:approve`.
        """
        request = control_request(run_id, options, method="approve")
        request.approve.CopyFrom(ApproveCommand(interrupt_id=interrupt_id, arguments_digest=arguments_digest))
        return await self._control(request, options)

    async def edit_and_approve(
        self,
        run_id: str,
        interrupt_id: str,
        arguments_digest: str,
        *,
        arguments: InputValue,
        **options: Unpack[ControlOptions],
    ) -> wire.ControlResponse:
        """Lets a call start with other arguments than those shown.

        As `approve`. Raises InvalidAnswer if the call can't have them; it still waits then.
        """
        request = control_request(run_id, options, method="edit_and_approve")
        request.edit_and_approve.CopyFrom(
            EditAndApproveCommand(
                interrupt_id=interrupt_id,
                arguments_digest=arguments_digest,
                arguments_json=json_bytes(arguments),
            )
        )
        return await self._control(request, options)

    async def reject(
        self, run_id: str, interrupt_id: str, *, text: str = "", **options: Unpack[ControlOptions]
    ) -> wire.ControlResponse:
        """Does not let a call start; the model is told so, with `text`, and the run goes on."""
        request = control_request(run_id, options, method="reject")
        request.reject.CopyFrom(RejectCommand(interrupt_id=interrupt_id, text=text))
        return await self._control(request, options)

    async def submit_tool_result(
        self,
        run_id: str,
        call_id: str,
        *,
        output: InputValue | None = None,
        error: str | None = None,
        **options: Unpack[ControlOptions],
    ) -> wire.ControlResponse:
        """Says what a tool call whose outcome is unknown returned: either its `output` or its `error`."""
        if (output is None) == (error is None):
            raise ValueError("give either output or error")
        command = SubmitToolResultCommand(call_id=call_id)
        if output is not None:
            command.output_json = json_bytes(output)
        elif error is not None:
            command.error = error
        request = control_request(run_id, options, method="submit_tool_result")
        request.submit_tool_result.CopyFrom(command)
        return await self._control(request, options)

    async def adjust_bounds(
        self,
        run_id: str,
        *,
        run: RunBounds | None = None,
        visit: VisitBounds | None = None,
        **options: Unpack[ControlOptions],
    ) -> wire.ControlResponse:
        """Changes caps of a live run, and of the visit under way; what is unset stays as it is.

        Needs the scope `runs:bounds`. Raises BoundTooHigh above what the workflow or the operator allows,
        BoundTooLow below what is spent already, NoBoundedVisit where no visit has bounds.
        """
        request = control_request(run_id, options, method="adjust_bounds")
        request.adjust_bounds.CopyFrom(AdjustBoundsCommand(run=run, visit=visit))
        return await self._control(request, options)

    async def _control(self, request: wire.ControlRequest, options: ControlOptions) -> wire.ControlResponse:
        timeout_s = options.get("timeout_s", self._timeout_s)
        return await self._connection.call(self._connection.runs.Control, request, timeout_s=timeout_s)

    # Reading runs.

    async def get_run(self, run_id: str, *, view: View.ValueType = View.VIEW_METADATA) -> Run:
        """Reads a run."""
        request = wire.GetRunRequest(run_id=run_id, view=view)
        answer = await self._connection.call(self._connection.runs.GetRun, request, timeout_s=self._timeout_s)
        return answer.run

    async def wait_run(
        self, run_id: str, *, timeout_s: float = 3600.0, view: View.ValueType = View.VIEW_METADATA
    ) -> wire.WaitRunResponse:
        """Waits at most `timeout_s` seconds for the run to end; `finished` says whether it did."""
        left_s = timeout_s
        while True:
            # In pieces, so that a connection that died unnoticed costs a minute at most.
            piece_s = max(0.0, min(left_s, _WAIT_PIECE_S))
            left_s -= piece_s
            request = wire.WaitRunRequest(run_id=run_id, view=view, timeout=_duration(piece_s))
            answer = await self._connection.call(
                self._connection.runs.WaitRun,
                request,
                timeout_s=piece_s + _WAIT_MARGIN_S,
                is_long=True,
            )
            if answer.finished or left_s <= 0:
                return answer

    def list_runs(self, runs: RunFilter | None = None, *, page_size: int = 0) -> AsyncGenerator[Run]:
        """Yields the runs that match, newest first, page by page."""
        wanted = runs or RunFilter()

        async def page(token: str) -> tuple[Iterable[Run], str]:
            request = wire.ListRunsRequest(
                states=wanted.states,
                workflow=wanted.workflow,
                labels=wanted.labels,
                created_after=timestamp(wanted.created_after) if wanted.created_after else None,
                created_before=timestamp(wanted.created_before) if wanted.created_before else None,
                thread_id=wanted.thread_id,
                parent_run_id=wanted.parent_run_id,
                page_size=page_size,
                page_token=token,
            )
            answer = await self._connection.call(
                self._connection.runs.ListRuns, request, timeout_s=self._timeout_s
            )
            return answer.runs, answer.next_page_token

        return pages(page)

    async def list_tool_calls(
        self, run_id: str, *, view: View.ValueType = View.VIEW_METADATA
    ) -> list[ToolCall]:
        """Lists the tool calls of a run in the order they were asked for."""
        request = wire.ListToolCallsRequest(run_id=run_id, view=view)
        answer = await self._connection.call(
            self._connection.runs.ListToolCalls, request, timeout_s=self._timeout_s
        )
        return list(answer.tool_calls)

    async def tool_call_result(self, run_id: str, call_id: str, *, part: int = 0) -> AsyncGenerator[bytes]:
        """Yields the whole result of a tool call, or its error, piece by piece: UTF-8 text, cut anywhere.

        `call_id` is the call's id, or the handle that a model was shown. Of a result whose end was not kept
        that is its beginning: `ToolCall.cut_from_bytes` and `stored` say so. With `part`, from 1, it is the
        bytes of one of the `ToolCall.media` parts that are no text; none if they were not kept.
        """
        offset, kept = 0, 1
        while offset < kept:
            request = wire.GetToolCallResultRequest(run_id=run_id, call_id=call_id, offset=offset, part=part)
            answer = await self._connection.call(
                self._connection.runs.GetToolCallResult, request, timeout_s=self._timeout_s
            )
            if not answer.data:
                return
            yield answer.data
            offset, kept = offset + len(answer.data), answer.kept_bytes

    async def list_run_messages(self, run_id: str, *, step_id: str = "", visit: int = 0) -> list[RunMessage]:
        """Reads the conversation of one visit of a step as the model saw it; by default the last."""
        request = wire.ListRunMessagesRequest(run_id=run_id, step_id=step_id, visit=visit)
        answer = await self._connection.call(
            self._connection.runs.ListRunMessages, request, timeout_s=self._timeout_s
        )
        return list(answer.messages)

    def list_interrupts(
        self,
        run_id: str = "",
        *,
        children: bool = False,
        kind: InterruptKind.ValueType = InterruptKind.INTERRUPT_KIND_UNSPECIFIED,
        view: View.ValueType = View.VIEW_METADATA,
        page_size: int = 0,
    ) -> AsyncGenerator[Interrupt]:
        """Yields the open interrupts of all runs or of one, oldest first, page by page.

        `children` are those of the living runs below that one as well, `kind` those of a kind alone.
        """

        async def page(token: str) -> tuple[Iterable[Interrupt], str]:
            request = wire.ListInterruptsRequest(
                run_id=run_id,
                include_children=children,
                kind=kind,
                view=view,
                page_size=page_size,
                page_token=token,
            )
            answer = await self._connection.call(
                self._connection.runs.ListInterrupts, request, timeout_s=self._timeout_s
            )
            return answer.interrupts, answer.next_page_token

        return pages(page)

    # Threads.

    def list_threads(self, *, page_size: int = 0) -> AsyncGenerator[Thread]:
        """Yields the threads, newest first, page by page."""

        async def page(token: str) -> tuple[Iterable[Thread], str]:
            request = wire.ListThreadsRequest(page_size=page_size, page_token=token)
            answer = await self._connection.call(
                self._connection.runs.ListThreads, request, timeout_s=self._timeout_s
            )
            return answer.threads, answer.next_page_token

        return pages(page)

    async def get_thread(self, thread_id: str) -> Thread:
        """Reads a thread without its messages; ThreadNotFound if there is none."""
        request = wire.GetThreadRequest(thread_id=thread_id, page_size=1)
        answer = await self._connection.call(
            self._connection.runs.GetThread, request, timeout_s=self._timeout_s
        )
        return answer.thread

    def thread_messages(
        self,
        thread_id: str,
        *,
        view: View.ValueType = View.VIEW_METADATA,
        after_position: int = 0,
        page_size: int = 0,
    ) -> AsyncGenerator[ThreadMessage]:
        """Yields the messages of a thread after a position, oldest first, page by page."""

        async def page(token: str) -> tuple[Iterable[ThreadMessage], str]:
            request = wire.GetThreadRequest(
                thread_id=thread_id,
                view=view,
                after_position=after_position,
                page_size=page_size,
                page_token=token,
            )
            answer = await self._connection.call(
                self._connection.runs.GetThread, request, timeout_s=self._timeout_s
            )
            return answer.messages, answer.next_page_token

        return pages(page)

    async def append_messages(
        self, thread_id: str, *messages: str | NewThreadMessage, request_id: str | None = None
    ) -> wire.AppendMessagesResponse:
        """Adds messages to a thread from outside; a plain text is the user's. They follow an active run's.

        A repeat with the same `request_id` and messages adds nothing; AppendIdReused for other messages.
        """
        request = append_request(thread_id, messages, request_id)
        return await self._connection.call(
            self._connection.runs.AppendMessages, request, timeout_s=self._timeout_s
        )

    async def get_server_info(self) -> wire.GetServerInfoResponse:
        """Says what the server is and what it serves."""
        return await self._connection.call(
            self._connection.runs.GetServerInfo, wire.GetServerInfoRequest(), timeout_s=self._timeout_s
        )

    async def list_connections(self) -> list[connection_wire.Connection]:
        """Lists what the server reaches by its config, by kind and name, and how each does just now."""
        answer = await self._connection.call(
            self._connection.runs.ListConnections,
            connection_wire.ListConnectionsRequest(),
            timeout_s=self._timeout_s,
        )
        return list(answer.connections)

    # Workflows.

    async def validate_workflow(
        self, yaml: str, files: Mapping[str, bytes] | None = None, *, beside: Sequence[str] = ()
    ) -> workflow_wire.ValidateWorkflowResponse:
        """Checks a workflow and stores nothing. `beside` are the texts of workflows that it may run."""
        request = workflow_wire.ValidateWorkflowRequest(
            workflow=inline_workflow(yaml, files), beside=[inline_workflow(text, None) for text in beside]
        )
        return await self._connection.call(
            self._connection.workflows.ValidateWorkflow, request, timeout_s=self._timeout_s
        )

    async def put_workflow(
        self, yaml: str, files: Mapping[str, bytes] | None = None, *, alias: str = "", expect_digest: str = ""
    ) -> workflow_wire.PutWorkflowResponse:
        """Stores a revision and moves an alias to it; AliasMoved if it is not where `expect_digest` says."""
        request = workflow_wire.PutWorkflowRequest(
            workflow=inline_workflow(yaml, files), alias=alias, expect_digest=expect_digest
        )
        return await self._connection.call(
            self._connection.workflows.PutWorkflow, request, timeout_s=self._timeout_s
        )

    async def get_workflow(self, workflow: str) -> workflow_wire.GetWorkflowResponse:
        """Reads a revision (`name`, `name@alias` or `name@digest`) with its files."""
        request = workflow_wire.GetWorkflowRequest(workflow=workflow)
        return await self._connection.call(
            self._connection.workflows.GetWorkflow, request, timeout_s=self._timeout_s
        )

    def list_workflows(self, *, page_size: int = 0) -> AsyncGenerator[workflow_wire.Revision]:
        """Yields the latest revision of each workflow by name, page by page."""

        async def page(token: str) -> tuple[Iterable[workflow_wire.Revision], str]:
            request = workflow_wire.ListWorkflowsRequest(page_size=page_size, page_token=token)
            answer = await self._connection.call(
                self._connection.workflows.ListWorkflows, request, timeout_s=self._timeout_s
            )
            return answer.revisions, answer.next_page_token

        return pages(page)

    async def describe_workflow(self, workflow: str) -> workflow_wire.DescribeWorkflowResponse:
        """Describes a revision: its plan, its tools, the most that one run can spend."""
        request = workflow_wire.DescribeWorkflowRequest(workflow=workflow)
        return await self._connection.call(
            self._connection.workflows.DescribeWorkflow, request, timeout_s=self._timeout_s
        )

    # Tool workers.

    async def list_tool_workers(self, pool: str = "") -> list[WorkerPool]:
        """Lists the pools of the server's config by name, or one, and who serves them now.

        Raises WorkerPoolNotFound if there is none of that name.
        """
        request = ListToolWorkersRequest(pool=pool)
        answer = await self._connection.call(
            self._connection.workers.ListToolWorkers, request, timeout_s=self._timeout_s
        )
        return list(answer.pools)


def _duration(seconds: float) -> Duration:
    whole = int(seconds)
    return Duration(seconds=whole, nanos=int((seconds - whole) * 1e9))
