"""One attempt at an endpoint: what it gets, what its answers mean, and what a hostile one can't do.

The judge is the endpoint's own ledger.
"""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.ports.http import Origin, Reach
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.webhooks import AttemptOutcome, Tried, WebhookEndpoint, signing_key
from jackline_server.webhooks.sending import RETRY_AFTER_MOST_MS, EndpointSender, signed_headers
from tests.egress.raw_server import Behaviour, RawServer, Received, always, answer, serving
from tests.support.certificates import own_tls
from tests.webhooks.endpoints import KEY, OLD_KEY, OLD_SECRET, SECRET, endpoint, is_signed

pytestmark = pytest.mark.timeout(60)

BODY = b'{"type":"run.finished"}'
METADATA = Origin(scheme="http", host="169.254.169.254", port=80)


@contextlib.asynccontextmanager
async def sender_to(
    server: RawServer, *, clients: GuardedClients | None = None, **more: Any
) -> AsyncGenerator[EndpointSender]:
    async with sending(endpoint(origin=server.origin, **more), clients) as sender:
        yield sender


@contextlib.asynccontextmanager
async def sending(
    to: WebhookEndpoint, clients: GuardedClients | None = None
) -> AsyncGenerator[EndpointSender]:
    sender = EndpointSender(to, pools=clients or GuardedClients(), clock=SystemClock())
    try:
        yield sender
    finally:
        await sender.close()


async def tried(behave: Behaviour, **more: Any) -> tuple[Tried, RawServer]:
    async with serving(behave) as server, sender_to(server, **more) as sender, asyncio.timeout(30):
        return await sender.send("msg_1", BODY), server


def resolving(*answers: Sequence[str]):
    left = list(answers)

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return left.pop(0)

    return resolve


async def test_an_endpoint_gets_one_post_with_the_body_and_the_three_headers() -> None:
    result, server = await tried(always(answer(b"", status="204 No Content")))

    assert (result.outcome, result.status) == (AttemptOutcome.DELIVERED, 204)
    (got,) = server.ledger
    assert (got.method, got.target, got.body) == ("POST", "/jackline?x=1", BODY)
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-id"] == "msg_1"
    assert abs(int(got.headers["webhook-timestamp"]) - SystemClock().unix_ms() // 1000) < 60
    assert is_signed(got.headers, got.body)
    assert not is_signed(got.headers, got.body + b" ")


async def test_while_a_secret_is_rotated_both_verify() -> None:
    _, server = await tried(always(answer()), secrets=(SECRET, OLD_SECRET))

    (got,) = server.ledger
    assert is_signed(got.headers, got.body, key=KEY)
    assert is_signed(got.headers, got.body, key=OLD_KEY)
    assert not is_signed(got.headers, got.body, key=b"x" * 24)


def test_the_signature_is_that_of_the_standard() -> None:
    """The published example of Standard Webhooks' libraries."""
    key = signing_key(Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', keys=[key], unix_s=1_614_265_330
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("200 OK", AttemptOutcome.DELIVERED),
        ("299 Fine", AttemptOutcome.DELIVERED),
        ("301 Moved", AttemptOutcome.REDIRECTED),
        ("400 Bad", AttemptOutcome.REFUSED),
        ("404 Not Found", AttemptOutcome.REFUSED),
        ("410 Gone", AttemptOutcome.GONE),
        ("429 Slow down", AttemptOutcome.REFUSED),
        ("500 Oh", AttemptOutcome.SERVER_ERROR),
        ("503 Later", AttemptOutcome.SERVER_ERROR),
        ("999 Odd", AttemptOutcome.REFUSED),
    ],
)
async def test_an_answer_means_what_its_status_says(status: str, outcome: AttemptOutcome) -> None:
    result, server = await tried(always(answer(b"no", status=status)))

    assert (result.outcome, result.status) == (outcome, int(status[:3]))
    assert len(server.ledger) == 1


@pytest.mark.parametrize(
    ("header", "wait"),
    [("120", 120_000), ("999999", RETRY_AFTER_MOST_MS), ("-5", None), ("soon", None), ("", None)],
)
async def test_what_an_endpoint_asks_to_wait_is_heard_up_to_an_hour(header: str, wait: int | None) -> None:
    busy = answer(b"", status="429 Slow down", more=f"Retry-After: {header}\r\n")
    result, _ = await tried(always(busy))

    assert result.retry_after_ms == wait


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_no_redirect_is_followed_least_of_all_to_the_metadata_service(status: str) -> None:
    moved = answer(b"", status=status, more="Location: http://169.254.169.254/latest/meta-data/\r\n")
    result, server = await tried(always(moved))

    assert result.outcome is AttemptOutcome.REDIRECTED
    assert (len(server.ledger), server.connections) == (1, 1)


async def test_an_endpoint_that_never_answers_has_its_time_and_no_more() -> None:
    async def silent(got: Received, _writer: asyncio.StreamWriter) -> None:
        await got.hung_up()

    result, server = await tried(silent, timeout_ms=200)

    assert (result.outcome, result.status) == (AttemptOutcome.TIMED_OUT, 0)
    assert len(server.ledger) == 1


async def test_a_head_that_comes_byte_by_byte_has_the_same_time() -> None:
    async def drip(got: Received, writer: asyncio.StreamWriter) -> None:
        left = asyncio.ensure_future(got.hung_up())
        for one in b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 4_000:
            writer.write(bytes([one]))
            await writer.drain()
            if left.done():
                return
            await asyncio.wait([left], timeout=0.05)

    result, _ = await tried(drip, timeout_ms=300)

    assert (result.outcome, result.status) == (AttemptOutcome.TIMED_OUT, 0)


async def test_a_body_without_end_is_left_at_once_and_the_delivery_counts() -> None:
    sent = 0

    async def endless(_: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            sent += 65_536

    result, _ = await tried(endless)

    assert (result.outcome, result.status) == (AttemptOutcome.DELIVERED, 200)
    assert sent < 16 << 20


async def test_a_compressed_answer_counts_by_its_status_alone() -> None:
    result, _ = await tried(always(answer(b"\x1f\x8b bomb", more="Content-Encoding: gzip\r\n")))

    assert (result.outcome, result.status) == (AttemptOutcome.DELIVERED, 200)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nX-Big: " + b"a" * 100_000 + b"\r\n\r\n",
        b"".join([b"HTTP/1.1 200 OK\r\n", *(b"X-%d: a\r\n" % one for one in range(20_000)), b"\r\n"]),
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"\x00" * 1_000,
    ],
    ids=["a huge header", "many headers", "not HTTP", "zeros"],
)
async def test_what_is_no_answer_is_no_delivery(raw: bytes) -> None:
    result, _ = await tried(always(raw))

    assert result.outcome in {AttemptOutcome.NOT_HTTP, AttemptOutcome.BROKEN_OFF}


async def test_an_endpoint_that_hangs_up_may_have_it_and_is_asked_again_later() -> None:
    async def hang_up(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    result, server = await tried(hang_up)

    assert (result.outcome, result.status) == (AttemptOutcome.BROKEN_OFF, 0)
    assert len(server.ledger) == 1


async def test_nobody_there_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        origin = Origin(scheme="http", host="127.0.0.1", port=taken.getsockname()[1])
        async with sending(endpoint(origin=origin)) as sender, asyncio.timeout(30):
            result = await sender.send("msg_1", BODY)

    assert (result.outcome, result.status) == (AttemptOutcome.UNREACHABLE, 0)


async def test_a_server_that_speaks_no_tls_gets_nothing_over_https() -> None:
    async with serving(always(answer())) as server:
        origin = Origin(scheme="https", host="127.0.0.1", port=server.port)
        async with sending(endpoint(origin=origin, timeout_ms=300)) as sender, asyncio.timeout(30):
            result = await sender.send("msg_1", BODY)

    assert (result.outcome, result.status) == (AttemptOutcome.TIMED_OUT, 0)
    assert server.ledger == []


async def test_a_certificate_that_nobody_vouches_for_is_no_endpoint(tmp_path: Path) -> None:
    async with serving(always(answer()), tls=own_tls(tmp_path)) as server:
        origin = Origin(scheme="https", host="127.0.0.1", port=server.port)
        async with sending(endpoint(origin=origin)) as sender, asyncio.timeout(30):
            result = await sender.send("msg_1", BODY)

    assert (result.outcome, result.status) == (AttemptOutcome.UNREACHABLE, 0)
    assert server.ledger == []


PRIVATE: Mapping[str, Sequence[str]] = {
    "loopback": ["127.0.0.1"],
    "private": ["10.0.0.7"],
    "one of two": ["93.184.216.34", "192.168.1.1"],
    "inside v6": ["::ffff:127.0.0.1"],
}


@pytest.mark.parametrize("addresses", PRIVATE.values(), ids=PRIVATE.keys())
async def test_a_name_that_leads_to_a_private_address_is_not_reached(addresses: Sequence[str]) -> None:
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="hooks.example", port=server.port)
        reach = Reach(trusted=frozenset({origin}), trusted_private=False)
        clients = GuardedClients(resolve=resolving(addresses))
        async with sending(endpoint(origin=origin, reach=reach), clients) as sender, asyncio.timeout(30):
            result = await sender.send("msg_1", BODY)

    assert result.outcome in {AttemptOutcome.FORBIDDEN, AttemptOutcome.UNREACHABLE}
    assert (server.connections, server.ledger) == (0, [])


async def test_a_name_that_turns_private_between_two_attempts_is_not_reached() -> None:
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="hooks.example", port=server.port)
        reach = Reach(trusted=frozenset({origin}), trusted_private=False)
        clients = GuardedClients(resolve=resolving(["203.0.113.9"], ["127.0.0.1"]))
        to = endpoint(origin=origin, reach=reach, timeout_ms=300)
        async with sending(to, clients) as sender, asyncio.timeout(30):
            await sender.send("msg_1", BODY)
            again = await sender.send("msg_1", BODY)

    assert again.outcome in {AttemptOutcome.FORBIDDEN, AttemptOutcome.UNREACHABLE}
    assert (server.connections, server.ledger) == (0, [])


async def test_a_name_that_the_operator_let_be_private_is_reached() -> None:
    async with serving(always(answer())) as server:
        origin = Origin(scheme="http", host="receiver.internal", port=server.port)
        clients = GuardedClients(resolve=resolving(["127.0.0.1"]))
        async with sending(endpoint(origin=origin), clients) as sender, asyncio.timeout(30):
            result = await sender.send("msg_1", BODY)

    assert result.outcome is AttemptOutcome.DELIVERED
    assert len(server.ledger) == 1


async def test_the_metadata_service_is_reached_by_nobody_whatever_is_written() -> None:
    async with sending(endpoint(origin=METADATA)) as sender, asyncio.timeout(30):
        result = await sender.send("msg_1", BODY)

    assert result.outcome is AttemptOutcome.FORBIDDEN


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_secret_has_24_to_64_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        signing_key(Secret("whsec_" + base64.b64encode(b"k" * size).decode()))


@pytest.mark.parametrize("text", ["", "whsec", "secret_" + "a" * 40, "whsec_!!!", "whsec_abc"])
def test_what_is_no_secret_of_the_standard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        signing_key(Secret(text))
