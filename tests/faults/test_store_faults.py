"""The store fails under a running server: the disk is full, a sync fails, a reply gets lost."""

from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState
from tests.faults.scene import REQUEST, stage, to_the_end
from tests.outside.recording import recording
from tests.support.server_process import Servers
from tests.support.tool_service import ToolService


@pytest.mark.parametrize(
    "failpoint",
    ["store.write=err(ENOSPC)@3", "store.sync=err(ENOSPC)@6", "store.after_send_before_reply=drop@6"],
)
async def test_a_run_waits_for_a_store_that_takes_nothing_and_buys_nothing_twice(
    failpoint: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    """F24, F35."""
    server = await stage(servers, shop, tmp_path, failpoint)
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        seen = await to_the_end(recorder, watcher, shop)

    assert seen.run.state == RunState.RUN_STATE_SUCCEEDED
    assert seen.run.recoveries == 0
    assert seen.run.ledger.model_requests == 2
    assert (len(shop.of("look")), len(shop.of("charge"))) == (1, 1)


async def test_a_failed_sync_ends_the_process_and_the_next_one_recovers(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """F27."""
    server = await stage(servers, shop, tmp_path, "store.sync=err(EIO)@6")
    async with recording(server) as recorder:
        watcher = recorder.watch(await recorder.start("pair", "m", request_id=REQUEST))
        assert await server.ended(within_s=10) == 74
        await server.start()
        await recorder.reconnect()
        seen = await to_the_end(recorder, watcher, shop)

    assert seen.run.state == RunState.RUN_STATE_SUCCEEDED
    assert len(shop.of("charge")) <= 1
