"""A look at the kill switches of a store from outside: what it sees, and that it leaves no trace."""

from pathlib import Path

import pytest

from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.switches import Engagement, Engaging, Releasing
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.storage.sqlite.switch_look import engaged_switches


async def engage(store: Store, tenant: Tenant) -> None:
    await store.switches.engage(
        Engaging(tenant=tenant, unix_ms=7, principal="ann", reason="why", command_id=tenant.id, payload=b"")
    )


def seen(tenant: Tenant) -> Engagement:
    return Engagement(tenant=tenant, engaged_unix_ms=7, engaged_by="ann", reason="why")


def traces(folder: Path) -> dict[str, tuple[int, int]]:
    return {one.name: (one.stat().st_mtime_ns, one.stat().st_size) for one in folder.iterdir()}


@pytest.mark.parametrize("held", [True, False], ids=["by a server", "by nobody"])
async def test_the_engaged_switches_of_a_store_are_seen_and_it_is_left_alone(tmp_path: Path, *, held: bool):
    other = Tenant("other")
    opened = await open_sqlite(tmp_path)
    try:
        for tenant in (other, DEFAULT_TENANT):
            await engage(opened.store, tenant)
        if not held:
            await opened.close()
        before = traces(tmp_path)
        assert engaged_switches(tmp_path) == (seen(DEFAULT_TENANT), seen(other))
        assert traces(tmp_path) == before
    finally:
        await opened.close()


async def test_a_switch_that_was_released_is_not_seen(tmp_path: Path):
    opened = await open_sqlite(tmp_path)
    try:
        await engage(opened.store, DEFAULT_TENANT)
        release = Releasing(tenant=DEFAULT_TENANT, unix_ms=8, principal="ann", reason="")
        await opened.store.switches.release(release)
        assert engaged_switches(tmp_path) == ()
    finally:
        await opened.close()


def test_where_no_store_is_no_switch_is_engaged(tmp_path: Path):
    assert engaged_switches(tmp_path) == ()
    (tmp_path / "jackline.db").write_bytes(b"no database")
    assert engaged_switches(tmp_path) == ()
