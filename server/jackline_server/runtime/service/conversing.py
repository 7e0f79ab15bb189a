"""Threads as use cases: list, read, append from outside."""

from collections.abc import Sequence

from jackline_server.core.messages import AssistantMessage, Message, UserMessage
from jackline_server.core.thread_facts import ThreadMessage
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.threads import Appended, Appending, AppendOutcome, ThreadRow, Threads
from jackline_server.runtime.reading.histories import Histories
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import AppendMessages, ThreadPage

MOST_BYTES = 1024 * 1024
"""What the messages of one page come to at most, unless a single one is larger."""


class Conversing:
    """Implements `service.ports.ThreadUseCases`."""

    def __init__(self, *, threads: Threads, histories: Histories, clock: Clock) -> None:
        self._threads = threads
        self._histories = histories
        self._clock = clock

    async def threads(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        """A page of threads, newest first."""
        with refusing_store_errors():
            return await self._threads.page(tenant, before=before, limit=limit)

    async def thread(
        self, tenant: Tenant, thread_id: str, *, after: int, limit: int, content: bool
    ) -> ThreadPage:
        """The thread with a page of its messages."""
        with refusing_store_errors():
            view = await self._threads.after(tenant, thread_id, after, limit=limit, size=MOST_BYTES)
            if view is None:
                raise _not_found(thread_id)
            rows = view.messages
            try:
                read = await self._histories.of_rows(tenant, rows) if content else ()
            except UnknownFact:
                raise _newer(thread_id) from None
        return ThreadPage(row=view.row, messages=rows, content=[_message(one) for one in read])

    async def append(self, request: AppendMessages) -> Appended:
        """Add messages to a thread."""
        tenant = request.caller.tenant
        provenance = f"append:{request.caller.principal}"
        messages: list[Message] = [
            AssistantMessage(text=one.text)
            if one.assistant
            else UserMessage(text=one.text, provenance=provenance)
            for one in request.messages
        ]
        with refusing_store_errors():
            appended = await self._threads.append(
                Appending(
                    tenant=tenant,
                    thread_id=request.thread_id,
                    messages=await self._histories.put(tenant, messages),
                    principal=request.caller.principal,
                    request_id=request.request_id,
                    fingerprint=request.fingerprint,
                    unix_ms=self._clock.unix_ms(),
                )
            )
        if appended.outcome is AppendOutcome.CONFLICT:
            raise Refused(
                Reason.APPEND_ID_REUSED,
                "The request id was used with other messages for this thread. Use a fresh one.",
                metadata={"thread_id": request.thread_id},
            )
        if appended.outcome is AppendOutcome.FULL:
            raise Refused(
                Reason.RUN_LIMIT,
                "Too many messages wait for the end of the active run. Try again after it.",
                metadata={"limit": str(appended.row.pending), "thread_id": request.thread_id},
                retry_after_ms=5_000,
            )
        return appended


def _message(one: ThreadMessage) -> Message:
    if one.message is None:
        raise AssertionError("a message that was read is there")
    return one.message


def _not_found(thread_id: str) -> Refused:
    return Refused(
        Reason.THREAD_NOT_FOUND,
        "There is no such thread. Check the id.",
        metadata={"thread_id": thread_id},
    )


def _newer(thread_id: str) -> Refused:
    return Refused(
        Reason.DATA_VERSION_NEWER,
        "A newer version wrote messages of this thread. Ask a server of that version.",
        metadata={"run_id": "", "thread_id": thread_id},
    )
