"""References to workflows: `name`, `name@alias`, `name@digest`, and digests cut short.

Owns what a reference names, and what is said of one that names nothing. An alias wins over a digest that
begins like it. A refusal repeats nothing of the reference but the name of a workflow that exists, or that the
server's folder has and can't serve.
"""

import difflib
import re

from jackline_server.runtime.ports.revisions import RevisionRow, Revisions
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.workflows.unserved import UnservedFiles

SHORTEST_DIGEST = 8
"""So many digits of a digest name a revision, if they are the beginning of one only."""

_CUT_DIGEST = re.compile(rf"[0-9a-f]{{{SHORTEST_DIGEST},63}}")
_DIGITS = re.compile(rf"[0-9a-f]{{{SHORTEST_DIGEST},64}}")
_MOST_NAMES = 1_000
_MOST_SHOWN = 10


async def revision_of(
    revisions: Revisions,
    tenant: Tenant,
    reference: str,
    *,
    asking: str = "",
    unserved: UnservedFiles | None = None,
) -> RevisionRow:
    """The revision that the reference names. `asking` is a workflow that can't be the one that was meant.

    `unserved` are files of the folder, which is the default tenant's.

    Raises:
        Refused: WORKFLOW_NOT_FOUND, or INVALID_REQUEST for a cut digest that could be one of several.
        StoreError: as the store has it.
    """
    name, _, version = reference.partition("@")
    row = await revisions.get(tenant, name, version)
    if row is None and _CUT_DIGEST.fullmatch(version):
        row = await _by_cut_digest(revisions, tenant, name, version)
    if row is None:
        if unserved is None or tenant != DEFAULT_TENANT:
            unserved = UnservedFiles()
        raise await _not_found(revisions, tenant, reference, asking, unserved)
    return row


async def _by_cut_digest(revisions: Revisions, tenant: Tenant, name: str, prefix: str) -> RevisionRow | None:
    found = await revisions.digests(tenant, name, prefix=prefix, limit=2)
    if len(found) > 1:
        raise Refused(
            Reason.INVALID_REQUEST,
            f"More than one revision of {name} has a digest that begins so. Give more of its digits.",
            violations=(
                Violation(
                    field="workflow",
                    description="is the beginning of more than one digest",
                    reason="AMBIGUOUS",
                ),
            ),
        )
    return await revisions.get(tenant, name, found[0]) if found else None


async def _not_found(
    revisions: Revisions, tenant: Tenant, reference: str, asking: str, unserved: UnservedFiles
) -> Refused:
    name, _, version = reference.partition("@")
    aliases = await revisions.aliases(tenant, name)
    if aliases:
        shown = ", ".join(aliases[:_MOST_SHOWN])
        more = f" and {len(aliases) - _MOST_SHOWN} more" if len(aliases) > _MOST_SHOWN else ""
        what = "revision of such a digest" if _DIGITS.fullmatch(version) else "such alias"
        digits = f"{SHORTEST_DIGEST} or more digits of a digest"
        message = f"The workflow {name} has no {what}. Its aliases are {shown}{more}; {digits} will do too."
    elif name != asking and (refused := unserved.refusal(reference)) is not None:
        return refused
    else:
        names = [one for one in await revisions.names(tenant, limit=_MOST_NAMES) if one != asking]
        near = difflib.get_close_matches(name[:64], names, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "List the workflows, or put it first."
        message = f"There is no such workflow. {hint}"
    return Refused(Reason.WORKFLOW_NOT_FOUND, message, metadata={"workflow": reference})
