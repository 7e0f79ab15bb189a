"""The Revisions role of the SQLite store: immutable revisions, the aliases that move over them."""

from collections.abc import Sequence
from typing import cast

from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.store_errors import AliasMoved
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.aliases import LATEST, NO_ALIAS
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.writing import Writing

_POINTS_AT = "SELECT digest FROM aliases WHERE tenant = ? AND name = ? AND alias = ?"
_MARK = """
INSERT INTO workflows (tenant, name, owned_by_files) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET owned_by_files = excluded.owned_by_files
"""
_INSERT = """
INSERT INTO revisions (tenant, name, digest, yaml, created_unix_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
_INSERT_FILE = "INSERT INTO revision_files (revision_key, path, data) VALUES (?, ?, ?)"
_MOVE = """
INSERT INTO aliases (tenant, name, alias, digest) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET digest = excluded.digest
"""
_GET = """
SELECT revision_key, yaml, created_unix_ms, owned_by_files
FROM revisions JOIN workflows USING (tenant, name) WHERE tenant = ? AND name = ? AND digest = ?
"""
_FILES = "SELECT path, data FROM revision_files WHERE revision_key = ? ORDER BY path"
_ALIASES = "SELECT alias FROM aliases WHERE tenant = ? AND name = ? AND digest = ? ORDER BY alias"
_NAMES = """
SELECT name, digest FROM aliases WHERE tenant = ? AND alias = 'latest' AND name > ? ORDER BY name LIMIT ?
"""
_DIGESTS = """
SELECT digest FROM revisions WHERE tenant = ? AND name = ? AND digest >= ? AND digest < ?
ORDER BY digest LIMIT ?
"""
_ALL_ALIASES = "SELECT alias FROM aliases WHERE tenant = ? AND name = ? ORDER BY alias"
_ALL_NAMES = "SELECT name FROM aliases WHERE tenant = ? AND alias = 'latest' ORDER BY name LIMIT ?"
_PAST_HEXADECIMAL = "g"


class SqliteRevisions:
    """Workflows, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, row: RevisionRow, *, alias: str, expect: str | None) -> bool:
        """As the port says. The last put decides whether files own the name."""
        return await self._writer.run(_put, (row, alias or LATEST, expect))

    async def get(self, tenant: Tenant, name: str, reference: str) -> RevisionRow | None:
        """As the port says. A full digest wins over an alias of the same spelling."""
        return await self._readers.run(_get, (tenant, name, reference or LATEST))

    async def page(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        """As the port says."""
        return await self._readers.run(_page, (tenant, after, limit))

    async def digests(self, tenant: Tenant, name: str, *, prefix: str, limit: int) -> Sequence[str]:
        """As the port says."""
        wish = (tenant.id, name, prefix, prefix + _PAST_HEXADECIMAL, limit)
        return await self._readers.run(_texts, (_DIGESTS, wish))

    async def aliases(self, tenant: Tenant, name: str) -> Sequence[str]:
        """As the port says."""
        return await self._readers.run(_texts, (_ALL_ALIASES, (tenant.id, name)))

    async def names(self, tenant: Tenant, *, limit: int) -> Sequence[str]:
        """As the port says."""
        return await self._readers.run(_texts, (_ALL_NAMES, (tenant.id, limit)))


def _put(session: Session, wish: tuple[RevisionRow, str, str | None]) -> bool:
    row, alias, expect = wish
    session.flush()
    connection = session.connection
    tenant, name = row.tenant.id, row.name
    points_at = cast("str | None", connection.execute(_POINTS_AT, (tenant, name, alias)).get)
    if expect is not None and (points_at or NO_ALIAS) != expect:
        raise AliasMoved(points_at)
    connection.execute(_MARK, (tenant, name, row.owned_by_files))
    connection.execute(_INSERT, (tenant, name, row.digest, row.yaml, row.created_unix_ms))
    is_new = connection.changes() == 1
    if is_new:
        key = connection.last_insert_rowid()
        connection.executemany(_INSERT_FILE, [(key, path, data) for path, data in row.files.items()])
    for moved in {alias, LATEST}:
        connection.execute(_MOVE, (tenant, name, moved, row.digest))
    return is_new


def _get(connection: Database, which: tuple[Tenant, str, str]) -> RevisionRow | None:
    tenant, name, reference = which
    by_digest = _load(connection, tenant, name, reference)
    if by_digest is not None:
        return by_digest
    digest = cast("str | None", connection.execute(_POINTS_AT, (tenant.id, name, reference)).get)
    return _load(connection, tenant, name, digest) if digest is not None else None


def _page(connection: Database, which: tuple[Tenant, str, int]) -> Sequence[RevisionRow]:
    tenant, after, limit = which
    names = cast("list[tuple[str, str]]", connection.execute(_NAMES, (tenant.id, after, limit)).fetchall())
    rows = [_load(connection, tenant, name, digest) for name, digest in names]
    return [row for row in rows if row is not None]


def _texts(connection: Database, query: tuple[str, tuple[str | int, ...]]) -> Sequence[str]:
    statement, values = query
    return [text for (text,) in cast("list[tuple[str]]", connection.execute(statement, values).fetchall())]


def _load(connection: Database, tenant: Tenant, name: str, digest: str) -> RevisionRow | None:
    found = connection.execute(_GET, (tenant.id, name, digest)).fetchone()
    if found is None:
        return None
    key, yaml, created, owned = cast("tuple[int, str, int, int]", found)
    files = cast("list[tuple[str, bytes]]", connection.execute(_FILES, (key,)).fetchall())
    aliases = cast("list[tuple[str]]", connection.execute(_ALIASES, (tenant.id, name, digest)).fetchall())
    return RevisionRow(
        tenant=tenant,
        name=name,
        digest=digest,
        yaml=yaml,
        files=dict(files),
        created_unix_ms=created,
        aliases=tuple(alias for (alias,) in aliases),
        owned_by_files=bool(owned),
    )
