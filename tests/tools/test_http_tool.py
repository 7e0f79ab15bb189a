import asyncio
import json

import pytest

from jackline_server.core.plan import Effect, HttpAction
from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.driving.cut_results import KEPT_BYTES
from jackline_server.runtime.ports.connection_guards import FAILURES
from jackline_server.runtime.ports.http import HttpConnection
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.http import HttpTool
from jackline_server.tools.toolbox import StepToolbox
from tests.egress.raw_server import RawServer, Received, always, answer, serving
from tests.tools.invocations import http_action, invocation

pytestmark = pytest.mark.timeout(30)

READ, IDEMPOTENT, WRITE = Effect.READ, Effect.IDEMPOTENT, Effect.WRITE
FAILED, UNCERTAIN, COMPLETED = ToolEnding.FAILED, ToolEnding.UNCERTAIN, ToolEnding.COMPLETED


def toolbox(server: RawServer, *, concurrency: int = 4, timeout_ms: int = 5_000) -> StepToolbox:
    connection = HttpConnection(
        name="orders",
        origin=server.origin,
        base_path="/api",
        headers={"authorization": Secret("Bearer planted-secret-1")},
        timeout_ms=timeout_ms,
        header_timeout_ms=timeout_ms,
        concurrency=concurrency,
        reach=server.trusted,
    )
    return StepToolbox(
        http=HttpTool(clients=GuardedClients(), connections={"orders": connection}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=[])),
    )


async def called(reply: bytes, action: HttpAction | None = None, *, effect: Effect = READ) -> ToolResult:
    async with serving(always(reply)) as server:
        return await toolbox(server).call(invocation(action or http_action(), effect=effect))


async def test_a_call_goes_to_the_connection_with_its_headers_and_the_call_key():
    async with serving(always(answer(b'{"state": "open"}'))) as server:
        action = http_action(
            "/orders/{{ id }}",
            method="POST",
            query={"shop": "{{ shop }}"},
            headers={"Authorization": "mine", "X-Note": "{{ shop }}"},
            body_json='{"id": "{{ id }}"}',
        )
        call = invocation(action, {"id": "o1", "shop": "s&t"}, bound={"id": "o2"}, effect=WRITE)
        result = await toolbox(server).call(call)
    assert (result.ending, result.output_json) == (COMPLETED, '{"state":"open"}')
    [received] = server.ledger
    assert (received.method, received.target) == ("POST", "/api/orders/o2?shop=s%26t")
    assert received.headers["authorization"] == "Bearer planted-secret-1"
    assert received.headers["idempotency-key"] == "key_1"
    assert received.headers["x-note"] == "s&t"
    assert json.loads(received.body) == {"id": "o2"}


@pytest.mark.parametrize("hostile", ["../admin", "..", "//evil", "a/../../b", ""])
async def test_a_hostile_value_sends_nothing_or_stays_in_its_segment(hostile: str):
    async with serving(always(answer())) as server:
        await toolbox(server).call(invocation(http_action("/orders/{{ id }}"), {"id": hostile}))
    assert all(received.target.count("/") == 3 for received in server.ledger)


@pytest.mark.parametrize(
    ("reply", "output"),
    [
        (answer(b"[1]", content_type="application/problem+json; charset=utf-8"), "[1]"),
        (answer(b"hi", content_type="text/plain"), '"hi"'),
        (answer(b'{"a":1}', content_type="text/html"), '"{\\"a\\":1}"'),
        (answer(b"\xff\x00\x1b", content_type="application/octet-stream"), '"[part 1]"'),
        (answer(b"\xff\x00\x1b", content_type="text/plain"), '"\ufffd\ufffd\ufffd"'),
        (answer(b"\xe9", content_type="text/plain; charset=ISO-8859-1"), '"é"'),
        (answer(b"x", content_type="text/plain; charset=rot13"), '"x"'),
        (answer(b'"\\u0007\\u0000"'), '"\ufffd\ufffd"'),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "null"),
    ],
)
async def test_what_a_success_says_is_the_output(reply: bytes, output: str):
    result = await called(reply)
    assert (result.ending, result.output_json) == (COMPLETED, output)


@pytest.mark.parametrize(
    "body", [b"{", b"NaN", b'{"a":1,"a":2}', b"1e999", b"[" * 5_000, b"<html>", b"9" * 5_000]
)
@pytest.mark.parametrize(("effect", "ending"), [(READ, FAILED), (WRITE, COMPLETED)])
async def test_json_is_read_strictly_but_a_write_that_succeeded_did(
    body: bytes, effect: Effect, ending: ToolEnding
):
    assert (await called(answer(body), effect=effect)).ending is ending


STATUS = [
    ("400 Bad Request", FAILED, FAILED),
    ("401 Unauthorized", FAILED, FAILED),
    ("404 Not Found", FAILED, FAILED),
    ("409 Conflict", FAILED, FAILED),
    ("429 Too Many", FAILED, FAILED),
    ("500 Oops", FAILED, UNCERTAIN),
    ("503 Busy", FAILED, UNCERTAIN),
    ("302 Found", FAILED, UNCERTAIN),
    ("303 See Other", FAILED, UNCERTAIN),
    ("307 Temporary Redirect", FAILED, FAILED),
]


@pytest.mark.parametrize(("status", "for_a_read", "for_a_write"), STATUS)
async def test_a_status_says_whether_a_write_may_have_happened(
    status: str, for_a_read: ToolEnding, for_a_write: ToolEnding
):
    reply = answer(b'{"why":"because"}', status=status)
    action = http_action(method="POST")
    read, again, write = [await called(reply, action, effect=effect) for effect in (READ, IDEMPOTENT, WRITE)]
    assert (read.ending, again.ending, write.ending) == (for_a_read, for_a_read, for_a_write)
    assert status[:3] in read.error
    assert ("because" in read.error) is (status[0] != "3")


@pytest.mark.parametrize(
    ("status", "passes"),
    [("429 Too Many", True), ("503 Busy", True), ("500 Oops", True), ("501 No", False), ("404 None", False)],
)
async def test_a_status_says_whether_another_attempt_can_help(status: str, passes: bool):
    assert (await called(answer(b"{}", status=status))).may_pass is passes


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        ("7", 7_000),
        ("0.25", 250),
        ("86400", 60_000),
        ("0", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("soon", None),
        ("-1", None),
        ("1e3", None),
    ],
)
async def test_what_a_server_asks_to_wait_is_kept(asked: str, waits: int | None):
    reply = answer(b"{}", status="503 Busy", more=f"Retry-After: {asked}\r\n")
    assert (await called(reply)).retry_after_ms == waits


async def test_an_error_body_is_shown_in_part_and_without_secrets():
    body = b"\x1b[31mBearer planted-secret-1 " + b"x" * 50_000
    result = await called(answer(body, status="400 Bad"))
    assert len(result.error) < 2_100
    assert "planted-secret-1" not in result.error
    assert "\x1b" not in result.error


async def test_an_echoed_secret_is_not_kept_in_the_output():
    result = await called(answer(b'{"echo": "Bearer planted-secret-1"}'))
    assert result.output_json is not None
    assert "planted-secret-1" not in result.output_json


async def test_a_long_answer_is_cut_and_an_endless_one_is_none():
    result = await called(answer(b"x" * 400_000, content_type="text/plain"))
    assert result.cut_from_bytes == 400_000
    assert result.output_json is not None
    assert len(result.output_json) <= KEPT_BYTES
    assert (await called(answer(b"x" * 9_000_000))).ending is FAILED
    assert (await called(answer(b"x" * 9_000_000), effect=WRITE)).ending is UNCERTAIN


@pytest.mark.parametrize(
    "reply",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", answer(more="Content-Encoding: gzip\r\n")],
)
@pytest.mark.parametrize(("effect", "ending"), [(READ, FAILED), (IDEMPOTENT, FAILED), (WRITE, UNCERTAIN)])
async def test_a_lost_answer_leaves_a_write_open(reply: bytes, effect: Effect, ending: ToolEnding):
    result = await called(reply, http_action(method="PUT"), effect=effect)
    assert result.ending is ending


async def test_a_server_that_is_not_there_leaves_nothing_open():
    async with serving(always(answer())) as server:
        pass
    result = await toolbox(server).call(invocation(http_action(method="POST"), effect=WRITE))
    assert result.ending is FAILED


async def test_what_was_not_sent_or_not_answered_may_be_tried_again_unless_its_time_was_over():
    async with serving(always(b"")) as server:
        tools = toolbox(server, timeout_ms=200)
        lost = await tools.call(invocation(http_action()))
    gone = await tools.call(invocation(http_action()))
    assert (lost.may_pass, lost.timed_out, gone.may_pass) == (True, False, True)


async def test_an_unknown_connection_is_a_failure():
    assert (await called(answer(), http_action(connection="other"))).ending is FAILED


@pytest.mark.parametrize(("effect", "ending"), [(READ, FAILED), (WRITE, UNCERTAIN)])
async def test_a_silent_server_costs_its_time_and_no_more(effect: Effect, ending: ToolEnding):
    async with serving(always(b"")) as server:

        async def silent(_: Received, __: asyncio.StreamWriter) -> None:
            await server.released.wait()

        server.behave = silent
        async with asyncio.timeout(5):
            result = await toolbox(server).call(
                invocation(http_action(method="POST"), effect=effect, timeout_ms=100)
            )
    assert result.ending is ending
    assert len(server.ledger) == 1


async def test_a_full_connection_makes_a_write_wait_and_then_fail_unsent():
    arrived = asyncio.Event()
    async with serving(always(b"")) as server:

        async def hold(_: Received, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await server.released.wait()
            writer.write(answer())

        server.behave = hold
        tools = toolbox(server, concurrency=1)
        first = asyncio.ensure_future(tools.call(invocation(http_action())))
        await asyncio.wait_for(arrived.wait(), 5)
        second = await tools.call(invocation(http_action(method="POST"), effect=WRITE, timeout_ms=50))
        assert second.ending is FAILED
        server.released.set()
        assert (await first).ending is COMPLETED
        assert len(server.ledger) == 1
        third = await tools.call(invocation(http_action()))
        assert third.ending is COMPLETED


async def test_a_late_call_that_had_waited_for_its_place_says_nothing_of_the_connection():
    async with serving(always(b"")) as server:

        async def silent(_: Received, __: asyncio.StreamWriter) -> None:
            await server.released.wait()

        server.behave = silent
        tools = toolbox(server, concurrency=1, timeout_ms=1_000)
        hurried = tools.call(invocation(http_action(), timeout_ms=700))
        hurried, waited = await asyncio.gather(hurried, tools.call(invocation(http_action())))
        patient = await tools.call(invocation(http_action()))
    assert (hurried.connection_problem, waited.connection_problem) == ("", "")
    assert patient.connection_problem


async def test_cancelling_a_call_hangs_up_and_frees_its_slot():
    arrived, left = asyncio.Event(), asyncio.Event()
    async with serving(always(b"")) as server:

        async def hold(received: Received, _: asyncio.StreamWriter) -> None:
            arrived.set()
            await received.hung_up()
            left.set()

        server.behave = hold
        tools = toolbox(server, concurrency=1)
        task = asyncio.ensure_future(tools.call(invocation(http_action())))
        await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(left.wait(), 5)
        server.behave = always(answer())
        assert (await tools.call(invocation(http_action()))).ending is COMPLETED


async def test_an_answer_of_very_many_values_is_kept_as_text():
    dense = b"[" + b"[]," * 30_000 + b"[]]"
    result = await called(answer(dense))
    assert result.ending is COMPLETED
    assert result.output_json is not None
    assert result.output_json.startswith('"[[],[],')


async def test_a_long_answer_of_few_values_is_still_json():
    result = await called(answer(b'{"a":"' + b"x" * 100_000 + b'"}'))
    assert result.ending is COMPLETED
    assert result.output_json is not None
    assert result.output_json.startswith('{"a":"xxx')


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "409 Conflict", "429 Too Many"])
async def test_requests_that_a_server_refuses_never_leave_it_alone(status: str):
    async with serving(always(answer(status=status))) as server:
        tools = toolbox(server)
        for _ in range(20):
            await tools.call(invocation(http_action()))
        assert len(server.ledger) == 20


@pytest.mark.parametrize(
    "reply", [answer(status="500 Oops"), answer(status="503 Busy"), b""], ids=["500", "503", "cut off"]
)
async def test_a_server_that_fails_again_and_again_is_left_alone(reply: bytes):
    async with serving(always(reply)) as server:
        tools = toolbox(server)
        *_, last = [await tools.call(invocation(http_action(), effect=WRITE)) for _ in range(20)]
        assert len(server.ledger) == FAILURES
    assert (last.ending, last.may_pass) == (FAILED, True), "that nothing was called is certain"
