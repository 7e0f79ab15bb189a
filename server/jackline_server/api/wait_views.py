"""Tool calls that wait, as messages: in a run, in a list of its calls, and live."""

from collections.abc import Iterable, Sequence

from jackline.v1 import event_pb2, run_pb2
from jackline_server.codec.enums import TOOL_WAIT_KIND
from jackline_server.codec.values import set_time
from jackline_server.runtime.ports.tool_waits import WaitingCall
from jackline_server.runtime.use_cases import ToolWaiting


def waiting_messages(waits: Iterable[WaitingCall]) -> list[run_pb2.WaitingCall]:
    """As a run has them."""
    return [
        run_pb2.WaitingCall(
            call_id=call.call_id,
            tool=call.tool,
            step_id=call.step_id,
            iteration=call.iteration,
            wait=_wait(call),
        )
        for call in waits
    ]


def set_waits(calls: Sequence[run_pb2.ToolCall], waits: Iterable[WaitingCall]) -> None:
    """Say of each call of a list what it waits for, if it does."""
    waiting = {call.call_id: call for call in waits}
    for message in calls if waiting else ():
        if (call := waiting.get(message.call_id)) is not None:
            message.wait.CopyFrom(_wait(call))


def tool_waiting_message(shown: ToolWaiting) -> event_pb2.ToolWaiting:
    """As a live piece."""
    call = shown.call
    return event_pb2.ToolWaiting(
        call_id=call.call_id, tool=call.tool, wait=None if shown.is_over else _wait(call)
    )


def _wait(call: WaitingCall) -> run_pb2.ToolWait:
    message = run_pb2.ToolWait(
        kind=TOOL_WAIT_KIND.wire[call.wait.what], connection=call.wait.connection, count=call.wait.count
    )
    set_time(message.since, call.since_unix_ms)
    return message
