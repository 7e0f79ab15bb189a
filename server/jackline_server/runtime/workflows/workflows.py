"""Workflows as use cases: check, put, read, resolve a reference to a plan.

Owns the rule that a name read from the server's folder can't be put. Compiling (`compilations`) reads the
catalogs of MCP servers as they were fetched last: they are fetched here, and a source is compiled again if
one has changed. So it is with the workflows that its steps run, as they are stored now.
"""

from collections.abc import Sequence

from jackline_server.core.frozen import change
from jackline_server.core.plan import Plan
from jackline_server.runtime.pinned_tools import Catalogs
from jackline_server.runtime.ports.definitions import Compilation, Compiler, Finding, Severity, Source
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.revisions import RevisionRow, Revisions
from jackline_server.runtime.ports.store_errors import AliasMoved
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.reading.loading import Loading
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Caller, Checked, Described, PutDone
from jackline_server.runtime.workflows.arrivals import Arrivals
from jackline_server.runtime.workflows.compilations import Compilations
from jackline_server.runtime.workflows.named_workflows import CHILD_UNKNOWN, NamedWorkflows
from jackline_server.runtime.workflows.references import revision_of
from jackline_server.runtime.workflows.unserved import UnservedFiles

LATEST = "latest"


class Workflows:
    """Implements `service.ports.WorkflowUseCases`."""

    def __init__(
        self,
        *,
        revisions: Revisions,
        compiler: Compiler,
        catalogs: Catalogs,
        loading: Loading,
        clock: Clock,
        arrivals: Arrivals | None = None,
    ) -> None:
        self.arrivals = arrivals or Arrivals()
        self.unserved = UnservedFiles()
        self._revisions = revisions
        self._compilations = Compilations(compiler=compiler)
        self._named = NamedWorkflows(revisions=revisions, compiler=compiler, unserved=self.unserved)
        self._catalogs = catalogs
        self._loading = loading
        self._clock = clock

    async def check(self, tenant: Tenant, source: Source, *, beside: Sequence[Source] = ()) -> Checked:
        """Compile and store nothing. Workflows of `beside` are taken for stored."""
        compilation = await self._compile(tenant, source, beside)
        return Checked(findings=compilation.findings, plan=compilation.plan)

    async def put(self, caller: Caller, source: Source, *, alias: str, expect_digest: str) -> PutDone:
        """Store a revision and move an alias."""
        compilation = await self._compile(caller.tenant, source)
        _require_plan(compilation)
        name = compilation.name
        await self._arrived(caller.tenant, [name])
        with refusing_store_errors():
            latest = await self._revisions.get(caller.tenant, name, "")
        if latest is not None and latest.owned_by_files:
            raise Refused(
                Reason.WORKFLOW_OWNED_BY_FILES,
                f"The workflow {name} is read from the server's folder. Change the file there.",
                metadata={"workflow": name},
            )
        return await self._store(
            caller.tenant, source, compilation, alias=alias, expect=expect_digest or None
        )

    async def asked_for(self, source: Source) -> tuple[str, frozenset[str]]:
        """The name of a workflow, and the connections whose servers are asked when it is put."""
        compilation = await self._compilations.of(source)
        return compilation.name, frozenset(compilation.catalogs)

    async def import_file(self, tenant: Tenant, source: Source) -> Compilation:
        """Store a revision that is read from the server's folder; a broken one is left out.

        Waits for none that is on its way: it may be on its way itself.
        """
        compilation = await self._compile(tenant, source, waits=False)
        if compilation.plan is not None:
            await self._store(tenant, source, compilation, alias="", expect=None, owned_by_files=True)
        return compilation

    async def _store(
        self,
        tenant: Tenant,
        source: Source,
        compilation: Compilation,
        *,
        alias: str,
        expect: str | None,
        owned_by_files: bool = False,
    ) -> PutDone:
        row = RevisionRow(
            tenant=tenant,
            name=compilation.name,
            digest=compilation.revision,
            yaml=source.yaml,
            files={**source.files, **compilation.pins},
            created_unix_ms=self._clock.unix_ms(),
            owned_by_files=owned_by_files,
        )
        with refusing_store_errors():
            try:
                created = await self._revisions.put(row, alias=alias or LATEST, expect=expect)
            except AliasMoved as moved:
                raise Refused(
                    Reason.ALIAS_MOVED,
                    "The alias does not point where expect_digest says. Read it again.",
                    metadata={"alias": alias or LATEST, "digest": moved.digest or "none"},
                ) from None
            stored = await self._revisions.get(tenant, row.name, row.digest)
        return PutDone(revision=stored or row, created=created, findings=compilation.findings)

    async def get_revision(self, tenant: Tenant, reference: str) -> RevisionRow:
        """The revision that `name`, `name@alias` or `name@digest` names. Raises Refused."""
        await self._arrived(tenant, [reference])
        with refusing_store_errors():
            try:
                return await revision_of(self._revisions, tenant, reference, unserved=self.unserved)
            except Refused as refused:
                if tenant != DEFAULT_TENANT:
                    raise
                raise self.arrivals.explained(refused, reference) from None

    async def revisions(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        """The latest revision of each workflow, by name."""
        with refusing_store_errors():
            return await self._revisions.page(tenant, after=after, limit=limit)

    async def describe(self, tenant: Tenant, reference: str) -> Described:
        """The revision with its plan."""
        row = await self.get_revision(tenant, reference)
        compilation = await self._compile(tenant, Source(yaml=row.yaml, files=row.files))
        plan = _require_plan(compilation)
        if compilation.worst_case is None:
            raise TypeError("a compiled workflow has a worst case")
        return Described(revision=row, plan=plan, worst_case=compilation.worst_case)

    async def plan_for(self, tenant: Tenant, reference: str, inline: Source | None) -> Plan:
        """The plan that a start names or brings, if all is there that it names. Raises Refused."""
        if inline is None:
            row = await self.get_revision(tenant, reference)
            inline = Source(yaml=row.yaml, files=row.files)
        compilation = await self._compile(tenant, inline)
        plan = _require_plan(compilation)
        _require_children(compilation)
        await self.require_tools(plan)
        self._loading.keep(plan)
        return plan

    async def require_tools(self, plan: Plan) -> None:
        """Refuse a plan whose tools are no longer what they were when it was made. Raises Refused."""
        changed = await self._catalogs.changed(plan)
        if changed:
            raise Refused(
                Reason.TOOL_CHANGED,
                f"The server of the tool {changed[0]} now describes it differently, or no longer has it. "
                "`jackline tools test` and `jackline workers` show what there is now. To take it, put the "
                "workflow again, as a start of the server does with those of its folder; where a file pins "
                "the tool, `jackline tools lock` its connection first.",
                metadata={"tool": changed[0]},
                violations=tuple(
                    Violation(
                        field=f"steps.{name}", description="changed at its server", reason="tool_changed"
                    )
                    for name in changed
                ),
            )

    async def _arrived(self, tenant: Tenant, references: Sequence[str]) -> None:
        if tenant == DEFAULT_TENANT:  # whose the folder is
            await self.arrivals.wait(references)

    async def _compile(
        self, tenant: Tenant, source: Source, beside: Sequence[Source] = (), *, waits: bool = True
    ) -> Compilation:
        found = await self._compilations.of(source)
        if found.runs:
            if waits:
                await self._arrived(tenant, found.runs)
            with refusing_store_errors():
                known = await self._named.known(tenant, found.runs, beside, asking=found.name)
            source = change(source, known=known)
            found = await self._compilations.of(source)
        if found.catalogs:
            now = await self._catalogs.refresh(found.catalogs)
            if None in now.values() or now != found.catalogs:
                found = await self._compilations.again(source)
        return found


def _require_children(compilation: Compilation) -> None:
    """Refuse what runs a workflow that is not there. Raises Refused."""
    missing = [finding for finding in compilation.findings if finding.code == CHILD_UNKNOWN]
    if missing:
        more = f" So it is with {len(missing) - 1} more." if len(missing) > 1 else ""
        raise Refused(
            Reason.INVALID_WORKFLOW,
            f"{missing[0].message}.{more}",
            metadata={"errors": str(len(missing))},
            violations=tuple(_violation(finding) for finding in missing),
        )


def _require_plan(compilation: Compilation) -> Plan:
    """The plan, or the errors as violations. Raises Refused."""
    if compilation.plan is not None:
        return compilation.plan
    errors = [finding for finding in compilation.findings if finding.severity is Severity.ERROR]
    raise Refused(
        Reason.INVALID_WORKFLOW,
        f"The workflow has {_counted(errors)}. Correct the workflow and send it again.",
        metadata={"errors": str(len(errors))},
        violations=tuple(_violation(finding) for finding in errors),
    )


def _counted(errors: Sequence[Finding]) -> str:
    return "1 error" if len(errors) == 1 else f"{len(errors)} errors"


def _violation(finding: Finding) -> Violation:
    place = f"{finding.file}:{finding.line}:{finding.column}"
    return Violation(
        field=finding.path or "workflow", description=f"{place}: {finding.message}", reason=finding.code
    )
