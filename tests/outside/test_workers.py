"""A server with a pool of workers, from outside: real programs serve, are killed, come back and leave.

What happened is what the ledger of a worker says.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from jackline.v1.run_pb2 import RunState
from jackline.v1.tool_worker_pb2 import ConnectRequest, ListToolWorkersRequest, RegisterWorker, WorkerTool
from jackline.v1.tool_worker_pb2_grpc import ToolWorkerServiceStub
from jackline_client import JacklineClient
from jackline_client.errors import InvalidWorkflow
from jackline_server.runtime.pinned_tools import pins_path, read_pins
from tests.clients.seats import Seats, program_of, seats_in
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers

SECONDS = 60
LOOKS = ", parameters: {type: object, properties: {flight: {}}}, description: Looks., effect: read"


def workflow(tool: str, more: str = "") -> str:
    return f"""\
name: booking
model: fast
bounds: {{run_timeout: 5m, token_budget: 20000}}
flow: [book]
steps:
  book:
    kind: agent
    steering: Book.
    tools: [{{ref: {tool}}}]
    answer: text
  {tool}: {{kind: worker, connection: seats, tool: {tool}{more}}}
"""


def arguments(tool: str, number: int) -> dict[str, str]:
    flight = {"flight": f"JL{number}"}
    return flight if tool == "seats_left" else {**flight, "seat": f"{number}C"}


def world(servers: Servers, folder: Path, tool: str, calls: int = 1) -> ServerProcess:
    turns = [
        {
            "when": {"turn": 1},
            "tool_calls": [{"name": tool, "arguments": arguments(tool, number)} for number in range(calls)],
        },
        {"text": "Booked."},
    ]
    pool = '[connections.seats]\nkind = "worker"\nheartbeat = "1s"\nresume_grace = "2s"\nwait = "1m"\n'
    return servers.make(worlds.scripted(folder, turns, more=pool))


@asynccontextmanager
async def serving(server: ServerProcess, folder: Path, name: str = "one") -> AsyncGenerator[Seats]:
    async with seats_in(folder, name) as seats:
        await come(seats, server)
        yield seats


async def come(seats: Seats, server: ServerProcess) -> None:
    await seats.start(program_of("python"), server.address, server.token)


async def until(true: Callable[[], bool]) -> None:
    """What other processes write tells nobody that it has changed."""
    async with asyncio.timeout(SECONDS):
        while not true():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


async def connected(server: ServerProcess, count: int) -> None:
    """Until so many workers are there."""
    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.timeout(SECONDS):
        ask = ToolWorkerServiceStub(channel).ListToolWorkers
        metadata = (("authorization", f"Bearer {server.token}"),)
        while True:
            found = await ask(ListToolWorkersRequest(pool="seats"), metadata=metadata)
            (pool,) = found.pools
            if sum(worker.connected for worker in pool.workers) == count:
                return
            await asyncio.sleep(0.02)


async def put(client: JacklineClient, text: str) -> None:
    """Put it, as soon as somebody serves its tool."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await client.put_workflow(text)
            except InvalidWorkflow:
                await asyncio.sleep(0.05)
            else:
                return


async def started(client: JacklineClient) -> str:
    return (await client.start_run("booking", input={})).run.run_id


async def succeeded(client: JacklineClient, run_id: str) -> None:
    assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED


async def test_a_worker_serves_a_run_and_its_tool_is_pinned_beside_the_workflow(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "reserve_seat")
    await server.start()
    async with server.client() as client, serving(server, tmp_path) as seats:
        await put(client, workflow("reserve_seat"))
        stored = await client.get_workflow("booking")
        assert list(read_pins(stored.workflow.files[pins_path("seats")])) == ["reserve_seat"]
        await succeeded(client, await started(client))
        assert [line["seat"] for line in seats.lines()] == ["0C"]
        seats.terminate()
        assert await seats.ended() == 0


async def test_a_worker_that_is_killed_in_a_write_leaves_a_question_and_no_second_effect(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "print_ticket")
    await server.start()
    async with server.client() as client, serving(server, tmp_path) as seats:
        await put(client, workflow("print_ticket"))
        seats.hold()
        run_id = await started(client)
        await until(lambda: bool(seats.lines()))
        await seats.kill()
        seats.release()
        await come(seats, server)
        async with aclosing(client.watch(run_id)) as frames:
            async for frame in frames:
                if any(event.WhichOneof("fact") == "interrupt_raised" for event in frame.events):
                    break
        (question,) = [one async for one in client.list_interrupts(run_id)]
        await client.answer(run_id, question.interrupt_id, "succeeded")
        await succeeded(client, run_id)
        assert len(seats.lines()) == 1


async def test_a_worker_that_is_killed_in_a_call_that_may_be_repeated_is_asked_again_with_the_same_key(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "seats_left")
    await server.start()
    async with server.client() as client, serving(server, tmp_path) as seats:
        await put(client, workflow("seats_left", LOOKS))
        seats.hold()
        run_id = await started(client)
        await until(lambda: bool(seats.lines()))
        await seats.kill()
        seats.release()
        await come(seats, server)
        await succeeded(client, run_id)
        first, second = seats.lines()
        assert first["call_key"] == second["call_key"]
        assert (first["attempt"], second["attempt"]) == (1, 2)


async def test_two_workers_share_the_calls_of_a_turn(servers: Servers, tmp_path: Path):
    server = world(servers, tmp_path, "seats_left", calls=4)
    await server.start()
    async with (
        server.client() as client,
        serving(server, tmp_path, "one") as one,
        serving(server, tmp_path, "two") as two,
    ):
        await put(client, workflow("seats_left", LOOKS))
        await connected(server, 2)
        one.hold()
        two.hold()
        run_id = await started(client)
        await until(lambda: (len(one.lines()), len(two.lines())) == (2, 2))
        one.release()
        two.release()
        await succeeded(client, run_id)


async def test_a_run_waits_for_a_worker_and_a_server_that_restarts_is_found_again(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "reserve_seat")
    await server.start()
    parameters = "{type: object, properties: {flight: {}, seat: {}}}"
    more = f", description: Reserves., effect: idempotent, parameters: {parameters}"
    text = workflow("reserve_seat", more)
    async with server.client() as client:
        await client.put_workflow(text)
        run_id = await started(client)
        async with serving(server, tmp_path) as seats:
            await succeeded(client, run_id)
            await server.stop()
            await server.start()
            await connected(server, 1)
            assert (await client.start_run("booking", input={})).run.run_id != run_id
            assert len(seats.lines()) == 1


async def test_a_workflow_whose_tool_nobody_serves_can_not_be_put_without_parameters(
    servers: Servers, tmp_path: Path
):
    server = world(servers, tmp_path, "reserve_seat")
    await server.start()
    async with server.client() as client:
        with pytest.raises(InvalidWorkflow):
            await client.put_workflow(workflow("reserve_seat"))


async def test_workers_whose_streams_break_keep_their_sessions(servers: Servers, tmp_path: Path):
    pool = '[connections.seats]\nkind = "worker"\nheartbeat = "20s"\nresume_grace = "5m"\n'
    server = servers.make(worlds.scripted(tmp_path, [{"text": "Hello."}], more=pool))
    await server.start()
    metadata = (("authorization", f"Bearer {server.token}"),)
    tool = WorkerTool(name="seats_left", description="Looks.", parameters_json=b'{"type":"object"}')
    register = RegisterWorker(pool="seats", worker="one", tools=[tool])
    async with grpc.aio.insecure_channel(server.address) as channel, asyncio.timeout(SECONDS):
        service = ToolWorkerServiceStub(channel)
        for count in range(1, 41):
            stream = service.Connect(metadata=metadata)
            await stream.write(ConnectRequest(register=register))
            await stream.read()
            stream.cancel()
            await connected(server, 0)
            found = await service.ListToolWorkers(ListToolWorkersRequest(), metadata=metadata)
            assert len(found.pools[0].workers) == count
