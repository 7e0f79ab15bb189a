"""The workflows that a workflow runs, looked up by their references, and those that these run.

Owns where they are looked for, how many, and that one is read once. What is found is of that moment: nothing
is pinned by it, since an alias means what it leads to when a run starts. Does not own what is made of it
(`definitions.child_inputs`).
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from jackline_server.runtime.ports.definitions import Compiler, Signature, Source
from jackline_server.runtime.ports.revisions import RevisionRow, Revisions
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.workflows.references import revision_of
from jackline_server.runtime.workflows.unserved import UnservedFiles

MOST_LOOKED_UP = 64
"""For one source: what is further away is left out, and bounded by `child_depth` when it runs."""

MOST_KEPT = 64
CHILD_UNKNOWN = "child_unknown"
"""The code of the finding about a workflow that is not there: a warning, and an error when a run starts."""

_NOT_THERE = (Reason.WORKFLOW_NOT_FOUND, Reason.INVALID_REQUEST)
_LATEST = "latest"


class NamedWorkflows:
    """Looks workflows up in a store. Reads one revision once, while it is kept."""

    def __init__(
        self, *, revisions: Revisions, compiler: Compiler, unserved: UnservedFiles | None = None
    ) -> None:
        self._revisions = revisions
        self._unserved = unserved
        self._compiler = compiler
        self._kept: OrderedDict[str, Signature | None] = OrderedDict()

    async def known(
        self, tenant: Tenant, references: Iterable[str], beside: Sequence[Source] = (), *, asking: str = ""
    ) -> dict[str, Signature | str]:
        """See `Source.known`; a workflow of `beside` is taken before the one that is stored under its name.

        `asking` is the name of the workflow whose steps they are.

        Raises StoreError.
        """
        found: dict[str, Signature | str] = {}
        ahead = list(references)
        near = await self._near(beside) if ahead else {}
        while ahead and len(found) < MOST_LOOKED_UP:
            reference = ahead.pop(0)
            if reference in found:
                continue
            one = near.get(_newest(reference)) or await self._stored(tenant, reference, asking)
            if one is not None:
                found[reference] = one
            if isinstance(one, Signature):
                ahead += one.runs
        return found

    async def _near(self, beside: Sequence[Source]) -> dict[str, Signature]:
        signatures = [await asyncio.to_thread(self._compiler.signature, source) for source in beside]
        return {one.name: one for one in signatures if one is not None}

    async def _stored(self, tenant: Tenant, reference: str, asking: str) -> Signature | str | None:
        """What the reference names; why there is none; or None if what it names can't be read any more."""
        try:
            row = await revision_of(
                self._revisions, tenant, reference, asking=asking, unserved=self._unserved
            )
        except Refused as refused:
            if refused.reason not in _NOT_THERE:
                raise
            return refused.message
        key = f"{row.name}@{row.digest}"
        if key not in self._kept:
            self._kept[key] = await asyncio.to_thread(self._compiler.signature, _source(row))
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


def known_among(
    references: Iterable[str], signatures: Iterable[Signature | None]
) -> dict[str, Signature | str]:
    """The same where only some files are at hand: what is not among them may be elsewhere and is left out."""
    near = {one.name: one for one in signatures if one is not None}
    found: dict[str, Signature | str] = {}
    ahead = list(references)
    while ahead and len(found) < MOST_LOOKED_UP:
        reference = ahead.pop(0)
        one = near.get(_newest(reference))
        if one is not None and reference not in found:
            found[reference] = one
            ahead += one.runs
    return found


def digest_of(known: Mapping[str, Signature | str]) -> bytes:
    """A digest over all that is known: two sources that differ in it alone are two."""
    digest = hashlib.sha256()
    for reference, one in sorted(known.items()):
        texts = [one] if isinstance(one, str) else [one.name, one.input_schema_json or "", *one.runs, ""]
        for text in (reference, *texts):
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def _newest(reference: str) -> str:
    """The name, if the reference means the newest revision; else nothing that is a name."""
    name, _, version = reference.partition("@")
    return name if version in ("", _LATEST) else ""


def _source(row: RevisionRow) -> Source:
    return Source(yaml=row.yaml, files=row.files)
