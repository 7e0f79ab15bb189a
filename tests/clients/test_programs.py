"""The example program of each language, against a real server with the refund example and a slow model."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import RunState, StopReason
from tests.clients import building
from tests.support.server_process import ServerProcess, servers_in
from tests.support.warm_server import shared

EXAMPLE = building.ROOT / "examples" / "refunds"
SLOW_TURN_MS = 1500  # long enough to be cut, steered and aborted in
PROGRAM_S = 60

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs


@pytest.fixture(params=list(building.LANGUAGES))
def program(request: pytest.FixtureRequest) -> tuple[str, ...]:
    name: str = request.param
    if lacks := building.lacking(building.LANGUAGES[name]):
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"{name}: {lacks}")
    return building.built(name)


@asynccontextmanager
async def orders_served(folder: Path) -> AsyncGenerator[str]:
    """The example's order service; where it is."""
    command = (str(EXAMPLE / "order_service.py"), "--ledger", str(folder / "ledger.jsonl"))
    service = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    try:
        assert service.stdout is not None
        async with asyncio.timeout(PROGRAM_S):
            line = (await service.stdout.readline()).decode()
        yield f"http://{line.removeprefix('listening on ').strip()}"
    finally:
        service.terminate()
        await service.wait()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[ServerProcess]:
    config = (EXAMPLE / "jackline.toml").read_text(encoding="utf-8")
    script = (EXAMPLE / "script.yaml").read_text(encoding="utf-8")
    async with orders_served(tmp_path) as orders, servers_in(tmp_path, shared()) as servers:
        made = servers.make(config)
        slow = script.replace("delay_ms: 150", f"delay_ms: {SLOW_TURN_MS}")
        (made.folder / "script.yaml").write_text(slow, encoding="utf-8")
        where = {"ORDERS_URL": orders, "HELPDESK_URL": f"{orders}/helpdesk"}
        await made.start("--workflows", str(EXAMPLE / "workflows"), **where)
        yield made


async def steps(program: tuple[str, ...], address: str, token: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the program: its exit code and the lines that it printed."""
    process = await asyncio.create_subprocess_exec(
        *program,
        env={"PATH": os.environ["PATH"], "JACKLINE_ADDRESS": address, "JACKLINE_TOKEN": token},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PROGRAM_S):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, [json.loads(line) for line in printed.decode().splitlines()]


async def log_of(server: ServerProcess, run_id: str) -> list[StepEvent]:
    async with server.client() as client, asyncio.timeout(PROGRAM_S):
        return [event async for frame in client.watch(run_id) for event in frame.events]


async def test_the_program_takes_a_run_through_its_life_and_misses_and_repeats_no_event(
    program: tuple[str, ...], server: ServerProcess
) -> None:
    code, lines = await steps(program, server.address, server.token)
    assert (code, [line["step"] for line in lines]) == (
        0,
        ["started", "cut", "steered", "resumed", "aborted", "finished", "refused"],
    ), lines
    started, cut, steered, resumed, aborted, finished, refused = lines
    assert started["disposition"] == "STARTED"
    assert cut["sequences"][-1] == cut["sent_through"] == resumed["after_sequence"]
    assert steered["stage"] in {"ACCEPTED", "EFFECTIVE", "SETTLED"}
    assert (aborted["disposition"], aborted["reached"]) == ("APPLIED", True)
    assert (finished["state"], finished["stop_reason"]) == ("ABORTED", "OPERATOR")
    assert refused["code"] == "FAILED_PRECONDITION"
    assert (refused["reason"], refused["metadata"]["state"]) == ("RUN_TERMINAL", "aborted")

    log = await log_of(server, started["run_id"])
    assert [*cut["sequences"], *resumed["sequences"], *finished["sequences"]] == [one.sequence for one in log]
    assert [one.WhichOneof("fact") for one in log].count("steered") == 1
    end = log[-1].run_finished
    assert (end.state, end.stop_reason) == (RunState.RUN_STATE_ABORTED, StopReason.STOP_REASON_OPERATOR)


async def test_the_program_tells_a_wrong_token_by_its_reason(
    program: tuple[str, ...], server: ServerProcess
) -> None:
    code, lines = await steps(program, server.address, "not-the-token")
    assert code == 1
    assert [(line["step"], line["code"], line["reason"]) for line in lines] == [
        ("failed", "UNAUTHENTICATED", "UNAUTHENTICATED")
    ]
