"""The Revisions role of the memory store: its tables and its rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.store_errors import AliasMoved
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.aliases import LATEST, NO_ALIAS


@dataclass(slots=True)
class _Workflow:
    owned_by_files: bool = False
    revisions: dict[str, RevisionRow] = field(default_factory=dict[str, RevisionRow])
    aliases: dict[str, str] = field(default_factory=dict[str, str])

    def row(self, digest: str) -> RevisionRow:
        aliases = tuple(sorted(alias for alias, to in self.aliases.items() if to == digest))
        return replace(self.revisions[digest], aliases=aliases, owned_by_files=self.owned_by_files)


class MemoryRevisions:
    """Workflows in a dictionary."""

    def __init__(self) -> None:
        self._workflows: dict[tuple[str, str], _Workflow] = {}

    async def put(self, row: RevisionRow, *, alias: str, expect: str | None) -> bool:
        """As the port says. The last put decides whether files own the name."""
        key = row.tenant.id, row.name
        workflow = self._workflows.get(key) or _Workflow()
        alias = alias or LATEST
        points_at = workflow.aliases.get(alias)
        if expect is not None and (points_at or NO_ALIAS) != expect:
            raise AliasMoved(points_at)
        is_new = row.digest not in workflow.revisions
        if is_new:
            workflow.revisions[row.digest] = replace(row, files=dict(row.files))
        workflow.aliases[alias] = workflow.aliases[LATEST] = row.digest
        workflow.owned_by_files = row.owned_by_files
        self._workflows[key] = workflow
        return is_new

    async def get(self, tenant: Tenant, name: str, reference: str) -> RevisionRow | None:
        """As the port says. A full digest wins over an alias of the same spelling."""
        workflow = self._workflows.get((tenant.id, name))
        if workflow is None:
            return None
        digest = reference if reference in workflow.revisions else workflow.aliases.get(reference or LATEST)
        return workflow.row(digest) if digest is not None else None

    async def page(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        """As the port says."""
        names = sorted(name for owner, name in self._workflows if owner == tenant.id and name > after)
        found = [self._workflows[tenant.id, name] for name in names[:limit]]
        return [workflow.row(workflow.aliases[LATEST]) for workflow in found]

    async def digests(self, tenant: Tenant, name: str, *, prefix: str, limit: int) -> Sequence[str]:
        """As the port says."""
        known = self._workflows.get((tenant.id, name)) or _Workflow()
        return sorted(digest for digest in known.revisions if digest.startswith(prefix))[:limit]

    async def aliases(self, tenant: Tenant, name: str) -> Sequence[str]:
        """As the port says."""
        return sorted((self._workflows.get((tenant.id, name)) or _Workflow()).aliases)

    async def names(self, tenant: Tenant, *, limit: int) -> Sequence[str]:
        """As the port says."""
        return sorted(name for owner, name in self._workflows if owner == tenant.id)[:limit]
