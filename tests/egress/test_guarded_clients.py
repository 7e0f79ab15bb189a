import asyncio
import gzip
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from jackline_server.egress.client import GuardedClients
from jackline_server.egress.resolving import AddressInfo, checked_sockets, system_socket
from jackline_server.runtime.ports.http import (
    UNREACHABLE,
    HttpRefused,
    HttpTooLarge,
    HttpUncertain,
    HttpUnreadable,
    HttpUnsent,
    Origin,
    Reach,
)
from tests.egress.raw_server import Received, always, answer, serving
from tests.support.certificates import own_tls

pytestmark = pytest.mark.timeout(30)


class FakeResolver:
    """Gives one list of addresses after the other, the last again and again, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def test_an_origin_that_the_operator_wrote_may_be_loopback():
    async with serving(always(answer(b'{"ok":true}'))) as server:
        response = await GuardedClients().request(server.request("/a?b=c", headers={"X-One": "1"}))
    assert (response.status, response.body) == (200, b'{"ok":true}')
    [received] = server.ledger
    assert (received.method, received.target, received.headers["x-one"]) == ("GET", "/a?b=c", "1")
    assert received.headers["host"] == f"127.0.0.1:{server.port}"
    assert received.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "①②⑦.⓪.⓪.①",
        "0",
        "::ffff:127.0.0.1",
        "::1",
        "localhost",
    ],
)
@pytest.mark.parametrize("reach", [Reach(), Reach(hosts=frozenset({"127.0.0.1", "127.1", "localhost"}))])
async def test_no_spelling_of_loopback_is_reached_without_the_operators_word(host: str, reach: Reach):
    async with serving(always(answer())) as server:
        for port in (server.port, 80):
            origin = Origin(scheme="http", host=host, port=port)
            with pytest.raises((HttpRefused, HttpUnsent)) as caught:
                await GuardedClients().request(server.request(origin=origin, reach=reach))
            assert caught.value.message == UNREACHABLE
    assert server.connections == 0


async def test_a_name_that_turns_from_public_to_loopback_is_resolved_only_once():
    dialled: list[object] = []

    def dial(info: AddressInfo) -> socket.socket:
        dialled.append(info[4][0])
        raise ConnectionRefusedError

    resolver = FakeResolver(["8.8.8.8"], ["127.0.0.1"])
    clients = GuardedClients(resolve=resolver, make_socket=dial)
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="rebinding.example", port=80)
        request = server.request(origin=origin, reach=Reach(), total_ms=2_000)
        with pytest.raises(HttpUnsent):
            await clients.request(request)
        assert (resolver.asked, dialled) == (["rebinding.example"], ["8.8.8.8"])
        with pytest.raises(HttpRefused):
            await clients.request(request)
    assert (server.connections, dialled) == (0, ["8.8.8.8"])


def test_no_socket_is_made_for_an_address_that_is_refused():
    make = checked_sockets(lambda address: f"{address} is refused", system_socket)
    with pytest.raises(PermissionError):
        make((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)))


async def test_one_private_address_among_public_ones_refuses_the_host():
    resolver = FakeResolver(["8.8.8.8", "127.0.0.1"])
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="mixed.example", port=80)
        with pytest.raises(HttpRefused):
            await GuardedClients(resolve=resolver).request(server.request(origin=origin, reach=Reach()))
    assert server.connections == 0


async def test_a_trusted_name_keeps_its_host_header_and_is_connected_where_it_resolved_to():
    resolver = FakeResolver(["127.0.0.1"])
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="orders.internal", port=server.port)
        reach = Reach(trusted=frozenset({origin}))
        await GuardedClients(resolve=resolver).request(server.request(origin=origin, reach=reach))
    assert server.ledger[0].headers["host"] == f"orders.internal:{server.port}"


@pytest.mark.parametrize("host", ["169.254.169.254", "fd00:ec2::254", "0.0.0.0"])
async def test_metadata_addresses_are_refused_even_to_the_operators_word(host: str):
    origin = Origin(scheme="http", host=host, port=80)
    reach = Reach(trusted=frozenset({origin}), allow_private=True)
    async with serving(always(answer())) as server:
        with pytest.raises(HttpRefused):
            await GuardedClients().request(server.request(origin=origin, reach=reach))


async def test_our_own_ports_are_refused_unless_the_operator_wrote_them():
    resolver = FakeResolver(["127.0.0.1"])
    async with serving(always(answer())) as server:
        clients = GuardedClients(own_ports=frozenset({server.port, 80}), resolve=resolver)
        origin = Origin(scheme="http", host="orders.internal", port=80)
        reach = Reach(hosts=frozenset({"orders.internal"}), allow_private=True)
        with pytest.raises(HttpRefused):
            await clients.request(server.request(origin=origin, reach=reach))
        assert (await clients.request(server.request())).status == 200
    assert resolver.asked == ["127.0.0.1"]


async def test_a_blocked_host_and_an_unknown_one_read_the_same():
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError(f"no such host {host}:{port}")

    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="somewhere.example", port=80)
        request = server.request(origin=origin, reach=Reach())
        with pytest.raises(HttpUnsent) as unsent:
            await GuardedClients(resolve=unknown).request(request)
        with pytest.raises(HttpRefused) as refused:
            await GuardedClients(resolve=FakeResolver(["10.0.0.1"])).request(request)
    assert unsent.value.message == refused.value.message == UNREACHABLE
    assert unsent.value.detail != refused.value.detail


@pytest.mark.parametrize(
    "target", ["", "x", "//evil\r\nHost: a", "/a b", "/a#b", "/\N{LATIN SMALL LETTER A WITH ACUTE}", "/a\x00"]
)
async def test_a_target_that_is_no_encoded_path_is_refused(target: str):
    async with serving(always(answer())) as server:
        with pytest.raises(HttpRefused):
            await GuardedClients().request(server.request(target))
    assert server.connections == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "a"), ("Cookie", "a=b"), ("Content-Length", "3"), ("X-A", "b\r\nX-C: d"), ("X\n", "a")],
)
async def test_a_header_that_is_ours_or_breaks_the_line_is_refused(name: str, value: str):
    async with serving(always(answer())) as server:
        with pytest.raises(HttpRefused):
            await GuardedClients().request(server.request(headers={name: value}))
    assert server.connections == 0


async def test_a_refused_connection_is_unsent():
    async with serving(always(answer())) as server:
        pass
    with pytest.raises(HttpUnsent):
        await GuardedClients().request(server.request(total_ms=2_000))


async def test_a_failed_handshake_is_unsent():
    async with serving(always(answer())) as server:
        origin = Origin(scheme="https", host="127.0.0.1", port=server.port)
        reach = Reach(trusted=frozenset({origin}))
        with pytest.raises(HttpUnsent):
            await GuardedClients().request(server.request(origin=origin, reach=reach, total_ms=1_000))
    assert server.ledger == []


async def test_a_certificate_that_nobody_vouches_for_is_unsent(tmp_path: Path):
    async with serving(always(answer()), tls=own_tls(tmp_path)) as server:
        origin = Origin(scheme="https", host="127.0.0.1", port=server.port)
        with pytest.raises(HttpUnsent) as raised:
            await GuardedClients().request(
                server.request(origin=origin, reach=Reach(trusted=frozenset({origin})))
            )
    assert "certificate" in raised.value.detail
    assert server.ledger == []


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_connection_closed_after_the_request_is_uncertain_and_never_retried(method: str):
    async with serving(always(b"")) as server:
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request(method=method))
    assert len(server.ledger) == 1


async def test_an_answer_cut_in_the_middle_is_uncertain():
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    async with serving(always(cut)) as server:
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request())


async def test_a_reset_while_waiting_is_uncertain():
    async def reset(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with serving(reset) as server:
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request())
    assert len(server.ledger) == 1


async def test_a_silent_server_is_uncertain_when_the_total_time_is_over():
    async with serving(always(b"")) as server:

        async def silent(_: Received, __: asyncio.StreamWriter) -> None:
            await server.released.wait()

        server.behave = silent
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request(total_ms=200))


async def test_headers_that_drip_are_cut_off_by_the_header_timer():
    async with serving(always(b"")) as server:

        async def drip(_: Received, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                writer.write(b"X-A: b\r\n")
                await writer.drain()
                async with asyncio.timeout(0.05):
                    await server.released.wait()

        async def forever(received: Received, writer: asyncio.StreamWriter) -> None:
            try:
                await drip(received, writer)
            except TimeoutError:
                await server.released.wait()

        server.behave = forever
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request(total_ms=20_000, header_ms=200))


@pytest.mark.parametrize("announced", [True, False])
async def test_an_endless_body_is_cut_while_it_is_read(announced: bool):
    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        length = b"Content-Length: 99999999999\r\n" if announced else b""
        writer.write(b"HTTP/1.1 200 OK\r\n" + length + b"\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with serving(endless) as server:
        with pytest.raises(HttpTooLarge):
            await GuardedClients().request(server.request())


async def test_a_body_of_exactly_the_cap_is_taken_and_one_byte_more_is_not():
    async with serving(always(answer(b"x" * 1_000))) as server:
        assert len((await GuardedClients().request(server.request(max_bytes=1_000))).body) == 1_000
        with pytest.raises(HttpTooLarge):
            await GuardedClients().request(server.request(max_bytes=999))


async def test_a_compressed_answer_is_refused_and_never_inflated():
    bomb = gzip.compress(b"0" * 10_000_000)
    async with serving(always(answer(bomb, more="Content-Encoding: gzip\r\n"))) as server:
        with pytest.raises(HttpUnreadable):
            await GuardedClients().request(server.request())


@pytest.mark.parametrize("junk", [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 2000 OK\r\n\r\n", b"\x00" * 50])
async def test_an_answer_that_is_not_http_is_uncertain(junk: bytes):
    async with serving(always(junk)) as server:
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request())


async def test_a_header_line_without_end_is_cut_off():
    async with serving(always(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000)) as server:
        with pytest.raises(HttpUncertain):
            await GuardedClients().request(server.request())


async def test_cookies_are_not_kept():
    async with serving(always(answer(more="Set-Cookie: a=b; Path=/\r\n"))) as server:
        clients = GuardedClients()
        await clients.request(server.request())
        await clients.request(server.request())
    assert [received.headers.get("cookie") for received in server.ledger] == [None, None]


def redirect(to: str, status: str = "302 Found") -> bytes:
    return answer(b"", status=status, more=f"Location: {to}\r\n")


async def test_a_redirect_on_the_same_host_is_followed_with_its_headers():
    async def behave(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(redirect("/there") if received.target == "/here" else answer(b'"there"'))

    async with serving(behave) as server:
        request = server.request("/here", headers={"Authorization": "token"})
        response = await GuardedClients().request(request)
    assert response.body == b'"there"'
    assert [received.headers["authorization"] for received in server.ledger] == ["token", "token"]


async def test_redirects_without_end_stop_after_three():
    async with serving(always(redirect("/again"))) as server:
        response = await GuardedClients().request(server.request())
    assert (response.status, len(server.ledger)) == (302, 4)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
async def test_a_redirect_of_anything_but_a_read_is_handed_back(method: str, status: str):
    async with serving(always(redirect("/elsewhere", status))) as server:
        response = await GuardedClients().request(server.request(method=method))
    assert (response.status, len(server.ledger)) == (int(status[:3]), 1)


async def test_a_redirect_to_another_host_or_port_reaches_nobody():
    async with serving(always(answer(b'"secret"'))) as victim:
        targets = [
            f"http://127.0.0.1:{victim.port}/",
            f"http://localhost:{victim.port}/",
            f"http://[::1]:{victim.port}/",
            f"http://user@127.0.0.1:{victim.port}/",
            f"//127.1:{victim.port}/",
            "http://169.254.169.254/latest/meta-data/",
            "https://169.254.169.254/",
            "file:///etc/passwd",
            "gopher://127.0.0.1/",
            "http://[",
        ]
        for target in targets:
            async with serving(always(redirect(target))) as server:
                response = await GuardedClients().request(server.request(headers={"Authorization": "token"}))
            assert (response.status, len(server.ledger)) == (302, 1)
    assert victim.connections == 0


async def test_cancelling_a_request_closes_its_connection():
    arrived = asyncio.Event()
    closed = asyncio.Event()

    async with serving(always(b"")) as server:

        async def hold(received: Received, _: asyncio.StreamWriter) -> None:
            arrived.set()
            await received.hung_up()
            closed.set()

        server.behave = hold
        task = asyncio.ensure_future(GuardedClients().request(server.request()))
        await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 5)
