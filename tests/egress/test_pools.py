import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.ports.http import (
    HttpFailure,
    HttpRefused,
    HttpUncertain,
    HttpUnreadable,
    HttpUnsent,
    Origin,
    Reach,
)
from jackline_server.runtime.ports.http_streams import HttpAnswer, HttpPool, PoolSettings
from tests.egress.raw_server import RawServer, Received, always, answer, serving
from tests.support.certificates import own_tls

pytestmark = pytest.mark.timeout(30)

PRIVATE = Origin(scheme="http", host="inner.example", port=80)


def settings(origin: Origin, *, trusted: bool = True, connections: int = 4) -> PoolSettings:
    reach = Reach(trusted=frozenset({origin} if trusted else ()))
    return PoolSettings(origin=origin, reach=reach, connections=connections, connect_ms=2_000)


@contextlib.asynccontextmanager
async def pool_to(
    server: RawServer, clients: GuardedClients | None = None, *, scheme: str = "http"
) -> AsyncGenerator[HttpPool]:
    origin = Origin(scheme=scheme, host="127.0.0.1", port=server.port)
    pool = await (clients or GuardedClients()).pool(settings(origin))
    try:
        yield pool
    finally:
        await pool.close()


async def whole(answer: HttpAnswer) -> bytes:
    parts: list[bytes] = []
    while part := await answer.read():
        parts.append(part)
    return b"".join(parts)


async def post(pool: HttpPool, body: bytes = b"{}") -> tuple[int, bytes]:
    async with asyncio.timeout(10), pool.post("/a?b=c", headers={"X-One": "1"}, body=body) as got:
        return got.status, await whole(got)


async def failure_of(pool: HttpPool) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        await post(pool)
    return caught.value


def resolving(*answers: Sequence[str]):
    left = list(answers)

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


async def test_a_request_goes_out_as_it_is_and_its_answer_comes_back():
    async with (
        serving(always(answer(b"yes", more="X-Two: 2\r\n"))) as server,
        pool_to(server) as pool,
        pool.post("/a%20b?c=d", headers={"X-One": "1"}, body=b"{}") as got,
    ):
        assert (got.status, got.headers.get("x-two"), await whole(got)) == (200, "2", b"yes")
    [received] = server.ledger
    assert (received.method, received.target, received.body) == ("POST", "/a%20b?c=d", b"{}")
    assert (received.headers["x-one"], received.headers["accept-encoding"]) == ("1", "identity")


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Again", "308 Again"])
async def test_a_redirect_is_an_answer_and_never_followed(status: str):
    moved = always(answer(b"", status=status, more="Location: /elsewhere\r\n"))
    async with serving(moved) as server, pool_to(server) as pool:
        assert (await post(pool))[0] == int(status[:3])
    assert len(server.ledger) == 1


async def test_no_cookie_is_kept():
    async with (
        serving(always(answer(more="Set-Cookie: a=b\r\nConnection: close\r\n"))) as server,
        pool_to(server) as pool,
    ):
        await post(pool)
        await post(pool)
    assert [received.headers.get("cookie") for received in server.ledger] == [None, None]


async def test_a_compressed_answer_is_refused():
    async with serving(always(answer(more="Content-Encoding: gzip\r\n"))) as server, pool_to(server) as pool:
        assert isinstance(await failure_of(pool), HttpUnreadable)


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "fd00:ec2::254"])
async def test_what_is_never_reached_gets_no_pool_even_with_the_operators_word(host: str):
    with pytest.raises(HttpRefused):
        await GuardedClients().pool(settings(Origin(scheme="http", host=host, port=80)))


@pytest.mark.parametrize(
    "origin",
    [
        Origin(scheme="http", host="127.0.0.1", port=80),
        Origin(scheme="http", host="example.com", port=8080),
        Origin(scheme="ftp", host="example.com", port=80),
    ],
)
async def test_an_origin_that_nobody_wrote_is_bound_by_the_rules(origin: Origin):
    with pytest.raises(HttpRefused):
        await GuardedClients().pool(settings(origin, trusted=False))


async def test_an_address_is_looked_at_for_each_connection():
    async with serving(always(answer(b"yes", more="Connection: close\r\n"))) as server:
        origin = Origin(scheme="http", host="inner.example", port=server.port)
        clients = GuardedClients(resolve=resolving(["127.0.0.1"], ["169.254.169.254"]))
        pool = await clients.pool(settings(origin))
        assert await post(pool) == (200, b"yes")
        assert isinstance(await failure_of(pool), HttpRefused), (
            "the server has hung up: this is a new connection"
        )
        await pool.close()
    assert server.connections == 1


async def test_a_private_address_is_reached_by_the_operators_word_alone():
    clients = GuardedClients(resolve=resolving(["10.0.0.1"]))
    pool = await clients.pool(settings(PRIVATE, trusted=False))
    assert isinstance(await failure_of(pool), HttpRefused)
    await pool.close()


@pytest.mark.parametrize("addresses", [[], ["127.0.0.1", "169.254.169.254"]])
async def test_a_host_without_addresses_or_with_a_bad_one_is_not_reached(addresses: list[str]):
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="inner.example", port=server.port)
        pool = await GuardedClients(resolve=resolving(addresses)).pool(settings(origin))
        assert isinstance(await failure_of(pool), HttpRefused | HttpUnsent)
        await pool.close()
        assert server.connections == 0


async def test_a_certificate_that_nobody_vouches_for_is_unsent(tmp_path: Path):
    async with (
        serving(always(answer()), tls=own_tls(tmp_path)) as server,
        pool_to(server, scheme="https") as pool,
    ):
        assert isinstance(await failure_of(pool), HttpUnsent)
    assert server.ledger == []


async def test_an_answer_that_is_no_http_is_unreadable():
    async with serving(always(b"SSH-2.0-OpenSSH\r\n\r\n")) as server, pool_to(server) as pool:
        assert isinstance(await failure_of(pool), HttpUnreadable)


async def test_a_hang_up_after_the_request_is_uncertain_and_nothing_is_sent_again():
    async with serving(always(b"")) as server, pool_to(server) as pool:
        assert isinstance(await failure_of(pool), HttpUncertain)
        assert len(server.ledger) == 1


async def test_a_body_that_is_cut_is_no_whole_answer():
    cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    async with serving(always(cut)) as server, pool_to(server) as pool:
        assert isinstance(await failure_of(pool), HttpUncertain)


async def test_a_connection_whose_answer_was_left_in_the_middle_is_closed_and_not_used_again():
    gone = asyncio.Event()

    async def drip(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello")
        await received.hung_up()
        gone.set()

    async with serving(drip) as server, pool_to(server) as pool:
        async with pool.post("/", headers={}, body=b"") as got:
            assert await got.read() == b"hello"
        async with asyncio.timeout(5):
            await gone.wait()
        async with pool.post("/", headers={}, body=b"") as got:
            assert got.status == 200
    assert server.connections == 2


@pytest.mark.parametrize("size", [2, 64 << 20], ids=["a request that was sent", "one that is not read"])
async def test_cancelling_closes_the_connection_at_once(size: int):
    arrived = asyncio.Event()
    closed = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        try:
            while not released.is_set():
                await released.wait()
            while await reader.read(1 << 20):
                pass
        except OSError:
            pass
        closed.set()
        writer.close()

    released = asyncio.Event()
    listener = await asyncio.start_server(hold, "127.0.0.1", 0, limit=1 << 16)
    origin = Origin(scheme="http", host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
    pool = await GuardedClients().pool(settings(origin))
    task = asyncio.create_task(post(pool, b"x" * size))
    async with asyncio.timeout(10):
        await arrived.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        released.set()
        await closed.wait()
    await pool.close()
    listener.close()
