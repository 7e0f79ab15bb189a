"""Servers of 2024-11-05: a standing stream of events, and a path to post to that they name in it."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.tools import ToolEnding
from tests.egress.raw_server import Behaviour, Received, always, answer, serving
from tests.support.mcp_servers import served_over_http
from tests.tools.mcp.remote_server import NOT_FOUND, STREAM, event, result_of, until
from tests.tools.mcp.scene import NAME, at, reached

COMPLETED, FAILED, UNCERTAIN = ToolEnding.COMPLETED, ToolEnding.FAILED, ToolEnding.UNCERTAIN
Called = Callable[[asyncio.StreamWriter, asyncio.StreamWriter, int], None]


async def test_a_tool_of_an_old_server_is_listed_and_called(tmp_path: Path) -> None:
    async with served_over_http(old=True) as (port, said), reached(at(port, old=True), tmp_path) as scene:
        result = await scene.call("say", {"text": "hello"}, effect=Effect.WRITE)
        assert result.ending is COMPLETED, result
        assert said == ["hello"]


async def test_an_old_server_is_told_to_stop(tmp_path: Path) -> None:
    async with served_over_http(old=True) as (port, said), reached(at(port, old=True), tmp_path) as scene:
        await scene.servers.refresh([NAME])
        assert (await scene.call("wait", effect=Effect.WRITE, timeout_ms=500)).ending is UNCERTAIN
        await until(lambda: "told to stop" in said)
        assert (await scene.call("say", {"text": "on"})).ending is COMPLETED


def old_server(called: Called, *, path: str = "/post?session_id=1") -> Behaviour:
    """Behaves until a tool is called: then `called` has the stream, and the request that asked."""
    streams: list[asyncio.StreamWriter] = []

    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        if received.method == "GET":
            streams.append(writer)
            writer.write(STREAM + event(path, "endpoint"))
            await received.hung_up()
            return
        message = json.loads(received.body)
        if message["method"] == "tools/call":
            called(streams[-1], writer, message["id"])
            return
        writer.write(answer(b"Accepted", status="202 Accepted"))
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"])}
            streams[-1].write(event(reply))

    return behave


@pytest.mark.parametrize(
    ("reply", "write"),
    [
        (answer(b"no", status="401 Unauthorized"), FAILED),
        (answer(b"no", status="500 Oops"), UNCERTAIN),
        (answer(b"no", status="307 Elsewhere", more="Location: /elsewhere\r\n"), UNCERTAIN),
        (b"HTTP/1.1 garbage", UNCERTAIN),
    ],
    ids=["401", "500", "redirect", "broken"],
)
@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_a_call_that_can_not_be_posted_fails_at_once(
    tmp_path: Path, reply: bytes, write: ToolEnding, effect: Effect
) -> None:
    def called(_: asyncio.StreamWriter, post: asyncio.StreamWriter, __: int) -> None:
        post.write(reply)

    async with (
        serving(old_server(called)) as server,
        reached(at(server.port, old=True), tmp_path) as scene,
    ):
        async with asyncio.timeout(20):
            found = await scene.call("say", effect=effect, timeout_ms=60_000)
        assert found.ending is (write if effect is Effect.WRITE else FAILED)
        assert not found.timed_out


async def test_a_stream_that_ends_fails_the_call_that_waits_for_it(tmp_path: Path) -> None:
    def called(stream: asyncio.StreamWriter, post: asyncio.StreamWriter, _: int) -> None:
        post.write(answer(b"", status="202 Accepted"))
        stream.close()

    async with (
        serving(old_server(called)) as server,
        reached(at(server.port, old=True), tmp_path) as scene,
    ):
        async with asyncio.timeout(20):
            found = await scene.call("say", effect=Effect.WRITE, timeout_ms=60_000)
        assert (found.ending, found.timed_out) == (UNCERTAIN, False)


async def test_a_session_that_an_old_server_forgot_is_renewed(tmp_path: Path) -> None:
    answered: list[int] = []

    def called(stream: asyncio.StreamWriter, post: asyncio.StreamWriter, request: int) -> None:
        answered.append(request)
        if len(answered) == 1:
            post.write(NOT_FOUND)
            return
        post.write(answer(b"", status="202 Accepted"))
        stream.write(event({"jsonrpc": "2.0", "id": request, "result": result_of("tools/call")}))

    async with (
        serving(old_server(called)) as server,
        reached(at(server.port, old=True), tmp_path) as scene,
    ):
        assert (await scene.call("say", effect=Effect.WRITE)).ending is COMPLETED
        assert len(answered) == 2


@pytest.mark.parametrize("path", ["http://127.0.0.1:{victim}/post", "//127.0.0.1:{victim}/post", "http://["])
async def test_a_path_at_another_server_is_not_posted_to(tmp_path: Path, path: str) -> None:
    def called(*_: object) -> None:
        raise AssertionError

    async with serving(always(answer())) as victim:
        behave = old_server(called, path=path.format(victim=victim.port))
        async with serving(behave) as server, reached(at(server.port, old=True), tmp_path) as scene:
            assert await scene.servers.refresh([NAME]) == {NAME: None}
            assert victim.connections == 0


@pytest.mark.parametrize(
    "reply",
    [
        answer(b"no", status="404 Not Found"),
        answer(b"{}"),
        answer(b"event: endpoint\n\n", content_type="text/event-stream"),
        answer(b"data: {}\n\n", content_type="text/event-stream"),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n",
    ],
)
async def test_what_is_no_stream_of_an_old_server_has_no_catalog(tmp_path: Path, reply: bytes) -> None:
    async with serving(always(reply)) as server, reached(at(server.port, old=True), tmp_path) as scene:
        assert await scene.servers.refresh([NAME]) == {NAME: None}
        assert isinstance(scene.servers.catalog(NAME), str)
