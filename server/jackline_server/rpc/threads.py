"""The methods of RunService about threads: each checks, asks a use case, and shows the answer."""

from typing import cast

from jackline.v1 import run_service_pb2
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.thread_requests import read_append, read_get_thread, read_threads_page
from jackline_server.api.thread_views import append_response, thread_message, thread_response
from jackline_server.api.views import is_full
from jackline_server.rpc.calls import Call
from jackline_server.runtime.service.ports import ThreadUseCases


class ThreadMethods:
    """The unary methods. All raise Refused and DoorRefused."""

    def __init__(self, *, threads: ThreadUseCases, tokens: PageTokens) -> None:
        self._threads = threads
        self._tokens = tokens

    async def list_threads(
        self, request: run_service_pb2.ListThreadsRequest, call: Call
    ) -> run_service_pb2.ListThreadsResponse:
        """ListThreads."""
        limit = read_threads_page(request)
        before = None
        if request.page_token:
            position = self._tokens.read(call.tenant, request, request.page_token)
            created_unix_ms, thread_id = cast("tuple[int, str]", position)
            before = created_unix_ms, thread_id
        rows = await self._threads.threads(call.tenant, before=before, limit=limit)
        response = run_service_pb2.ListThreadsResponse(threads=[thread_message(row) for row in rows])
        if len(rows) == limit:
            last = rows[-1]
            response.next_page_token = self._tokens.make(
                call.tenant, request, [last.created_unix_ms, last.thread_id]
            )
        return response

    async def get_thread(
        self, request: run_service_pb2.GetThreadRequest, call: Call
    ) -> run_service_pb2.GetThreadResponse:
        """GetThread."""
        limit, after = read_get_thread(request), request.after_position
        if request.page_token:
            after = cast("int", self._tokens.read(call.tenant, request, request.page_token))
        page = await self._threads.thread(
            call.tenant, request.thread_id, after=after, limit=limit, content=is_full(request.view)
        )
        response = thread_response(page)
        last = page.messages[-1].position if page.messages else page.row.messages
        if last < page.row.messages:
            response.next_page_token = self._tokens.make(call.tenant, request, last)
        return response

    async def append_messages(
        self, request: run_service_pb2.AppendMessagesRequest, call: Call
    ) -> run_service_pb2.AppendMessagesResponse:
        """AppendMessages."""
        return append_response(await self._threads.append(read_append(request, caller=call.caller)))
