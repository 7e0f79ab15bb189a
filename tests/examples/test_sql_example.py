"""The stock example through a real server process, judged by its database."""

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState
from tests.support.server_process import Servers, servers_in
from tests.support.warm_server import shared

STOCK = Path(__file__).resolve().parents[2] / "examples" / "stock"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    async with servers_in(tmp_path, shared()) as made:
        yield made


async def test_the_stock_example_orders_what_is_missing_and_lists_it(servers: Servers) -> None:
    server = servers.make((STOCK / "jackline.toml").read_text("utf-8"))
    shutil.copytree(
        STOCK, server.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("stock.db", "jackline.toml")
    )
    make = [sys.executable, str(server.folder / "make_stock.py")]
    await asyncio.to_thread(subprocess.run, make, check=True, capture_output=True, timeout=30)
    await server.start()
    async with server.client() as client:
        started = await client.start_run("stock", input={"store": "forepeak"})
        done = await client.wait_run(started.run.run_id)
    assert done.run.state == RunState.RUN_STATE_SUCCEEDED
    with closing(sqlite3.connect(server.folder / "stock.db")) as connection:
        ordered = connection.execute("SELECT store, part, quantity FROM orders")
        assert ordered.fetchall() == [("forepeak", "R-12", 40)]
