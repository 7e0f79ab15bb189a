"""`jackline connections`, and what calls wait for in `get`, `calls`, `explain` and `watch`."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import connection_pb2
from jackline.v1 import run_service_pb2 as wire
from jackline.v1.event_pb2 import Delta, ToolWaiting
from jackline.v1.run_pb2 import Run, ToolCall, ToolCallStatus, ToolWait, ToolWaitKind, WaitingCall
from jackline_client.cli.waits import LiveWaits, wait_words
from tests.cli.console import Console
from tests.cli.test_runs import refund_log
from tests.support.scripted_service import (
    RUN_ID,
    ScriptedService,
    StreamScript,
    ended_run,
    frame_of,
)

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e"
WORKER = ToolWait(
    kind=ToolWaitKind.TOOL_WAIT_KIND_WORKER, connection="depot", since=Timestamp(seconds=1_700_000_000)
)


def connection(name: str, state: str, **more: object) -> connection_pb2.Connection:
    return connection_pb2.Connection(
        name=name,
        kind=connection_pb2.CONNECTION_KIND_HTTP,
        state=connection_pb2.ConnectionState.Value(f"CONNECTION_STATE_{state}"),
        concurrency=4,
        **more,  # pyright: ignore[reportArgumentType] - the fields of the test
    )


async def test_connections_tell_of_each_how_it_does(console: Console, service: ScriptedService) -> None:
    left = Duration(seconds=25)
    pool = connection_pb2.PoolSummary(connected_count=2, places_count=8, taken_count=3, draining_count=1)
    found = [
        connection("orders", "LEFT_ALONE", failure_count=5, breaker_failures=5, left_alone=left),
        connection("notes", "FAILED", failure_count=1, problem="Nobody answers there." + HOSTILE),
        connection("slow", "READY", in_flight_count=4, waiting_count=7, calls_per_minute=60, calls_left=0),
        connection("depot", "READY", pool=pool),
        connection("new", "UNUSED"),
    ]
    service.script("ListConnections", connection_pb2.ListConnectionsResponse(connections=found))
    done = await console.run("connections")
    assert done.code == 0
    assert not done.hidden_bytes
    rows = {line.split()[0]: " ".join(line.split()) for line in done.out.splitlines()}
    assert "left alone 0/4 0 for 25 s more, 5 of 5 failures in a row" in rows["orders"]
    assert "Nobody answers there." in rows["notes"]
    assert "ready 4/4 7 0/60" in rows["slow"]
    assert "2 workers, 3 of 8 places taken, 1 leaving" in rows["depot"]
    assert "unused" in rows["new"]


async def test_get_calls_and_explain_say_what_a_call_waits_for(
    console: Console, service: ScriptedService
) -> None:
    run = Run(
        run_id=RUN_ID,
        workflow="refunds",
        waiting_calls=[WaitingCall(call_id="call_1", tool="look" + HOSTILE, step_id="s", wait=WORKER)],
    )
    call = ToolCall(
        call_id="call_1", tool="look", status=ToolCallStatus.TOOL_CALL_STATUS_STARTED, attempts=1, wait=WORKER
    )
    service.script("GetRun", *[wire.GetRunResponse(run=run)] * 3)
    service.script("ListToolCalls", wire.ListToolCallsResponse(tool_calls=[call]))
    words = "waits for a worker of pool depot (0 connected)"
    for command in ("get", "calls", "explain"):
        done = await console.run(command, RUN_ID)
        assert words in done.out, command
        assert not done.hidden_bytes


async def test_a_call_tells_how_much_of_its_time_it_waited(
    console: Console, service: ScriptedService
) -> None:
    call = ToolCall(
        call_id="call_1",
        tool="look",
        status=ToolCallStatus.TOOL_CALL_STATUS_COMPLETED,
        duration=Duration(seconds=2),
        waited=Duration(nanos=1_500_000_000 % 1_000_000_000, seconds=1),
    )
    service.script("ListToolCalls", wire.ListToolCallsResponse(tool_calls=[call]))
    done = await console.run("calls", RUN_ID)
    assert "2,000 ms, 1,500 ms of it waiting" in done.out


async def test_a_terminal_shows_what_a_call_waits_for_while_it_does(
    console: Console, service: ScriptedService
) -> None:
    service.log = refund_log()
    waits = Delta(tool_waiting=ToolWaiting(call_id="call_9", tool="look" + HOSTILE, wait=WORKER))
    live = wire.StreamProgressResponse(deltas=[waits], sent_through=3)
    service.streams.append(
        StreamScript(frames=[frame_of(*service.log[:3]), live, frame_of(*service.log[3:])])
    )
    service.script("GetRun", ended_run(service.log))
    done = await console.on_terminal("watch", RUN_ID)
    assert done.code == 0
    assert b"waits for a worker of pool depot (0 connected)" in done.raw
    assert b"\x1b]0;owned" not in done.raw


def test_each_wait_has_its_words() -> None:
    words = {
        ToolWaitKind.TOOL_WAIT_KIND_PLACE: "a place of connection x (4 of 4 busy)",
        ToolWaitKind.TOOL_WAIT_KIND_RATE: "the rate of connection x (4 a minute)",
        ToolWaitKind.TOOL_WAIT_KIND_WORKER: "a worker of pool x (4 connected, none serves the tool)",
        ToolWaitKind.TOOL_WAIT_KIND_WORKER_PLACE: "a place of a worker of pool x (4 workers, all busy)",
        ToolWaitKind.TOOL_WAIT_KIND_UNSPECIFIED: "connection x",
    }
    for kind in ToolWaitKind.values():
        assert wait_words(ToolWait(kind=kind, connection="x", count=4)) == words[kind]


def test_a_wait_is_shown_until_the_stream_says_that_it_is_over() -> None:
    waits = LiveWaits()
    for number in range(5):
        waits.delta(Delta(tool_waiting=ToolWaiting(call_id=str(number), tool="look", wait=WORKER)))
    assert waits.text.endswith("; 2 more)")
    for number in range(4):
        waits.delta(Delta(tool_waiting=ToolWaiting(call_id=str(number), tool="look")))
    assert waits.text == "(look waits for a worker of pool depot (0 connected))"
    waits.forget()
    assert waits.text == ""
