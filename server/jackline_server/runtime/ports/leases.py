"""Who drives which run."""

from collections.abc import Collection, Sequence
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant


@frozen
class Claim:
    """A run that this worker owns from now on, under `epoch`.

    `gap_ms` is how long the last owner had been silent, by the store's clock, and at most the lease
    time; None if there was no owner, or it had let go in good order.
    """

    tenant: Tenant
    run_id: str
    epoch: int
    gap_ms: int | None


class Leases(Protocol):
    """Who drives which run. A claim raises the epoch, so that the last owner is fenced."""

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        """Take runs that need a worker and have none whose lease lives, oldest first.

        A run needs one if it is queued or running, is not delayed and does not wait for its turn in a thread,
        if a command waits for it, or if its `wake_unix_ms` has come. With `called`, only those of them are
        taken that a command waits for, and those whose `wake_unix_ms` has come.
        """
        ...

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        """Extend the leases of these runs; return those that this worker no longer owns."""
        ...

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        """Let go of a run in good order. No effect if the epoch has moved on.

        Commands up to the ordinal `heard` have been looked at and have to wait: a run that is paused or
        waiting needs no worker for their sake, until another comes or it is time to look at it.
        """
        ...
