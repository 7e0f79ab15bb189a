"""How connections do, as messages."""

from collections.abc import Iterable

from google.protobuf.duration_pb2 import Duration

from jackline.v1 import connection_pb2
from jackline_server.codec.enums import EnumTable
from jackline_server.runtime.ports.connection_views import (
    ConnectionKind,
    ConnectionState,
    ConnectionView,
    PoolCounts,
)

_KIND = EnumTable(ConnectionKind, connection_pb2.ConnectionKind, "CONNECTION_KIND")
_STATE = EnumTable(ConnectionState, connection_pb2.ConnectionState, "CONNECTION_STATE")


def connections_response(views: Iterable[ConnectionView]) -> connection_pb2.ListConnectionsResponse:
    """The answer of ListConnections."""
    return connection_pb2.ListConnectionsResponse(connections=[_message(view) for view in views])


def _message(view: ConnectionView) -> connection_pb2.Connection:
    left_alone = Duration()
    left_alone.FromMilliseconds(view.left_alone_ms)
    return connection_pb2.Connection(
        name=view.name,
        kind=_KIND.wire[view.kind],
        state=_STATE.wire[view.state],
        problem=view.problem,
        in_flight_count=view.in_flight,
        concurrency=view.concurrency,
        waiting_count=view.waiting,
        calls_per_minute=view.calls_per_minute,
        calls_left=view.calls_left,
        failure_count=view.failures,
        breaker_failures=view.breaker_failures,
        left_alone=left_alone if view.left_alone_ms else None,
        pool=None if view.pool is None else _pool(view.pool),
    )


def _pool(counts: PoolCounts) -> connection_pb2.PoolSummary:
    return connection_pb2.PoolSummary(
        connected_count=counts.connected,
        draining_count=counts.draining,
        away_count=counts.away,
        places_count=counts.places,
        taken_count=counts.taken,
    )
