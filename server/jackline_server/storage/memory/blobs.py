"""The Blobs role of the memory store, and how its other roles become holders of blobs."""

from collections.abc import Sequence

from jackline_server.runtime.ports.blobs import BLOB_GRACE_MS
from jackline_server.runtime.ports.store_errors import BlobMissing
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.blob_names import checked, digest_of
from jackline_server.storage.memory.tables import MemoryBlob, MemoryTables


class MemoryBlobs:
    """Bytes in a dictionary."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def put(self, tenant: Tenant, data: bytes) -> str:
        """As the port says."""
        digest = digest_of(checked(data))
        now = self._tables.clock.unix_ms()
        blob = self._tables.blobs.setdefault(
            (tenant.id, digest), MemoryBlob(data=bytes(data), touched_ms=now)
        )
        blob.touched_ms = now
        return digest

    async def size(self, tenant: Tenant, digest: str) -> int | None:
        """As the port says."""
        blob = self._tables.blobs.get((tenant.id, digest))
        return len(blob.data) if blob is not None else None

    async def read(self, tenant: Tenant, digest: str, *, offset: int, limit: int) -> bytes | None:
        """As the port says."""
        blob = self._tables.blobs.get((tenant.id, digest))
        return blob.data[offset : offset + limit] if blob is not None else None

    async def sweep(self, *, limit: int) -> int:
        """As the port says."""
        before = self._tables.clock.unix_ms() - BLOB_GRACE_MS
        blobs = self._tables.blobs
        over = [key for key, blob in blobs.items() if not blob.holders and blob.touched_ms < before][:limit]
        for key in over:
            del blobs[key]
        return len(over)


def refuse_missing(tables: MemoryTables, tenant: Tenant, digests: Sequence[str]) -> None:
    """Raise BlobMissing unless the tenant has all of these."""
    for digest in digests:
        if (tenant.id, digest) not in tables.blobs:
            raise BlobMissing(digest)


def hold(tables: MemoryTables, tenant: Tenant, digests: Sequence[str], *, kind: str, holder: str) -> None:
    """Make something a holder of these blobs, which are there."""
    for digest in digests:
        tables.blobs[tenant.id, digest].holders.add((kind, holder))
