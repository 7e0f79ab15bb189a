"""Bytes that are too long for a log, by their digest."""

from typing import Protocol

from jackline_server.runtime.ports.tenants import Tenant

BLOB_BYTES = 16 << 20
"""What one blob holds at most."""


BLOB_GRACE_MS = 24 * 3_600_000
"""How long a blob that nothing names may wait for a commit that does, at least."""


class Blobs(Protocol):
    """Bytes by their digest: the lower-case hexadecimal SHA-256. Immutable, and of one tenant.

    Bytes are put first and named by a commit after (`blobs` of `NewRun` and `Append`), which makes whatever
    it belongs to a holder of them. A blob lives as long as it has a holder; one without stays for
    BLOB_GRACE_MS after it was last put, so that a crash between the two leaves no more than what a sweep
    removes.
    """

    async def put(self, tenant: Tenant, data: bytes) -> str:
        """Store bytes and return their digest. Known ones are not stored twice; their grace begins anew.

        Raises:
            ValueError: more than BLOB_BYTES.
        """
        ...

    async def size(self, tenant: Tenant, digest: str) -> int | None:
        """How many bytes the blob has; None if the tenant has none of that digest."""
        ...

    async def read(self, tenant: Tenant, digest: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes from `offset` on, empty at or beyond the end.

        None if the tenant has no blob of that digest.
        """
        ...

    async def sweep(self, *, limit: int) -> int:
        """Remove at most `limit` blobs that nothing holds and whose grace is over; how many there were."""
        ...
