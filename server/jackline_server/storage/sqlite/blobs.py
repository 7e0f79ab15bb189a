"""The Blobs role of the SQLite store: bytes in parts, and who holds them.

Owns those tables. Other roles make their rows holders inside their own operations, with `hold`.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import cast

from jackline_server.runtime.ports.blobs import BLOB_GRACE_MS
from jackline_server.runtime.ports.store_errors import BlobMissing, StoreDamaged
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.blob_names import checked, digest_of
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.writing import Writing

PART_BYTES = 64 * 1024
"""The length of a part; stored rows rely on it."""

_FIND = "SELECT blob_key, size FROM blobs WHERE tenant = ? AND digest = ?"
_TOUCH = "UPDATE blobs SET touched_unix_ms = ? WHERE blob_key = ?"
_INSERT = """
INSERT INTO blobs (tenant, digest, size, holders, touched_unix_ms) VALUES (?, ?, ?, 0, ?)
"""
_INSERT_PART = "INSERT INTO blob_parts (blob_key, part, data) VALUES (?, ?, ?)"
_PARTS = "SELECT data FROM blob_parts WHERE blob_key = ? AND part BETWEEN ? AND ? ORDER BY part"
_UNHELD = "SELECT blob_key FROM blobs WHERE holders = 0 AND touched_unix_ms < ? LIMIT ?"
_ANY_UNHELD = "SELECT 1 FROM blobs WHERE holders = 0 LIMIT 1"
_HOLD = "INSERT INTO blob_holders (kind, holder, blob_key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_COUNT_HOLDER = "UPDATE blobs SET holders = holders + 1 WHERE blob_key = ?"
_HELD_BY = "SELECT blob_key FROM blob_holders WHERE kind = ? AND holder = ?"
_LET_GO = "DELETE FROM blob_holders WHERE kind = ? AND holder = ?"
_DISCOUNT_HOLDER = "UPDATE blobs SET holders = holders - 1 WHERE blob_key = ?"


class SqliteBlobs:
    """Bytes by their digest, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, tenant: Tenant, data: bytes) -> str:
        """As the port says."""
        digest = await asyncio.to_thread(digest_of, checked(data))
        await self._writer.run(_put, (tenant.id, digest, data))
        return digest

    async def size(self, tenant: Tenant, digest: str) -> int | None:
        """As the port says."""
        return await self._readers.run(_size, (tenant.id, digest))

    async def read(self, tenant: Tenant, digest: str, *, offset: int, limit: int) -> bytes | None:
        """As the port says. A part that is missing is StoreDamaged."""
        return await self._readers.run(_read, (tenant.id, digest, offset, limit))

    async def sweep(self, *, limit: int) -> int:
        """As the port says. Where nothing is unheld, which is the rule, no commit is made."""
        if not await self._readers.run(_is_any_unheld, ()):
            return 0
        return await self._writer.run(_sweep, limit)


def find_blobs(session: Session, tenant: str, digests: Sequence[str]) -> list[int]:
    """The keys of the tenant's blobs of these digests. Writes nothing. Raises BlobMissing."""
    return [_found(session.connection, tenant, digest)[0] for digest in digests]


def hold(session: Session, keys: Sequence[int], *, kind: str, holder: str) -> None:
    """Make something a holder of these blobs, in the transaction under way."""
    connection = session.connection
    for key in keys:
        connection.execute(_HOLD, (kind, holder, key))
        if connection.changes():
            connection.execute(_COUNT_HOLDER, (key,))


def let_go(session: Session, *, kind: str, holder: str) -> None:
    """End all that something holds, in the transaction under way: for whoever removes a holder."""
    connection = session.connection
    held = cast("list[tuple[int]]", connection.execute(_HELD_BY, (kind, holder)).fetchall())
    connection.execute(_LET_GO, (kind, holder))
    connection.executemany(_DISCOUNT_HOLDER, held)


def _put(session: Session, wish: tuple[str, str, bytes]) -> None:
    tenant, digest, data = wish
    session.flush()
    connection, now = session.connection, session.clock.unix_ms()
    row = connection.execute(_FIND, (tenant, digest)).fetchone()
    if row is not None:
        connection.execute(_TOUCH, (now, row[0]))
        return
    connection.execute(_INSERT, (tenant, digest, len(data), now))
    key = connection.last_insert_rowid()
    connection.executemany(_INSERT_PART, _parts(key, data))


def _parts(key: int, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    for part, start in enumerate(range(0, len(data), PART_BYTES)):
        yield key, part, data[start : start + PART_BYTES]


def _found(connection: Database, tenant: str, digest: str) -> tuple[int, int]:
    row = connection.execute(_FIND, (tenant, digest)).fetchone()
    if row is None:
        raise BlobMissing(digest)
    return cast("tuple[int, int]", row)


def _size(connection: Database, which: tuple[str, str]) -> int | None:
    row = connection.execute(_FIND, which).fetchone()
    return cast("tuple[int, int]", row)[1] if row is not None else None


def _read(connection: Database, which: tuple[str, str, int, int]) -> bytes | None:
    tenant, digest, offset, limit = which
    row = connection.execute(_FIND, (tenant, digest)).fetchone()
    if row is None:
        return None
    key, size = cast("tuple[int, int]", row)
    end = min(size, offset + limit)
    if offset >= end:
        return b""
    first, last = offset // PART_BYTES, (end - 1) // PART_BYTES
    rows = cast("list[tuple[bytes]]", connection.execute(_PARTS, (key, first, last)).fetchall())
    data = b"".join(part for (part,) in rows)[offset - first * PART_BYTES :][: end - offset]
    if len(data) != end - offset:
        raise StoreDamaged(f"the blob {digest} is not whole")
    return data


def _is_any_unheld(connection: Database, _: tuple[()]) -> bool:
    return connection.execute(_ANY_UNHELD).fetchone() is not None


def _sweep(session: Session, limit: int) -> int:
    session.flush()
    connection = session.connection
    before = session.clock.unix_ms() - BLOB_GRACE_MS
    keys = cast("list[tuple[int]]", connection.execute(_UNHELD, (before, limit)).fetchall())
    connection.executemany("DELETE FROM blob_parts WHERE blob_key = ?", keys)
    connection.executemany("DELETE FROM blobs WHERE blob_key = ?", keys)
    return len(keys)
