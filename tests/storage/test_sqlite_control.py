"""What steers many runs survives a restart of the store: the kill switch, and the graces of owners."""

from pathlib import Path

from jackline_server.runtime.ports.journal import Creation
from jackline_server.runtime.ports.owners import Hold
from jackline_server.runtime.ports.switches import Engaging
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from tests.conformance.stores import ManualTime, new_run


async def test_an_engaged_switch_holds_after_a_restart_and_its_command_still_waits(tmp_path: Path):
    opened = await open_sqlite(tmp_path / "data")
    await opened.store.journal.create(new_run())
    engaged = await opened.store.switches.engage(
        Engaging(
            tenant=DEFAULT_TENANT,
            unix_ms=1,
            principal="ann",
            reason="it spends",
            command_id="kill 1",
            payload=b"p",
        )
    )
    await opened.close()

    again = await open_sqlite(tmp_path / "data")
    refused = await again.store.journal.create(new_run("run_b"))
    found = await again.store.switches.newest(DEFAULT_TENANT)
    pending = await again.store.commands.pending("run_a")
    claims = await again.store.leases.claim("next", limit=9, now_unix_ms=0)
    await again.close()

    assert (refused.creation, found) == (Creation.HALTED, engaged.engagement)
    assert [row.command_id for row in pending] == ["kill 1"]
    assert [claim.run_id for claim in claims] == ["run_a"]


async def test_a_grace_begins_anew_at_a_boot_however_long_nobody_could_come_back(tmp_path: Path):
    time = ManualTime()
    settings = SqliteSettings(clock=time.clock())
    opened = await open_sqlite(tmp_path / "data", settings)
    await opened.store.journal.create(new_run())
    await opened.store.owners.hold("w1", [Hold(run_id="run_a", grace_ms=500, until_unix_ms=time.unix + 500)])
    await opened.close()
    time.advance(3_600_000)

    again = await open_sqlite(tmp_path / "data", settings)
    early = await again.store.owners.abandoned(now_unix_ms=time.unix + 499, limit=9)
    late = await again.store.owners.abandoned(now_unix_ms=time.unix + 500, limit=9)
    await again.close()

    assert (list(early), [one.run_id for one in late]) == ([], ["run_a"])
