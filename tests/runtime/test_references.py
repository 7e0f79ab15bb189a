"""What a reference to a workflow names, and what is said of one that names nothing."""

import pytest

from jackline_server.runtime.ports.revisions import Revisions
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.workflows.references import revision_of
from jackline_server.storage.memory.revisions import MemoryRevisions
from tests.conformance.stores import OTHER_TENANT, revision

FIRST, SECOND = "abcdef0123" + "0" * 54, "abcdef0199" + "9" * 54


@pytest.fixture
async def revisions() -> Revisions:
    made = MemoryRevisions()
    await made.put(revision(FIRST), alias="prod", expect=None)
    await made.put(revision(SECOND), alias="", expect=None)
    await made.put(revision("5" * 64, tenant=OTHER_TENANT, name="refunds2"), alias="theirs", expect=None)
    return made


@pytest.mark.parametrize(
    ("version", "digest"),
    [
        ("", SECOND),
        ("@latest", SECOND),
        ("@prod", FIRST),
        ("@" + FIRST, FIRST),
        ("@" + FIRST[:12], FIRST),
        ("@" + SECOND[:9], SECOND),
    ],
)
async def test_a_revision_is_named_by_alias_by_digest_and_by_the_beginning_of_one(
    revisions: Revisions, version: str, digest: str
) -> None:
    assert (await revision_of(revisions, DEFAULT_TENANT, "refunds" + version)).digest == digest


async def test_an_alias_wins_over_a_digest_that_begins_like_it(revisions: Revisions) -> None:
    await revisions.put(revision(SECOND), alias=FIRST[:12], expect=None)
    assert (await revision_of(revisions, DEFAULT_TENANT, "refunds@" + FIRST[:12])).digest == SECOND


async def refusal(revisions: Revisions, reference: str) -> Refused:
    with pytest.raises(Refused) as refused:
        await revision_of(revisions, DEFAULT_TENANT, reference)
    assert refused.value.message.isascii()
    return refused.value


async def test_the_beginning_of_two_digests_is_refused_as_ambiguous(revisions: Revisions) -> None:
    refused = await refusal(revisions, "refunds@" + FIRST[:8])
    assert refused.reason is Reason.INVALID_REQUEST
    assert [(one.field, one.reason) for one in refused.violations] == [("workflow", "AMBIGUOUS")]


@pytest.mark.parametrize("version", ["foo", FIRST[:7], "7" * 12, "ABCDEF012300", "f" * 64])
async def test_a_version_that_is_not_there_is_told_the_aliases_that_are(
    revisions: Revisions, version: str
) -> None:
    refused = await refusal(revisions, f"refunds@{version}")
    assert refused.reason is Reason.WORKFLOW_NOT_FOUND
    assert "latest, prod" in refused.message
    assert version not in refused.message
    assert refused.metadata == {"workflow": f"refunds@{version}"}


async def test_a_name_that_is_not_there_is_told_the_near_ones_of_the_tenant(revisions: Revisions) -> None:
    refused = await refusal(revisions, "refnuds@latest")
    assert refused.reason is Reason.WORKFLOW_NOT_FOUND
    assert "Did you mean refunds?" in refused.message
    assert "Did you mean" not in (await refusal(revisions, "zebra")).message
