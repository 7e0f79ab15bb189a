"""Threads as response messages, in the view that was asked for."""

from jackline.v1 import run_pb2, run_service_pb2, thread_pb2
from jackline_server.codec.messages import run_message
from jackline_server.codec.values import set_time, set_usage
from jackline_server.runtime.ports.threads import Appended, AppendOutcome, MessageRow, ThreadRow
from jackline_server.runtime.use_cases import ThreadPage

_ROLES = {
    "user": run_pb2.MESSAGE_ROLE_USER,
    "assistant": run_pb2.MESSAGE_ROLE_ASSISTANT,
    "tool": run_pb2.MESSAGE_ROLE_TOOL,
}


def thread_message(row: ThreadRow) -> thread_pb2.Thread:
    """The thread without its messages."""
    thread = thread_pb2.Thread(
        thread_id=row.thread_id,
        message_count=row.messages,
        pending_messages=row.pending,
        active_run_id=row.active_run,
        waiting_runs=row.waiting,
        ended_runs=row.ended,
        cost_micros=row.cost_micros,
    )
    set_time(thread.created_at, row.created_unix_ms)
    set_time(thread.changed_at, row.changed_unix_ms)
    set_usage(thread.usage, row.usage)
    return thread


def thread_response(page: ThreadPage) -> run_service_pb2.GetThreadResponse:
    """The thread with a page of its messages, and with what was said if it was read."""
    messages = [_message(row) for row in page.messages]
    for message, content in zip(messages, page.content, strict=False):
        message.message.CopyFrom(run_message(content))
    return run_service_pb2.GetThreadResponse(thread=thread_message(page.row), messages=messages)


def append_response(appended: Appended) -> run_service_pb2.AppendMessagesResponse:
    """The answer to an append."""
    return run_service_pb2.AppendMessagesResponse(
        thread=thread_message(appended.row),
        pending=appended.outcome is AppendOutcome.PENDING,
        repeated_request=appended.outcome is AppendOutcome.REPEATED,
    )


def _message(row: MessageRow) -> thread_pb2.ThreadMessage:
    message = thread_pb2.ThreadMessage(
        position=row.position,
        role=_ROLES.get(row.role, run_pb2.MESSAGE_ROLE_UNSPECIFIED),
        run_id=row.run_id,
        principal=row.principal,
        bytes=row.size,
    )
    set_time(message.added_at, row.added_unix_ms)
    return message
