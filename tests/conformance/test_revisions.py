"""The Revisions port: immutable revisions, aliases moved by compare-and-set."""

import asyncio

import pytest

from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import AliasMoved
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import OTHER_TENANT, revision


async def test_a_revision_is_found_by_alias_by_digest_and_as_the_latest(store: Store):
    files = {"handle/steering/tone.md": b"Be kind.\x00", "empty": b""}
    assert await store.revisions.put(revision("d1", files=files), alias="prod", expect=None) is True

    for reference in ("prod", "d1", "latest", ""):
        row = await store.revisions.get(DEFAULT_TENANT, "refunds", reference)
        assert row is not None
        assert (row.digest, row.yaml, row.files) == ("d1", "name: refunds # d1", files)
        assert (row.aliases, row.created_unix_ms, row.owned_by_files) == (("latest", "prod"), 1_000, False)


@pytest.mark.parametrize("reference", ["staging", "d2", ""])
async def test_what_was_never_put_is_not_found(store: Store, reference: str):
    await store.revisions.put(revision("d1", name="other"), alias="prod", expect=None)
    await store.revisions.put(revision("d1", tenant=OTHER_TENANT), alias="prod", expect=None)

    assert await store.revisions.get(DEFAULT_TENANT, "refunds", reference) is None


async def test_latest_follows_every_put_and_other_aliases_stay(store: Store):
    await store.revisions.put(revision("d1"), alias="prod", expect=None)
    await store.revisions.put(revision("d2"), alias="staging", expect=None)

    assert await _digest(store, "prod") == "d1"
    assert await _digest(store, "staging") == "d2"
    assert await _digest(store, "") == "d2"


async def test_putting_a_known_revision_again_is_not_new_and_moves_the_alias_back(store: Store):
    await store.revisions.put(revision("d1"), alias="prod", expect=None)
    await store.revisions.put(revision("d2"), alias="prod", expect=None)

    assert await store.revisions.put(revision("d1"), alias="prod", expect=None) is False
    assert (await _digest(store, "prod"), await _digest(store, "latest")) == ("d1", "d1")


async def test_an_expectation_that_holds_lets_the_alias_move(store: Store):
    await store.revisions.put(revision("d1"), alias="prod", expect="none")
    await store.revisions.put(revision("d2"), alias="prod", expect="d1")

    assert await _digest(store, "prod") == "d2"


@pytest.mark.parametrize(("expect", "points_at"), [("none", "d1"), ("d9", "d1")])
async def test_an_expectation_that_does_not_hold_changes_nothing(store: Store, expect: str, points_at: str):
    await store.revisions.put(revision("d1"), alias="prod", expect=None)

    with pytest.raises(AliasMoved) as refusal:
        await store.revisions.put(revision("d2", owned_by_files=True), alias="prod", expect=expect)

    assert refusal.value.digest == points_at
    assert await store.revisions.get(DEFAULT_TENANT, "refunds", "d2") is None
    row = await store.revisions.get(DEFAULT_TENANT, "refunds", "")
    assert row is not None
    assert (row.digest, row.owned_by_files) == ("d1", False)


async def test_expecting_a_digest_of_an_alias_that_is_not_there_says_so(store: Store):
    with pytest.raises(AliasMoved) as refusal:
        await store.revisions.put(revision("d1"), alias="prod", expect="d0")

    assert refusal.value.digest is None
    assert list(await store.revisions.page(DEFAULT_TENANT, after="", limit=10)) == []


async def test_of_two_puts_with_one_expectation_one_wins(store: Store):
    outcomes = await asyncio.gather(
        store.revisions.put(revision("d1"), alias="prod", expect="none"),
        store.revisions.put(revision("d2"), alias="prod", expect="none"),
        return_exceptions=True,
    )

    assert [type(outcome) for outcome in outcomes].count(AliasMoved) == 1


async def test_a_name_read_from_files_is_marked_until_the_next_put_says_otherwise(store: Store):
    await store.revisions.put(revision("d1", owned_by_files=True), alias="latest", expect=None)
    owned = await store.revisions.get(DEFAULT_TENANT, "refunds", "d1")
    await store.revisions.put(revision("d2"), alias="latest", expect=None)
    free = await store.revisions.get(DEFAULT_TENANT, "refunds", "d1")

    assert owned is not None
    assert free is not None
    assert (owned.owned_by_files, free.owned_by_files) == (True, False)


async def test_a_page_has_the_latest_revision_of_each_name_in_order(store: Store):
    for name in ("zeta", "alpha", "Beta", "ümlaut"):
        await store.revisions.put(revision("d1", name=name), alias="prod", expect=None)
        await store.revisions.put(revision("d2", name=name), alias="staging", expect=None)
    await store.revisions.put(revision("d1", name="foreign", tenant=OTHER_TENANT), alias="x", expect=None)

    first = await store.revisions.page(DEFAULT_TENANT, after="", limit=3)
    rest = await store.revisions.page(DEFAULT_TENANT, after="zeta", limit=3)

    assert [(row.name, row.digest) for row in first] == [("Beta", "d2"), ("alpha", "d2"), ("zeta", "d2")]
    assert [(row.name, row.aliases) for row in rest] == [("ümlaut", ("latest", "staging"))]


async def _digest(store: Store, reference: str) -> str:
    row = await store.revisions.get(DEFAULT_TENANT, "refunds", reference)
    assert row is not None
    return row.digest


async def test_digests_are_found_by_their_beginning_within_one_workflow_of_one_tenant(store: Store):
    digests = ["aa1", "aa2", "ab0", "af9"]
    for digest in digests:
        await store.revisions.put(revision(digest), alias="prod", expect=None)
    await store.revisions.put(revision("aa3", name="other"), alias="prod", expect=None)
    await store.revisions.put(revision("aa4", tenant=OTHER_TENANT), alias="prod", expect=None)

    async def found(prefix: str, limit: int = 9) -> list[str]:
        return list(await store.revisions.digests(DEFAULT_TENANT, "refunds", prefix=prefix, limit=limit))

    assert await found("aa") == ["aa1", "aa2"]
    assert await found("a") == digests
    assert await found("a", 1) == ["aa1"]
    assert await found("b") == await found("aa11") == []


async def test_aliases_and_names_are_those_of_the_tenant_in_order(store: Store):
    await store.revisions.put(revision("d1"), alias="staging", expect=None)
    await store.revisions.put(revision("d2"), alias="prod", expect=None)
    await store.revisions.put(revision("d3", name="berth"), alias="", expect=None)
    await store.revisions.put(revision("d4", tenant=OTHER_TENANT, name="secret"), alias="a", expect=None)

    assert list(await store.revisions.aliases(DEFAULT_TENANT, "refunds")) == ["latest", "prod", "staging"]
    assert list(await store.revisions.aliases(DEFAULT_TENANT, "secret")) == []
    assert list(await store.revisions.names(DEFAULT_TENANT, limit=9)) == ["berth", "refunds"]
    assert list(await store.revisions.names(DEFAULT_TENANT, limit=1)) == ["berth"]
