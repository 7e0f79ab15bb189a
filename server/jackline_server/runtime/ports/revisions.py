"""Workflows as they are stored: by name, alias and digest."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant


@frozen
class RevisionRow:
    """One immutable revision of a workflow: its source, and what it was compiled to."""

    tenant: Tenant
    name: str
    digest: str
    yaml: str
    files: Mapping[str, bytes]
    created_unix_ms: int
    aliases: tuple[str, ...] = ()
    owned_by_files: bool = False


class Revisions(Protocol):
    """Workflows by name, alias and digest. The alias `latest` follows every put."""

    async def put(self, row: RevisionRow, *, alias: str, expect: str | None) -> bool:
        """Store a revision and move `alias` (and `latest`) to it; True if it is new.

        `expect` is the digest the alias must point at, `none` for an alias that must not exist,
        None to not care. `row.owned_by_files` marks the name as read from the server's folder.

        Raises:
            AliasMoved: `expect` does not hold.
        """
        ...

    async def get(self, tenant: Tenant, name: str, reference: str) -> RevisionRow | None:
        """The revision by alias or full digest; `latest` for an empty reference."""
        ...

    async def page(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        """The latest revision of each workflow whose name sorts after `after`, by name."""
        ...

    async def digests(self, tenant: Tenant, name: str, *, prefix: str, limit: int) -> Sequence[str]:
        """Digests of the workflow's revisions that begin so (lower-case hexadecimal), in order."""
        ...

    async def aliases(self, tenant: Tenant, name: str) -> Sequence[str]:
        """Its aliases, in order; empty if there is no such workflow."""
        ...

    async def names(self, tenant: Tenant, *, limit: int) -> Sequence[str]:
        """The first names of workflows, in order."""
        ...
