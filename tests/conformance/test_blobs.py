"""The Blobs port: bytes by their digest, of one tenant, kept for as long as something names them."""

import asyncio
import hashlib
from dataclasses import replace

import pytest

from jackline_server.runtime.ports.blobs import BLOB_BYTES, BLOB_GRACE_MS
from jackline_server.runtime.ports.journal import Creation
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.store_errors import BlobMissing, Fenced
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from tests.conformance.stores import OTHER_TENANT, ManualTime, append, event, log, new_run

DATA = bytes(range(256)) * 1_000
UNKNOWN = "0" * 64


async def whole(store: Store, digest: str) -> bytes | None:
    return await store.blobs.read(DEFAULT_TENANT, digest, offset=0, limit=BLOB_BYTES)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", DATA[:65_535], DATA[:65_536], DATA[:65_537], DATA], ids=lambda data: str(len(data))
)
async def test_bytes_are_read_back_by_their_digest(store: Store, data: bytes):
    digest = await store.blobs.put(DEFAULT_TENANT, data)

    assert digest == hashlib.sha256(data).hexdigest()
    assert await store.blobs.size(DEFAULT_TENANT, digest) == len(data)
    assert await whole(store, digest) == data


@pytest.mark.parametrize(
    ("offset", "limit"),
    [(0, 0), (0, 1), (65_535, 2), (65_536, 65_536), (255_999, 9), (256_000, 9), (10**12, 9), (1, 10**12)],
)
async def test_a_range_is_what_a_slice_would_be(store: Store, offset: int, limit: int):
    digest = await store.blobs.put(DEFAULT_TENANT, DATA)

    found = await store.blobs.read(DEFAULT_TENANT, digest, offset=offset, limit=limit)

    assert found == DATA[offset : offset + limit]


async def test_what_was_never_put_is_not_there(store: Store):
    assert await store.blobs.size(DEFAULT_TENANT, UNKNOWN) is None
    assert await whole(store, UNKNOWN) is None


async def test_a_blob_belongs_to_one_tenant(store: Store):
    digest = await store.blobs.put(OTHER_TENANT, DATA)

    assert await store.blobs.size(DEFAULT_TENANT, digest) is None
    assert await whole(store, digest) is None
    await store.journal.create(new_run())
    with pytest.raises(BlobMissing):
        await store.journal.append(replace(append(), blobs=[digest]))


async def test_more_than_a_blob_can_hold_is_refused(store: Store):
    with pytest.raises(ValueError, match="at most"):
        await store.blobs.put(DEFAULT_TENANT, bytes(BLOB_BYTES + 1))


async def test_bytes_put_at_the_same_time_are_stored_once(store: Store):
    digests = await asyncio.gather(*(store.blobs.put(DEFAULT_TENANT, DATA) for _ in range(20)))

    assert len({*digests}) == 1
    assert await whole(store, digests[0]) == DATA


# --- what holds a blob -------------------------------------------------------------------------


async def test_a_blob_that_nothing_names_is_swept_after_its_grace_and_not_before(
    store: Store, time: ManualTime
):
    digest = await store.blobs.put(DEFAULT_TENANT, DATA)
    time.advance(BLOB_GRACE_MS)
    assert await store.blobs.sweep(limit=10) == 0
    assert await whole(store, digest) == DATA

    time.advance(1)
    assert await store.blobs.sweep(limit=10) == 1

    assert await whole(store, digest) is None
    assert await store.blobs.sweep(limit=10) == 0


async def test_putting_bytes_again_begins_their_grace_anew(store: Store, time: ManualTime):
    digest = await store.blobs.put(DEFAULT_TENANT, DATA)
    time.advance(BLOB_GRACE_MS)
    await store.blobs.put(DEFAULT_TENANT, DATA)
    time.advance(BLOB_GRACE_MS)

    assert await store.blobs.sweep(limit=10) == 0
    assert await whole(store, digest) == DATA


async def test_a_blob_that_an_event_names_stays(store: Store, time: ManualTime):
    kept = await store.blobs.put(DEFAULT_TENANT, DATA)
    first = await store.blobs.put(DEFAULT_TENANT, b"first")
    orphan = await store.blobs.put(DEFAULT_TENANT, b"orphan")
    await store.journal.create(new_run(blobs=[first]))
    await store.journal.append(replace(append(), blobs=[kept, kept]))
    await store.journal.append(replace(append(after=2), blobs=[kept]))
    time.advance(BLOB_GRACE_MS + 1)

    assert await store.blobs.sweep(limit=10) == 1

    assert (await whole(store, kept), await whole(store, first)) == (DATA, b"first")
    assert await whole(store, orphan) is None


async def test_a_sweep_removes_no_more_than_it_is_told(store: Store, time: ManualTime):
    for number in range(5):
        await store.blobs.put(DEFAULT_TENANT, b"%d" % number)
    time.advance(BLOB_GRACE_MS + 1)

    assert [await store.blobs.sweep(limit=3) for _ in range(3)] == [3, 2, 0]


async def test_a_commit_that_names_a_blob_that_is_not_there_has_no_effect(store: Store):
    digest = await store.blobs.put(DEFAULT_TENANT, DATA)
    with pytest.raises(BlobMissing) as refusal:
        await store.journal.create(new_run("run_b", request_id="r", blobs=[digest, UNKNOWN]))
    assert refusal.value.digest == UNKNOWN
    assert await store.runs.get(DEFAULT_TENANT, "run_b") is None
    assert await store.runs.find_request(DEFAULT_TENANT, "r") is None

    await store.journal.create(new_run())
    with pytest.raises(BlobMissing):
        await store.journal.append(replace(append(), blobs=[digest, UNKNOWN]))
    assert await log(store) == [event(1)]


async def test_a_refused_commit_holds_nothing(store: Store, time: ManualTime):
    digest = await store.blobs.put(DEFAULT_TENANT, DATA)
    await store.journal.create(new_run(request_id="r"))
    with pytest.raises(Fenced):
        await store.journal.append(replace(append(epoch=7), blobs=[digest]))
    again = await store.journal.create(new_run("run_b", request_id="r", blobs=[digest]))
    assert again.creation is Creation.DUPLICATE

    time.advance(BLOB_GRACE_MS + 1)
    assert await store.blobs.sweep(limit=10) == 1
