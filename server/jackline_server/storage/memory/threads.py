"""The Threads role of the memory store, and how runs take their turns in a thread."""

from collections.abc import Sequence

from jackline_server.runtime.ports.command_table import CommandRow, CommandState
from jackline_server.runtime.ports.journal import Append, NewRun
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import AbortOrder, Joining, Turn
from jackline_server.runtime.ports.threads import (
    Appended,
    Appending,
    AppendOutcome,
    SteerDone,
    Steering,
    SteerOutcome,
    ThreadRow,
    ThreadView,
)
from jackline_server.storage.blob_names import THREAD
from jackline_server.storage.memory.blobs import hold, refuse_missing
from jackline_server.storage.memory.tables import MemoryRun, MemoryTables, MemoryThread
from jackline_server.storage.thread_rules import MOST_PENDING, added, within


class MemoryThreads:
    """The Threads role."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def newest(self, tenant: Tenant, thread_id: str, *, limit: int, size: int) -> ThreadView | None:
        """As the port says."""
        thread = self._tables.threads.get((tenant.id, thread_id))
        if thread is None:
            return None
        found = within(reversed(thread.messages[-limit:]), size, least=0)
        return ThreadView(row=thread.row(), messages=found[::-1])

    async def after(
        self, tenant: Tenant, thread_id: str, position: int, *, limit: int, size: int
    ) -> ThreadView | None:
        """As the port says."""
        thread = self._tables.threads.get((tenant.id, thread_id))
        if thread is None:
            return None
        found = within(thread.messages[position : position + limit], size, least=1)
        return ThreadView(row=thread.row(), messages=found)

    async def page(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        """As the port says."""
        found = [thread for thread in self._tables.threads.values() if thread.tenant == tenant]
        found.sort(key=lambda thread: thread.age, reverse=True)
        return [thread.row() for thread in found if before is None or thread.age < before][:limit]

    async def append(self, appending: Appending) -> Appended:
        """As the port says."""
        tables = self._tables
        digests = [message.digest for message in appending.messages]
        refuse_missing(tables, appending.tenant, digests)
        thread = _thread(tables, appending.tenant, appending.thread_id, unix_ms=appending.unix_ms)
        known = thread.requests.get(appending.request_id) if appending.request_id else None
        if known is not None:
            same = known == appending.fingerprint
            outcome = AppendOutcome.REPEATED if same else AppendOutcome.CONFLICT
            return Appended(outcome=outcome, row=thread.row())
        if thread.active and len(thread.pending) + len(digests) > MOST_PENDING:
            return Appended(outcome=AppendOutcome.FULL, row=thread.row())
        if appending.request_id:
            thread.requests[appending.request_id] = appending.fingerprint
        hold(tables, appending.tenant, digests, kind=THREAD, holder=appending.thread_id)
        if thread.active:
            thread.pending.extend((message, appending.principal) for message in appending.messages)
            thread.changed_unix_ms = appending.unix_ms
            return Appended(outcome=AppendOutcome.PENDING, row=thread.row())
        thread.add(appending.messages, principal=appending.principal, unix_ms=appending.unix_ms)
        return Appended(outcome=AppendOutcome.ADDED, row=thread.row())

    async def steer(self, steering: Steering) -> SteerDone:
        """As the port says."""
        tables, run_id = self._tables, steering.run_id
        request = (steering.tenant.id, steering.request_id)
        known = tables.requests.get(request) if steering.request_id else None
        if known is not None:
            same = known[1] == steering.fingerprint
            return SteerDone(
                outcome=SteerOutcome.DUPLICATE if same else SteerOutcome.CONFLICT, run_id=known[0]
            )
        thread = tables.threads.get((steering.tenant.id, steering.thread_id))
        if thread is None or thread.active != run_id:
            return SteerDone(outcome=SteerOutcome.MOVED, run_id=run_id)
        run = tables.runs[run_id]
        if len(run.pending()) >= steering.limit:
            return SteerDone(outcome=SteerOutcome.FULL, run_id=run_id)
        if steering.request_id:
            tables.requests[request] = (run_id, steering.fingerprint)
        _order(run, AbortOrder(command_id=steering.command_id, payload=steering.payload))
        return SteerDone(outcome=SteerOutcome.ACCEPTED, run_id=run_id)


def can_join(tables: MemoryTables, tenant: Tenant, joining: Joining) -> bool:
    """True if the thread is as the new run was drafted for."""
    thread = tables.threads.get((tenant.id, joining.thread_id))
    if joining.turn is not Turn.NOW:
        return thread is not None and bool(thread.active)
    position = 0 if thread is None else len(thread.messages)
    return (thread is None or not thread.active) and position == joining.position


def join(tables: MemoryTables, run: MemoryRun, new: NewRun, joining: Joining) -> None:
    """Give a run that was just created its place; `can_join` was true."""
    thread = _thread(tables, new.tenant, joining.thread_id, unix_ms=new.created_unix_ms)
    run.thread = joining.thread_id
    thread.changed_unix_ms = new.created_unix_ms
    if joining.turn is Turn.NOW:
        thread.active = new.run_id
        return
    run.waits_for_turn = True
    if joining.turn is Turn.LAST:
        thread.waiting.append(new.run_id)
        return
    run.replaces = True
    replaced = [thread.active, *(one for one in thread.waiting if tables.runs[one].replaces)]
    thread.waiting.insert(0, new.run_id)
    if joining.abort is not None:
        for run_id in replaced:
            _order(tables.runs[run_id], joining.abort)


def left_behind(append: Append) -> list[str]:
    """The digests that a run leaves to its thread."""
    return [] if append.thread is None else [message.digest for message in append.thread.messages]


def leave(tables: MemoryTables, run: MemoryRun, append: Append) -> None:
    """End the turn of a run that has ended, and begin the next one's. Its blobs are there."""
    thread = tables.threads.get((run.new.tenant.id, run.thread))
    if thread is None:
        return
    run_id, share = run.new.run_id, append.thread
    unix_ms = append.finished_unix_ms or tables.clock.unix_ms()
    if share is not None:
        thread.ended += 1
        thread.usage = added(thread.usage, share.usage)
        thread.cost_micros += share.cost_micros
    thread.changed_unix_ms = unix_ms
    if thread.active != run_id:
        thread.waiting.remove(run_id)
        run.waits_for_turn = False
        return
    if share is not None:
        hold(tables, run.new.tenant, left_behind(append), kind=THREAD, holder=run.thread)
        thread.add(share.messages, run_id=run_id, unix_ms=unix_ms)
    for message, principal in thread.pending:
        thread.add([message], principal=principal, unix_ms=unix_ms)
    thread.pending.clear()
    thread.active = thread.waiting.pop(0) if thread.waiting else ""
    if thread.active:
        tables.runs[thread.active].waits_for_turn = False


def _thread(tables: MemoryTables, tenant: Tenant, thread_id: str, *, unix_ms: int) -> MemoryThread:
    thread = tables.threads.get((tenant.id, thread_id))
    if thread is None:
        thread = tables.threads[tenant.id, thread_id] = MemoryThread(
            tenant=tenant, thread_id=thread_id, created_unix_ms=unix_ms, changed_unix_ms=unix_ms
        )
    return thread


def _order(run: MemoryRun, order: AbortOrder) -> None:
    if order.command_id in run.commands:
        return
    run.commands[order.command_id] = CommandRow(
        command_id=order.command_id,
        ordinal=len(run.commands) + 1,
        payload=order.payload,
        state=CommandState.PENDING,
        sequence=0,
        rejection="",
    )
