"""RunService: what is asked of the server itself."""

from jackline.v1 import connection_pb2, run_service_pb2
from jackline_server.api.connection_views import connections_response
from jackline_server.api.server_info import ServerInfo, server_info_message
from jackline_server.rpc.calls import Call
from jackline_server.runtime.connection_views import ConnectionSource


class ServerMethods:
    """The methods that are about no run."""

    def __init__(self, *, info: ServerInfo, connections: ConnectionSource) -> None:
        self._info = info
        self._connections = connections

    async def get_server_info(
        self, _request: run_service_pb2.GetServerInfoRequest, _call: Call
    ) -> run_service_pb2.GetServerInfoResponse:
        """GetServerInfo."""
        return server_info_message(self._info)

    async def list_connections(
        self, _request: connection_pb2.ListConnectionsRequest, _call: Call
    ) -> connection_pb2.ListConnectionsResponse:
        """ListConnections."""
        return connections_response(self._connections.views())
