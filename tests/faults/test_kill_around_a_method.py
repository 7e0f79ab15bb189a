"""SIGKILL before, during and after a call of a gRPC service that writes, judged by its own ledger."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState
from tests.faults.one_write import PLACES, Write, killed
from tests.support.server_process import Servers
from tests.tools.grpc.scene import Till, till

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs

WORKFLOW = """\
name: note
flow: [note]
steps:
  note:
    kind: grpc
    connection: till
    method: till.v1.Till/{method}
    effect: {effect}
    input: {{}}
    arguments: {{order_id: A-1, hold_ns: "{hold}"}}
"""


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Till]:
    async with till(tmp_path) as running:
        yield running


def write(shop: Till, method: str, effect: str, *, hold: int = 0) -> Write:
    return Write(
        config=f'[connections.till]\nkind = "grpc"\ntarget = "{shop.address}"\n',
        workflow=WORKFLOW.format(method=method, effect=effect, hold=hold),
        count=lambda: len(shop.entries()),
    )


@pytest.mark.parametrize("place", PLACES)
async def test_a_charge_is_made_once_and_asked_about_where_nobody_knows(
    place: str, servers: Servers, shop: Till
) -> None:
    before, after, asks = PLACES[place]
    seen = await killed(servers, write(shop, "Charge", "write"), failpoints=f"{place}=kill")

    assert (seen.rows, len(shop.entries()), seen.asked) == (before, after, asks)
    assert seen.state == RunState.RUN_STATE_SUCCEEDED


@pytest.mark.parametrize("place", PLACES)
async def test_a_refund_is_made_again_under_its_key_and_paid_once(
    place: str, servers: Servers, shop: Till
) -> None:
    seen = await killed(servers, write(shop, "Refund", "idempotent"), failpoints=f"{place}=kill")

    assert (len(shop.entries()), seen.asked) == (1, False)
    assert seen.state == RunState.RUN_STATE_SUCCEEDED


async def test_a_charge_whose_server_dies_while_it_waits_is_asked_about_and_not_made_again(
    servers: Servers, shop: Till
) -> None:
    seen = await killed(servers, write(shop, "Charge", "write", hold=10**10), until=shop.entries)

    assert (seen.rows, len(shop.entries()), seen.asked) == (1, 1, True)
