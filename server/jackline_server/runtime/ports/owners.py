"""Owners of runs, as the runtime needs them from a store: who must not be away for too long.

Owns those shapes and that port. A run has owners once a stream was opened as one; each process that serves
such streams has a hold on the run, which it renews while one of them is open. Does not own the streams
(`owning`).
"""

from collections.abc import Sequence
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant


@frozen
class Hold:
    """One process's hold on a run, good until then. `grace_ms` is how long an owner may be away.

    After a restart of a store that one process has to itself, a hold is good for its grace from the boot on.
    """

    run_id: str
    grace_ms: int
    until_unix_ms: int


@frozen
class Abandoned:
    """A run none of whose holds is good any more."""

    tenant: Tenant
    run_id: str


class Owners(Protocol):
    """The holds of all processes."""

    async def hold(self, worker: str, holds: Sequence[Hold]) -> None:
        """Put these in the place of the process's holds on those runs. A run that has ended takes none."""
        ...

    async def abandoned(self, *, now_unix_ms: int, limit: int) -> Sequence[Abandoned]:
        """Runs that had holds and have none that is good now, ended ones too."""
        ...

    async def forget(self, run_id: str) -> None:
        """Take all holds off a run: it belongs to nobody, like one that never had an owner."""
        ...
