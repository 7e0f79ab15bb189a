"""Requests about threads: what each field must be, and what the use case is then asked.

All raise DoorRefused (INVALID_REQUEST, FIELD_TOO_LARGE) with every violation at once.
"""

from jackline.v1 import run_pb2, run_service_pb2, thread_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.fingerprints import append_fingerprint
from jackline_server.api.limits import LIMITS
from jackline_server.runtime.use_cases import AppendMessages, Caller, OnBusy, TextMessage, ThreadRequest

_ON_BUSY = {
    thread_pb2.ON_BUSY_UNSPECIFIED: OnBusy.REJECT,
    thread_pb2.ON_BUSY_REJECT: OnBusy.REJECT,
    thread_pb2.ON_BUSY_ENQUEUE: OnBusy.ENQUEUE,
    thread_pb2.ON_BUSY_STEER: OnBusy.STEER,
    thread_pb2.ON_BUSY_REPLACE: OnBusy.REPLACE,
}
_WHY_NOT = {
    run_pb2.MESSAGE_ROLE_UNSPECIFIED: "required: USER or ASSISTANT",
    run_pb2.MESSAGE_ROLE_SYSTEM: "must be USER or ASSISTANT: only a workflow speaks as SYSTEM",
    run_pb2.MESSAGE_ROLE_TOOL: "must be USER or ASSISTANT: a result of a TOOL belongs to a call of a run",
}


def read_thread(checks: Checks, request: run_service_pb2.StartRunRequest) -> ThreadRequest | None:
    """The thread that a start is to continue; None without one."""
    checks.name("thread_id", request.thread_id, required=False)
    if not request.thread_id:
        if request.on_busy:
            checks.fail("on_busy", "only with a thread_id", "WITHOUT_THREAD")
        return None
    on_busy = _ON_BUSY.get(request.on_busy, OnBusy.REJECT)  # another value was noted by `well_formed`
    return ThreadRequest(thread_id=request.thread_id, on_busy=on_busy)


def read_threads_page(request: run_service_pb2.ListThreadsRequest) -> int:
    """How many threads to answer with."""
    checks = Checks()
    checks.well_formed(request)
    limit = checks.page_size("page_size", request.page_size)
    checks.finish()
    return limit


def read_get_thread(request: run_service_pb2.GetThreadRequest) -> int:
    """How many messages to answer with."""
    checks = Checks()
    checks.well_formed(request)
    checks.name("thread_id", request.thread_id)
    checks.sequence("after_position", request.after_position)
    limit = checks.page_size("page_size", request.page_size)
    checks.finish()
    return limit


def read_append(request: run_service_pb2.AppendMessagesRequest, *, caller: Caller) -> AppendMessages:
    """Messages to append, with their fingerprint."""
    checks = Checks()
    checks.well_formed(request)
    checks.name("thread_id", request.thread_id)
    checks.idempotency_key("request_id", request.request_id)
    if not request.messages:
        checks.fail("messages", "required: at least one", "REQUIRED")
    for index, message in enumerate(request.messages):
        _check_message(checks, f"messages[{index}]", message)
    checks.finish()
    return AppendMessages(
        caller=caller,
        thread_id=request.thread_id,
        messages=[
            TextMessage(assistant=one.role == run_pb2.MESSAGE_ROLE_ASSISTANT, text=one.text)
            for one in request.messages
        ],
        request_id=request.request_id,
        fingerprint=append_fingerprint(request),
    )


def _check_message(checks: Checks, here: str, message: thread_pb2.NewThreadMessage) -> None:
    why_not = _WHY_NOT.get(message.role)
    if why_not is not None:
        checks.fail(f"{here}.role", why_not, "ROLE")
    checks.text(f"{here}.text", message.text, LIMITS.thread_message_bytes, required=True)
