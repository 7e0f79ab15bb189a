"""The worker program of each language with a real server: what runs get, judged by the workers' ledgers."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import Run, RunState, ToolCall, ToolCallStatus, View
from jackline_client import JacklineClient
from tests.clients import building
from tests.clients.seats import Seats, program_of, seats_in
from tests.support.relay import relaying
from tests.support.server_process import ServerProcess, servers_in
from tests.support.warm_server import shared

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs

RUN_S = 60

CONFIG = """
[connections.seats]
kind = "worker"
allow = ["seats_left", "reserve_seat", "print_ticket"]
wait = "60s"
resume_grace = "{grace}"
"""

WORKFLOW = """
name: {tool}
input: {{schema: {{type: object, properties: {{flight: {{type: string}}, seat: {{type: string}}}}}}}}
flow: [{tool}]
steps:
  {tool}:
    kind: worker
    connection: seats
    tool: {tool}
    effect: {effect}
    parameters:
      type: object
      properties: {{flight: {{type: string}}, seat: {{type: string}}}}
      required: [flight]
    input: {{flight: /input/flight, seat: /input/seat}}
    {failing}
"""

AGAIN = "retry: {times: 2, base: 100ms}"
TOOLS = {
    "seats_left": ("read", AGAIN),
    "reserve_seat": ("idempotent", AGAIN),
    "print_ticket": ("write", "on_unknown: fail"),
}


@pytest.fixture(params=["python", *building.LANGUAGES])
def program(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return program_of(request.param)


@pytest.fixture
def grace() -> str:
    return "60s"


@pytest.fixture
async def server(tmp_path: Path, grace: str) -> AsyncGenerator[ServerProcess]:
    folder = tmp_path / "workflows"
    folder.mkdir()
    for tool, (effect, failing) in TOOLS.items():
        text = WORKFLOW.format(tool=tool, effect=effect, failing=failing)
        (folder / f"{tool}.yaml").write_text(text, encoding="utf-8")
    async with servers_in(tmp_path, shared()) as servers:
        made = servers.make(CONFIG.format(grace=grace))
        await made.start("--workflows", str(folder))
        yield made


@pytest.fixture
async def client(server: ServerProcess) -> AsyncGenerator[JacklineClient]:
    async with server.client() as made:
        yield made


@pytest.fixture
async def one(tmp_path: Path) -> AsyncGenerator[Seats]:
    async with seats_in(tmp_path, "one") as made:
        yield made


@pytest.fixture
async def two(tmp_path: Path) -> AsyncGenerator[Seats]:
    async with seats_in(tmp_path, "two") as made:
        yield made


async def started(client: JacklineClient, tool: str, *, flight: str = "JL1") -> str:
    answer = await client.start_run(tool, input={"flight": flight, "seat": "1A"})
    return answer.run.run_id


async def ended(client: JacklineClient, run_id: str) -> tuple[Run, ToolCall]:
    """The run when it is over, and its only tool call."""
    answer = await client.wait_run(run_id, timeout_s=RUN_S, view=View.VIEW_FULL)
    assert answer.finished
    (call,) = await client.list_tool_calls(run_id, view=View.VIEW_FULL)
    return answer.run, call


async def test_a_run_calls_a_tool_of_the_worker(
    program: tuple[str, ...], server: ServerProcess, client: JacklineClient, one: Seats
) -> None:
    run_id = await started(client, "reserve_seat")  # and waits for somebody who serves it
    await one.start(program, server.address, server.token)
    run, call = await ended(client, run_id)
    assert run.state == RunState.RUN_STATE_SUCCEEDED
    assert json.loads(call.result) == {"flight": "JL1", "seat": "1A", "reservation": call.call_key}
    line = {"tool": "reserve_seat", "call_key": call.call_key, "attempt": 1, "worker": "one"}
    assert one.lines() == [{**line, "flight": "JL1", "seat": "1A"}]


@pytest.mark.parametrize("grace", ["1s"])
@pytest.mark.parametrize("tool", ["seats_left", "reserve_seat"])
async def test_a_call_of_a_killed_worker_is_made_again_elsewhere_with_the_same_key(
    program: tuple[str, ...], server: ServerProcess, client: JacklineClient, one: Seats, two: Seats, tool: str
) -> None:
    one.hold()
    await one.start(program, server.address, server.token)
    run_id = await started(client, tool)
    await one.noted(tool)
    await two.start(program, server.address, server.token)
    await one.kill()
    run, call = await ended(client, run_id)
    assert (run.state, call.attempts) == (RunState.RUN_STATE_SUCCEEDED, 2)
    assert [line["call_key"] for line in one.lines(tool)] == [call.call_key]
    assert [(line["call_key"], line["attempt"]) for line in two.lines(tool)] == [(call.call_key, 2)]


@pytest.mark.parametrize("grace", ["1s"])
async def test_the_outcome_of_a_write_of_a_killed_worker_is_unknown_and_it_is_not_made_again(
    program: tuple[str, ...], server: ServerProcess, client: JacklineClient, one: Seats, two: Seats
) -> None:
    one.hold()
    await one.start(program, server.address, server.token)
    run_id = await started(client, "print_ticket")
    await one.noted("print_ticket")
    await two.start(program, server.address, server.token)
    await one.kill()
    run, call = await ended(client, run_id)
    assert run.state == RunState.RUN_STATE_FAILED
    assert (call.status, call.attempts) == (ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN, 1)
    assert [line["call_key"] for line in one.lines()] == [call.call_key]
    _, other = await ended(client, await started(client, "print_ticket"))
    assert [line["call_key"] for line in two.lines()] == [other.call_key]


async def test_two_workers_share_the_calls_and_neither_has_more_than_it_has_places_for(
    program: tuple[str, ...], server: ServerProcess, client: JacklineClient, one: Seats, two: Seats
) -> None:
    for worker in (one, two):
        worker.hold()
        await worker.start(program, server.address, server.token)
    runs = [await started(client, "seats_left") for _ in range(10)]
    await asyncio.gather(one.noted("seats_left", 4), two.noted("seats_left", 4))
    assert (len(one.lines()), len(two.lines())) == (4, 4)
    for worker in (one, two):
        worker.release()
    ends = [await ended(client, run_id) for run_id in runs]
    assert {run.state for run, _ in ends} == {RunState.RUN_STATE_SUCCEEDED}
    keys = sorted(line["call_key"] for line in [*one.lines(), *two.lines()])
    assert keys == sorted(call.call_key for _, call in ends)


async def test_a_result_that_is_finished_while_the_connection_is_down_is_delivered_once(
    program: tuple[str, ...], server: ServerProcess, client: JacklineClient, one: Seats
) -> None:
    async with relaying(server.address) as relay:
        one.hold()
        await one.start(program, relay.address, server.token)
        run_id = await started(client, "print_ticket")
        await one.noted("print_ticket")
        relay.sever()
        one.release()
        run, call = await ended(client, run_id)
        assert (run.state, call.attempts) == (RunState.RUN_STATE_SUCCEEDED, 1)
        assert [line["call_key"] for line in one.lines()] == [call.call_key]
        assert relay.connections >= 2
        one.terminate()
        assert await one.ended() == 0, one.words()


async def test_a_worker_that_is_told_to_end_finishes_its_call_and_takes_no_other(
    program: tuple[str, ...], server: ServerProcess, client: JacklineClient, one: Seats, two: Seats
) -> None:
    one.hold()
    await one.start(program, server.address, server.token)
    first = await started(client, "print_ticket")
    await one.noted("print_ticket")
    one.terminate()
    await two.start(program, server.address, server.token)
    _, other = await ended(client, await started(client, "print_ticket"))  # one has its only place taken
    assert [line["call_key"] for line in two.lines()] == [other.call_key]
    one.release()
    assert await one.ended() == 0, one.words()
    run, call = await ended(client, first)
    assert (run.state, call.attempts) == (RunState.RUN_STATE_SUCCEEDED, 1)
    third, _ = await ended(client, await started(client, "seats_left"))
    assert third.state == RunState.RUN_STATE_SUCCEEDED
    assert (len(one.lines()), len(two.lines())) == (1, 2)


async def test_a_worker_finds_its_server_again_when_that_has_been_restarted(
    program: tuple[str, ...], tmp_path: Path, server: ServerProcess, client: JacklineClient, one: Seats
) -> None:
    await one.start(program, server.address, server.token)
    await ended(client, await started(client, "seats_left"))
    await server.kill()
    await server.start("--workflows", str(tmp_path / "workflows"))
    run, _ = await ended(client, await started(client, "seats_left"))
    assert run.state == RunState.RUN_STATE_SUCCEEDED
    assert len(one.lines()) == 2
    await server.stop()
    await server.start("--workflows", str(tmp_path / "workflows"))
    run, _ = await ended(client, await started(client, "seats_left"))
    assert run.state == RunState.RUN_STATE_SUCCEEDED


async def test_a_pool_that_the_operator_does_not_name_is_refused_by_its_reason(
    program: tuple[str, ...], server: ServerProcess, one: Seats
) -> None:
    await one.start(program, server.address, server.token, pool="nobody")
    assert await one.ended() == 1
    assert "WORKER_POOL_NOT_FOUND" in one.words()
