"""ListConnections, and the waits of tool calls as GetRun, ListToolCalls and a stream tell them."""

from typing import Any

import grpc

from jackline.v1 import connection_pb2 as wire
from jackline.v1 import run_pb2
from jackline_server.api.connection_views import connections_response
from jackline_server.api.wait_views import set_waits, tool_waiting_message, waiting_messages
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.connection_views import (
    ConnectionKind,
    Connections,
    ConnectionState,
    ConnectionView,
)
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitFor, WaitingCall
from jackline_server.runtime.use_cases import ToolWaiting
from tests.rpc.harness import Harness, token_for
from tests.tools.worker.scene import POOL

LIST = "ListConnections"


class Some:
    """A source with these connections."""

    def __init__(self, *views: ConnectionView) -> None:
        self._views = views

    def views(self) -> tuple[ConnectionView, ...]:
        return self._views


def view(name: str, kind: ConnectionKind = ConnectionKind.HTTP, **more: Any) -> ConnectionView:
    fields: dict[str, Any] = {"state": ConnectionState.READY, "concurrency": 4, **more}
    return ConnectionView(name=name, kind=kind, **fields)


async def test_a_pool_that_nobody_serves_is_listed_to_whoever_reads_workflows(door: Harness) -> None:
    answer = await door.ask(
        LIST,
        wire.ListConnectionsRequest(),
        wire.ListConnectionsResponse,
        token=token_for(Scope.WORKFLOWS_READ),
    )
    (one,) = answer.connections
    assert (one.name, one.kind, one.state) == (
        POOL,
        wire.CONNECTION_KIND_WORKER,
        wire.CONNECTION_STATE_NO_WORKER,
    )
    assert one.HasField("pool")
    assert one.pool.connected_count == 0


async def test_connections_are_for_those_who_read_workflows(door: Harness) -> None:
    found = await door.refused(LIST, wire.ListConnectionsRequest(), token=token_for(Scope.RUNS_OBSERVE))
    assert (found.code, found.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SCOPE_MISSING")


def test_connections_come_by_kind_and_name_and_what_a_problem_says_is_veiled() -> None:
    failed = view("orders", problem="it said hunter2", state=ConnectionState.FAILED)
    sources = (
        Some(view("slow", ConnectionKind.MODEL), view("fast", ConnectionKind.MODEL)),
        Some(view("records", ConnectionKind.MCP)),
        Some(view("zoo"), failed),
    )
    views = Connections(*sources, veil=lambda text: text.replace("hunter2", "***")).views()
    assert [one.name for one in views] == ["orders", "zoo", "records", "fast", "slow"]
    assert views[0].problem == "it said ***"


def test_what_is_unknown_of_a_connection_is_unset() -> None:
    without = view("a")
    (bare,) = connections_response([without]).connections
    fields = ("calls_per_minute", "calls_left", "left_alone", "pool")
    assert [bare.HasField(name) for name in fields] == [False] * 4
    (full,) = connections_response(
        [view("a", calls_per_minute=60, calls_left=0, left_alone_ms=1_500)]
    ).connections
    assert (full.calls_per_minute, full.HasField("calls_left"), full.calls_left) == (60, True, 0)
    assert full.left_alone.ToMilliseconds() == 1_500


def test_a_wait_is_told_alike_of_a_run_of_its_calls_and_live() -> None:
    waits = ToolWait(what=WaitFor.WORKER, connection=POOL, count=0)
    call = WaitingCall(
        call_id="call_2", tool="look", step_id="s", iteration=1, since_unix_ms=1_700_000_000_500, wait=waits
    )
    (of_run,) = waiting_messages([call])
    calls = [run_pb2.ToolCall(call_id="call_1"), run_pb2.ToolCall(call_id="call_2")]
    set_waits(calls, [call])
    assert [one.HasField("wait") for one in calls] == [False, True]
    live = tool_waiting_message(ToolWaiting(call=call))
    assert of_run.wait == calls[1].wait == live.wait
    assert (live.wait.kind, live.wait.connection) == (run_pb2.TOOL_WAIT_KIND_WORKER, POOL)
    assert live.wait.since.ToMilliseconds() == 1_700_000_000_500
    assert not tool_waiting_message(ToolWaiting(call=call, is_over=True)).HasField("wait")
