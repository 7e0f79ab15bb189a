"""One request id, one run, however often and from wherever it is asked. Proves I1."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import StartDisposition
from jackline_client import JacklineClient
from jackline_client.errors import RequestIdReused
from tests.outside import worlds
from tests.outside.recording import recording
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

DUPLICATES = 200
CLIENTS = 4
"""A connection carries 128 calls at once: two hundred come over several."""


@asynccontextmanager
async def callers(server: ServerProcess) -> AsyncGenerator[list[JacklineClient]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(server.client()) for _ in range(CLIENTS)]


async def test_two_hundred_equal_requests_at_once_start_one_run(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start()
    async with recording(server) as recorder, callers(server) as clients:
        await recorder.client.put_workflow(worlds.PAIR)
        runs = await asyncio.gather(
            *(
                recorder.start("pair", "m", request_id="r-1", client=clients[number % CLIENTS])
                for number in range(DUPLICATES)
            )
        )

        assert len(set(runs)) == 1
        assert Counter(start.disposition for start in recorder.starts) == {
            "started": 1,
            "deduplicated": DUPLICATES - 1,
        }
        recorder.watch(runs[0])
        await recorder.done()
        assert len(shop.of("charge")) == 1
        assert [run.run_id async for run in recorder.client.list_runs()] == [runs[0]]
        with pytest.raises(RequestIdReused) as reused:
            await recorder.client.start_run("pair", input={"mark": "other"}, request_id="r-1")
        assert reused.value.metadata["run_id"] == runs[0]
        await recorder.judged([runs[0]], entries=shop.entries, effects=worlds.EFFECTS)


async def test_two_hundred_requests_of_different_content_start_the_first_one_alone(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start()
    async with callers(server) as clients:
        await clients[0].put_workflow(worlds.PAIR)
        answers = await asyncio.gather(
            *(
                clients[number % CLIENTS].start_run("pair", input={"mark": str(number)}, request_id="r-1")
                for number in range(DUPLICATES)
            ),
            return_exceptions=True,
        )

        won = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert [answer.disposition for answer in won] == [StartDisposition.START_DISPOSITION_STARTED]
        assert {type(answer) for answer in answers if isinstance(answer, BaseException)} == {RequestIdReused}
        done = await clients[0].wait_run(won[0].run.run_id)
        assert done.run.state == RunState.RUN_STATE_SUCCEEDED
        assert len(shop.of("charge")) == 1


async def test_one_client_can_have_hundreds_of_calls_under_way(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    await server.start()
    async with server.client() as client:
        answers = await asyncio.gather(*(client.get_server_info() for _ in range(400)))
    assert len(answers) == 400
