"""What a driven run takes from its thread, and leaves to it.

Owns both moments: when its turn has come, and its end. The messages of the end are stored first, and named by
the commit that ends the run; the store moves the turn on in that same commit.
"""

from jackline_server.core.facts import MessagesAppended
from jackline_server.core.reading import conversation
from jackline_server.core.state import RunState
from jackline_server.runtime.driving.committing import RETRY_MS
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.store_errors import StoreFull, StoreUnavailable
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import ThreadShare
from jackline_server.runtime.ports.threads import Threads
from jackline_server.runtime.reading.histories import MOST_BYTES, MOST_MESSAGES, Histories


class ThreadShares:
    """The way between driven runs and their threads."""

    def __init__(self, *, threads: Threads, histories: Histories, clock: Clock) -> None:
        self._threads = threads
        self._histories = histories
        self._clock = clock

    async def turn(self, tenant: Tenant, state: RunState) -> MessagesAppended | None:
        """The fact that the turn of a run has come, with what the thread has by now; None if it has not.

        Raises what the store raises.
        """
        thread = state.started.thread
        if thread is None or not state.waits_for_turn:
            return None
        view = await self._threads.newest(tenant, thread.thread_id, limit=MOST_MESSAGES, size=MOST_BYTES)
        if view is None:
            return MessagesAppended(position=0, messages=())
        if view.row.active_run != state.run_id:
            return None
        messages = await self._histories.of_rows(tenant, view.messages)
        return MessagesAppended(position=view.row.messages, messages=messages)

    async def of(self, tenant: Tenant, state: RunState) -> ThreadShare | None:
        """What a run that has ended leaves to its thread, stored; None for a run without one.

        Waits while the store has no room or can't be reached.
        """
        if not state.in_thread:
            return None
        messages = conversation.added(state)
        while True:
            try:
                stored = await self._histories.put(tenant, messages)
            except (StoreFull, StoreUnavailable):
                await self._clock.sleep(RETRY_MS)
                continue
            return ThreadShare(messages=stored, usage=state.usage, cost_micros=state.ledger.cost_micros)
