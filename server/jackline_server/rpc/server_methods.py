"""RunService: what is asked of the server itself."""

from contextlib import suppress

from jackline.v1 import connection_pb2, run_service_pb2
from jackline_server.api.connection_views import connections_response
from jackline_server.api.server_info import ServerInfo, server_info_message
from jackline_server.rpc.calls import Call
from jackline_server.runtime.ports.connection_views import ConnectionSource
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.service.ports import KillSwitchUseCases


class ServerMethods:
    """The methods that are about no run."""

    def __init__(
        self, *, info: ServerInfo, connections: ConnectionSource, kill_switch: KillSwitchUseCases
    ) -> None:
        self._info = info
        self._connections = connections
        self._kill_switch = kill_switch

    async def get_server_info(
        self, _request: run_service_pb2.GetServerInfoRequest, call: Call
    ) -> run_service_pb2.GetServerInfoResponse:
        """GetServerInfo. A store that can't be asked leaves out what it alone knows."""
        response = server_info_message(self._info)
        with suppress(Refused):
            response.kill_switch_engaged = await self._kill_switch.engaged(call.tenant)
        return response

    async def list_connections(
        self, _request: connection_pb2.ListConnectionsRequest, _call: Call
    ) -> connection_pb2.ListConnectionsResponse:
        """ListConnections."""
        return connections_response(self._connections.views())
