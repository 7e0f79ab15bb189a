"""Every pool of the config: who joins which, and what is asked of their tools.

Owns the way in, and the seats. Does not own a pool (`pool`), nor calls (`calls`). A registry is one
process's: a worker serves the runs of the server that it is connected to.
"""

import asyncio
import difflib
from collections.abc import Iterable, Mapping, Sequence

from jackline_server.core.plan import Plan, ToolStep, WorkerAction
from jackline_server.runtime.ports.connection_views import ConnectionView
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.workers import (
    PoolView,
    Registration,
    WorkerConnection,
    WorkerOrder,
    WorkerProgress,
    WorkerResult,
    WorkerSays,
    WorkerSeat,
    WorkerWelcome,
)
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.tools.catalogs import PinnedCatalogs
from jackline_server.tools.worker.offers import SchemaChecker, checked
from jackline_server.tools.worker.pool import Served, WorkerPool
from jackline_server.tools.worker.session import Outbox, Session


class WorkerPools(PinnedCatalogs[WorkerPool]):
    """The pools of a server. Implements `WorkerRegistry`, and `Catalogs` for their steps."""

    def __init__(
        self, connections: Mapping[str, WorkerConnection], *, schemas: SchemaChecker, clock: Clock
    ) -> None:
        """Nobody serves yet."""
        super().__init__({name: WorkerPool(one, clock=clock) for name, one in connections.items()})
        self._schemas = schemas
        self._is_leaving = False

    async def join(self, principal: str, registration: Registration) -> WorkerSeat:
        """See `WorkerRegistry.join`."""
        pool = self._pool(registration.pool, principal)
        # Schemas are parsed: up to some megabytes of them.
        offer = await asyncio.to_thread(checked, registration, pool.connection, self._schemas)
        if self._is_leaving:
            raise Refused(Reason.DRAINING, "The server is going down. Connect again.")
        found = pool.resumed(
            registration.session,
            offer,
            principal=principal,
            named=registration.invocations,
            draining=registration.draining,
        )
        session, outbox = found or pool.join(offer, principal=principal, draining=registration.draining)
        return _Seat(pool, session, outbox, resumed=found is not None)

    def pools(self, name: str = "") -> Sequence[PoolView]:
        """See `WorkerRegistry.pools`."""
        if name and name not in self._links:
            raise _unknown(name, self._links)
        return [self._links[one].view() for one in sorted(self._links) if name in ("", one)]

    def views(self) -> list[ConnectionView]:
        """See `ConnectionSource`."""
        return [pool.connection_view() for pool in self._links.values()]

    def leave(self, *, grace_ms: int) -> None:
        """See `WorkerRegistry.leave`."""
        self._is_leaving = True
        for pool in self._links.values():
            pool.leave(grace_ms=grace_ms)

    async def changed(self, plan: Plan) -> Sequence[str]:
        """The steps whose tool is served now, and by nobody as it was pinned. See `Catalogs.changed`."""
        return sorted(
            step_id
            for step_id, step in plan.steps.items()
            if isinstance(step, ToolStep)
            and isinstance(step.action, WorkerAction)
            and (pool := self._links.get(step.action.connection)) is not None
            and pool.served(step.action.tool, step.action.tool_digest) is Served.CHANGED
        )

    async def close(self) -> None:
        """Wait for nobody any more."""
        self.forget()
        for pool in self._links.values():
            pool.close()

    def _pool(self, name: str, principal: str) -> WorkerPool:
        pool = self._links.get(name)
        allowed = None if pool is None else pool.connection.principals
        if pool is None or (allowed is not None and principal not in allowed):
            raise _unknown(name, self._allowed(principal))
        return pool

    def _allowed(self, principal: str) -> list[str]:
        """The pools that a worker of theirs may join."""
        return [
            name
            for name, pool in self._links.items()
            if (allowed := pool.connection.principals) is None or principal in allowed
        ]


class _Seat:
    """One stream of a session. Implements `WorkerSeat`."""

    def __init__(self, pool: WorkerPool, session: Session, outbox: Outbox, *, resumed: bool) -> None:
        self._pool = pool
        self._session = session
        self._outbox = outbox
        self._resumed = resumed

    @property
    def welcome(self) -> WorkerWelcome:
        connection = self._pool.connection
        return WorkerWelcome(
            session=self._session.token,
            resumed=self._resumed,
            heartbeat_ms=connection.heartbeat_ms,
            resume_grace_ms=connection.resume_grace_ms,
        )

    @property
    def in_flight(self) -> int:
        return len(self._session.flights)

    async def next_order(self) -> WorkerOrder:
        return await self._session.next_order(self._outbox)

    def hear(self, said: WorkerSays) -> None:
        if self._session.outbox is not self._outbox:
            return  # another stream has taken over
        if isinstance(said, WorkerResult):
            self._pool.answered(took=self._session.answer(said))
        elif isinstance(said, WorkerProgress):
            self._session.show(said)
        else:
            self._pool.drained(self._session)

    def end(self, *, leaving: bool) -> None:
        self._pool.closed(self._session, self._outbox, leaving=leaving)


def _unknown(name: str, known: Iterable[str]) -> Refused:
    """`known` are those that the caller may know of."""
    near = difflib.get_close_matches(name[:64], sorted(known), n=1)
    instead = f"Did you mean {near[0]}?" if near else "The operator's config names them."
    return Refused(
        Reason.WORKER_POOL_NOT_FOUND,
        f"There is no pool of workers {name[:64]!a} for this caller. {instead}",
        metadata={"pool": name[:64]},
    )
