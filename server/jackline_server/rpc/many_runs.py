"""RunService: commands to many runs, and the kill switch."""

from jackline.v1 import bulk_control_pb2, kill_switch_pb2
from jackline_server.api.many_runs_requests import read_bulk, read_kill_switch
from jackline_server.api.many_runs_views import bulk_response, switch_response, switched_response
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.run_positions import read_run_position, run_position
from jackline_server.rpc.calls import Call
from jackline_server.runtime.service.ports import KillSwitchUseCases, RunUseCases


class ManyRunsMethods:
    """The unary methods. All raise Refused and DoorRefused."""

    def __init__(self, *, runs: RunUseCases, kill_switch: KillSwitchUseCases, tokens: PageTokens) -> None:
        self._runs = runs
        self._kill_switch = kill_switch
        self._tokens = tokens

    async def bulk_control(
        self, request: bulk_control_pb2.BulkControlRequest, call: Call
    ) -> bulk_control_pb2.BulkControlResponse:
        """BulkControl."""
        before = None
        if request.page_token:
            before = read_run_position(self._tokens.read(call.tenant, request, request.page_token))
        asked = read_bulk(request, caller=call.caller, before=before)
        done = await self._runs.bulk(asked)
        response = bulk_response(done)
        if len(done.results) == asked.query.limit:
            last = done.results[-1].row
            response.next_page_token = self._tokens.make(call.tenant, request, run_position(last))
        return response

    async def kill_switch(
        self, request: kill_switch_pb2.KillSwitchRequest, call: Call
    ) -> kill_switch_pb2.KillSwitchResponse:
        """KillSwitch."""
        act = self._kill_switch.engage if read_kill_switch(request) else self._kill_switch.release
        return switched_response(await act(call.caller, reason=request.reason))

    async def get_kill_switch(
        self, _request: kill_switch_pb2.GetKillSwitchRequest, call: Call
    ) -> kill_switch_pb2.GetKillSwitchResponse:
        """GetKillSwitch."""
        return switch_response(await self._kill_switch.look(call.tenant))
