"""RunService: each method checks, asks a use case, and shows the answer."""

from jackline.v1 import run_service_pb2
from jackline_server.api.fork_requests import read_fork
from jackline_server.api.interrupt_pages import list_interrupts
from jackline_server.api.limits import LIMITS
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.run_positions import read_run_position, run_position
from jackline_server.api.run_requests import (
    check_messages,
    check_result,
    check_run,
    read_control,
    read_runs_query,
    read_start,
    read_wait,
)
from jackline_server.api.views import (
    control_response,
    fork_response,
    is_full,
    messages_response,
    run_of_row,
    run_of_snapshot,
    start_response,
)
from jackline_server.api.wait_views import set_waits
from jackline_server.codec.run_view import tool_call_messages
from jackline_server.rpc.calls import Call
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.service.ports import RunUseCases


class RunMethods:
    """The unary methods. All raise Refused and DoorRefused."""

    def __init__(self, *, runs: RunUseCases, tokens: PageTokens, clock: Clock) -> None:
        self._runs = runs
        self._tokens = tokens
        self._clock = clock

    async def start_run(
        self, request: run_service_pb2.StartRunRequest, call: Call
    ) -> run_service_pb2.StartRunResponse:
        """StartRun."""
        asked = read_start(request, caller=call.caller, now_unix_ms=self._clock.unix_ms())
        return start_response(await self._runs.start(asked))

    async def fork_run(
        self, request: run_service_pb2.ForkRunRequest, call: Call
    ) -> run_service_pb2.ForkRunResponse:
        """ForkRun."""
        asked = read_fork(request, caller=call.caller, now_unix_ms=self._clock.unix_ms())
        return fork_response(await self._runs.fork(asked))

    async def control(
        self, request: run_service_pb2.ControlRequest, call: Call
    ) -> run_service_pb2.ControlResponse:
        """Control."""
        asked = read_control(request, caller=call.caller, remaining_ms=call.remaining_ms)
        return control_response(await self._runs.control(asked))

    async def get_run(
        self, request: run_service_pb2.GetRunRequest, call: Call
    ) -> run_service_pb2.GetRunResponse:
        """GetRun."""
        check_run(request)
        snapshot = await self._runs.get(call.tenant, request.run_id)
        return run_service_pb2.GetRunResponse(run=run_of_snapshot(snapshot, full=is_full(request.view)))

    async def wait_run(
        self, request: run_service_pb2.WaitRunRequest, call: Call
    ) -> run_service_pb2.WaitRunResponse:
        """WaitRun."""
        timeout_ms = read_wait(request, remaining_ms=call.remaining_ms)
        snapshot = await self._runs.wait(call.tenant, request.run_id, timeout_ms=timeout_ms)
        return run_service_pb2.WaitRunResponse(
            run=run_of_snapshot(snapshot, full=is_full(request.view)),
            finished=snapshot.state.phase.terminal,
        )

    async def list_runs(
        self, request: run_service_pb2.ListRunsRequest, call: Call
    ) -> run_service_pb2.ListRunsResponse:
        """ListRuns."""
        query = read_runs_query(request, tenant=call.tenant, before=self._before(request, call))
        page = await self._runs.page(query)
        response = run_service_pb2.ListRunsResponse(
            runs=[run_of_row(row) for row in page.rows], total_size=page.total
        )
        if len(page.rows) == query.limit:
            last = page.rows[-1]
            response.next_page_token = self._tokens.make(call.tenant, request, run_position(last))
        return response

    def _before(self, request: run_service_pb2.ListRunsRequest, call: Call) -> tuple[int, str] | None:
        if not request.page_token:
            return None
        return read_run_position(self._tokens.read(call.tenant, request, request.page_token))

    async def list_tool_calls(
        self, request: run_service_pb2.ListToolCallsRequest, call: Call
    ) -> run_service_pb2.ListToolCallsResponse:
        """ListToolCalls."""
        check_run(request)
        snapshot = await self._runs.get(call.tenant, request.run_id)
        calls = tool_call_messages(snapshot.state, full=is_full(request.view))
        set_waits(calls, snapshot.waits)
        return run_service_pb2.ListToolCallsResponse(tool_calls=calls)

    async def get_tool_call_result(
        self, request: run_service_pb2.GetToolCallResultRequest, call: Call
    ) -> run_service_pb2.GetToolCallResultResponse:
        """GetToolCallResult."""
        check_result(request)
        part = await self._runs.result(
            call.tenant,
            request.run_id,
            request.call_id,
            part=request.part,
            offset=request.offset,
            limit=LIMITS.result_bytes,
        )
        return run_service_pb2.GetToolCallResultResponse(
            data=part.data,
            total_bytes=part.total_bytes,
            kept_bytes=part.kept_bytes,
            media_type=part.media_type,
            complete=part.kept_bytes == part.total_bytes,
        )

    async def list_run_messages(
        self, request: run_service_pb2.ListRunMessagesRequest, call: Call
    ) -> run_service_pb2.ListRunMessagesResponse:
        """ListRunMessages."""
        check_messages(request)
        messages = await self._runs.messages(
            call.tenant, request.run_id, step_id=request.step_id, visit=request.visit
        )
        return messages_response(messages)

    async def list_interrupts(
        self, request: run_service_pb2.ListInterruptsRequest, call: Call
    ) -> run_service_pb2.ListInterruptsResponse:
        """ListInterrupts."""
        return await list_interrupts(self._runs, self._tokens, call.tenant, request)
