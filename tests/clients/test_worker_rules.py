"""The worker library of each language keeps the contract's rules: a real program against a strict double."""

import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import grpc
import pytest

from jackline.v1 import tool_worker_pb2 as wire
from jackline.v1.run_pb2 import Effect
from tests.clients import building
from tests.clients.seats import Seats, program_of, seats_in
from tests.support.relay import relaying
from tests.support.scripted_service import TOKEN, Failure
from tests.support.server_process import free_port
from tests.support.worker_service import SESSION, WorkerService, WorkerStream, serving

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs

CUT = Failure(code=grpc.StatusCode.UNAVAILABLE)
FAILED = wire.WorkerErrorKind.WORKER_ERROR_KIND_FAILED
TRANSIENT = wire.WorkerErrorKind.WORKER_ERROR_KIND_TRANSIENT
UNCERTAIN = wire.WorkerErrorKind.WORKER_ERROR_KIND_UNCERTAIN
CANCELLED = wire.WorkerErrorKind.WORKER_ERROR_KIND_CANCELLED
NOT_STARTED = wire.WorkerErrorKind.WORKER_ERROR_KIND_NOT_STARTED


@pytest.fixture(params=["python", *building.LANGUAGES])
def program(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return program_of(request.param)


@pytest.fixture
async def service() -> AsyncGenerator[WorkerService]:
    made = WorkerService()
    yield made
    assert made.breaches == [], made.breaches


@pytest.fixture
async def address(service: WorkerService) -> AsyncGenerator[str]:
    async with serving(service) as found:
        yield found


@pytest.fixture
async def seats(tmp_path: Path, program: tuple[str, ...], address: str) -> AsyncGenerator[Seats]:
    async with seats_in(tmp_path) as made:
        await made.start(program, address, TOKEN)
        yield made


@pytest.fixture
async def stream(service: WorkerService, seats: Seats) -> WorkerStream:
    """The first stream of the program, welcomed."""
    found = await service.stream()
    found.welcome()
    return found


async def leave(stream: WorkerStream, seats: Seats) -> None:
    """End the program in good order."""
    seats.terminate()
    if not stream.register.draining:
        await stream.heard("drain")
    stream.drain()
    await stream.closed_in_order()
    assert await seats.ended() == 0, seats.words()


async def test_a_worker_registers_what_it_serves_and_answers_a_call(
    service: WorkerService, seats: Seats
) -> None:
    stream = await service.stream()
    register = stream.register
    assert (register.pool, register.worker, register.session) == ("seats", "one", "")
    assert (register.max_parallel, list(register.invocations), register.draining) == (4, [], False)
    left, reserve, ticket = register.tools
    assert [tool.name for tool in register.tools] == ["seats_left", "reserve_seat", "print_ticket"]
    assert (left.effect, reserve.effect) == (Effect.EFFECT_READ, Effect.EFFECT_IDEMPOTENT)
    assert ticket.effect == Effect.EFFECT_WRITE
    assert (left.cancellable, ticket.cancellable) == (True, False)
    assert (left.HasField("max_parallel"), ticket.max_parallel) == (False, 1)
    assert json.loads(reserve.parameters_json)["required"] == ["flight", "seat"]
    stream.welcome()
    stream.invoke("i1", "reserve_seat", flight="JL7", seat="4C")
    stream.invoke("i2", "print_ticket", flight="JL7", seat="4C")
    result, printed = await stream.answered("i1"), await stream.answered("i2")
    assert json.loads(result.json) == {"flight": "JL7", "seat": "4C", "reservation": "key-i1"}
    assert printed.text == "printed: JL7, seat 4C"
    line = {"call_key": "key-i1", "attempt": 1, "worker": "one", "flight": "JL7", "seat": "4C"}
    assert seats.lines("reserve_seat") == [{"tool": "reserve_seat", **line}]
    await leave(stream, seats)


async def test_every_call_is_answered_with_the_kind_of_its_failure(
    stream: WorkerStream, seats: Seats
) -> None:
    for name, flight in (("i1", "XX"), ("i2", "JL503"), ("i3", "JL500")):
        stream.invoke(name, "seats_left", flight=flight)
    stream.invoke("i4", "fly")
    failed, transient = (await stream.answered("i1")).error, (await stream.answered("i2")).error
    uncertain, unknown = (await stream.answered("i3")).error, (await stream.answered("i4")).error
    assert [one.kind for one in (failed, transient, uncertain, unknown)] == [
        FAILED,
        TRANSIENT,
        UNCERTAIN,
        NOT_STARTED,
    ]
    assert (transient.retry_after.ToMilliseconds(), failed.HasField("retry_after")) == (200, False)
    assert "XX" in failed.message
    assert "secret" not in uncertain.message  # the text of an error that nobody planned stays where it is,
    assert "secret" in seats.words()  # in the log of the worker
    await leave(stream, seats)


async def test_a_result_that_is_too_large_is_replaced_by_words(service: WorkerService, seats: Seats) -> None:
    stream = await service.stream()
    stream.welcome(largest=100)
    stream.invoke("i1", "print_ticket", flight=f"JL{'1' * 100}")
    stream.invoke("i2", "seats_left", flight=f"JL{'1' * 100}")
    for name in ("i1", "i2"):
        result = await stream.answered(name)
        assert result.WhichOneof("outcome") == "text"
        assert 20 < len(result.text.encode()) <= 100
    await leave(stream, seats)


async def test_a_cancel_stops_a_tool_that_can_be_stopped_and_lets_another_run_to_its_end(
    stream: WorkerStream, seats: Seats
) -> None:
    seats.hold()
    stream.invoke("i1", "reserve_seat")
    stream.invoke("i2", "print_ticket")
    await stream.until(lambda: {one.progress.invocation for one in stream.said} >= {"i1", "i2"})
    stream.cancel("i1")
    stream.cancel("i2")
    stream.cancel("no-such")
    assert (await stream.answered("i1")).error.kind == CANCELLED
    seats.release()
    assert (await stream.answered("i2")).text == "printed: JL1, seat 1A"
    stream.cancel("i2")
    await leave(stream, seats)


async def test_a_call_whose_time_is_over_is_stopped_by_the_worker_itself(
    stream: WorkerStream, seats: Seats
) -> None:
    seats.hold()
    stream.invoke("i1", "seats_left", timeout_s=0.5)
    assert (await stream.answered("i1")).error.kind == CANCELLED
    await leave(stream, seats)


async def test_progress_is_thinned_out_and_the_worker_beats_while_its_tools_are_busy(
    service: WorkerService, seats: Seats
) -> None:
    stream = await service.stream()
    stream.welcome()
    seats.hold()
    stream.invoke("i1", "print_ticket")
    began = time.monotonic()
    await stream.heard("progress", 11)
    assert time.monotonic() - began >= 0.9
    first = next(one.progress for one in stream.said if one.WhichOneof("message") == "progress")
    assert first.text in {"written down", "held"}
    seats.release()
    await stream.answered("i1")
    stream.end(CUT)
    quiet = await service.stream()
    quiet.welcome(resumed=True, heartbeat_s=0.2, beating=True)
    await quiet.heard("heartbeat", 6)  # twice the time after which a silent server is left
    assert not quiet.over
    await leave(quiet, seats)


async def test_a_broken_stream_is_resumed_and_each_result_is_delivered_until_it_is_acknowledged(
    service: WorkerService, stream: WorkerStream, seats: Seats
) -> None:
    stream.invoke("done", "seats_left")
    await stream.answered("done")
    stream.invoke("untaken", "reserve_seat")
    await stream.result("untaken")
    seats.hold()
    stream.invoke("running", "print_ticket")
    await stream.heard("progress")
    stream.end(CUT)

    second = await service.stream()
    assert second.register.session == SESSION
    assert sorted(second.register.invocations) == ["running", "untaken"]
    assert [tool.name for tool in second.register.tools] == ["seats_left", "reserve_seat", "print_ticket"]
    seats.release()
    second.welcome(resumed=True)
    assert json.loads((await second.answered("untaken")).json)["reservation"] == "key-untaken"
    assert (await second.result("running")).text == "printed: JL1, seat 1A"
    second.end(CUT)  # before it is acknowledged

    third = await service.stream()
    assert list(third.register.invocations) == ["running"]
    third.welcome(resumed=True)
    await third.answered("running")
    assert [line["call_key"] for line in seats.lines("print_ticket")] == ["key-running"]
    await leave(third, seats)


async def test_a_session_that_is_over_is_forgotten_with_its_calls(
    service: WorkerService, stream: WorkerStream, seats: Seats
) -> None:
    seats.hold()
    stream.invoke("lost", "print_ticket")
    stream.invoke("stopped", "reserve_seat")
    await stream.until(lambda: {one.progress.invocation for one in stream.said} >= {"lost", "stopped"})
    stream.end(CUT)
    second = await service.stream()
    second.welcome(resumed=False, session="wks_another")
    second.invoke(
        "i1", "print_ticket", flight="JL2"
    )  # the one place for it is taken as long as the old one runs
    second.invoke("i2", "seats_left")
    await second.until(lambda: any(one.progress.invocation == "i2" for one in second.said))
    assert [line["call_key"] for line in seats.lines("print_ticket")] == ["key-lost"]
    seats.release()
    await second.answered("i1")
    await second.answered("i2")
    assert [line["call_key"] for line in seats.lines("print_ticket")] == ["key-lost", "key-i1"]
    second.end(CUT)
    third = await service.stream()
    assert (third.register.session, list(third.register.invocations)) == ("wks_another", [])
    third.welcome(resumed=True)
    await leave(third, seats)


async def test_a_server_that_falls_silent_is_left_and_its_session_resumed(
    service: WorkerService, seats: Seats
) -> None:
    first = await service.stream()
    first.welcome(heartbeat_s=0.2)
    second = await service.stream()
    assert second.register.session == SESSION
    await first.until(lambda: first.over)
    assert first.count("heartbeat") >= 2
    second.welcome(resumed=True)
    await leave(second, seats)


async def test_a_connection_that_carries_nothing_more_is_not_used_again(
    tmp_path: Path, program: tuple[str, ...], service: WorkerService, address: str
) -> None:
    async with relaying(address) as relay, seats_in(tmp_path) as seats:
        await seats.start(program, relay.address, TOKEN)
        first = await service.stream()
        first.welcome(heartbeat_s=0.2)
        await first.heard("heartbeat")
        relay.freeze()
        second = await service.stream()
        assert (second.register.session, relay.connections) == (SESSION, 2)
        second.welcome(resumed=True)
        await leave(second, seats)


async def test_sigterm_finishes_what_is_in_flight_and_what_was_on_its_way(
    stream: WorkerStream, seats: Seats
) -> None:
    seats.hold()
    stream.invoke("i1", "print_ticket")
    await stream.heard("progress")
    seats.terminate()
    await stream.heard("drain")
    stream.invoke("i2", "reserve_seat")  # sent before the drain was read
    stream.drain()
    seats.release()
    assert (await stream.result("i1")).text
    await stream.answered("i2")
    assert not stream.half_closed
    stream.acknowledge("i1")
    await stream.closed_in_order()
    assert await seats.ended() == 0, seats.words()
    assert len(seats.lines()) == 2


@pytest.mark.parametrize("program", ["python", *sorted({*building.LANGUAGES} - {"java"})], indirect=True)
async def test_a_second_sigterm_ends_it_at_once(stream: WorkerStream, seats: Seats) -> None:
    """But for Java: a virtual machine that shuts down takes no further signal."""
    seats.hold()
    stream.invoke("i1", "print_ticket")
    await stream.heard("progress")
    seats.terminate()
    await stream.heard("drain")
    stream.invoke("i2", "reserve_seat")  # sent before the drain was read
    await seats.noted("reserve_seat")
    seats.terminate()
    assert await seats.was_terminated(), seats.words()


async def test_an_idle_worker_that_leaves_waits_for_the_last_call_on_its_way(
    stream: WorkerStream, seats: Seats
) -> None:
    seats.terminate()
    await stream.heard("drain")
    stream.invoke("i1", "print_ticket")
    await stream.answered("i1")
    assert not stream.half_closed
    stream.drain()
    await stream.closed_in_order()
    assert await seats.ended() == 0, seats.words()


async def test_a_stream_that_breaks_while_the_worker_leaves_is_resumed_to_finish(
    service: WorkerService, stream: WorkerStream, seats: Seats
) -> None:
    seats.hold()
    stream.invoke("i1", "print_ticket")
    await stream.heard("progress")
    seats.terminate()
    await stream.heard("drain")
    stream.end(CUT)
    second = await service.stream()
    assert (second.register.draining, list(second.register.invocations)) == (True, ["i1"])
    second.welcome(resumed=True)
    second.drain()
    seats.release()
    await second.answered("i1")
    await second.closed_in_order()
    assert await seats.ended() == 0, seats.words()


async def test_a_server_that_leaves_gets_what_is_in_flight_and_is_connected_to_anew(
    service: WorkerService, stream: WorkerStream, seats: Seats
) -> None:
    seats.hold()
    stream.invoke("i1", "seats_left")
    await stream.heard("progress")
    stream.drain()
    seats.release()
    await stream.answered("i1")
    await stream.closed_in_order()
    second = await service.stream()
    assert (second.register.session, second.register.draining) == ("", False)
    second.welcome(session="wks_another")
    second.invoke("i2", "seats_left")
    await second.answered("i2")
    await leave(second, seats)


async def test_a_server_that_is_started_again_is_found_again(
    tmp_path: Path, program: tuple[str, ...], service: WorkerService
) -> None:
    port = free_port()
    async with seats_in(tmp_path) as seats:
        async with serving(service, port=port) as address:
            await seats.start(program, address, TOKEN)
            first = await service.stream()
            first.welcome()
            seats.hold()
            first.invoke("i1", "print_ticket")
            await first.heard("progress")
        async with serving(service, port=port):
            second = await service.stream()
            assert (second.register.session, list(second.register.invocations)) == (SESSION, ["i1"])
            second.welcome(resumed=True)
            seats.release()
            await second.answered("i1")
            await leave(second, seats)


async def test_a_server_that_has_no_room_is_asked_again_when_it_says_so(
    service: WorkerService, seats: Seats
) -> None:
    full = grpc.StatusCode.RESOURCE_EXHAUSTED
    first = await service.stream()
    began = time.monotonic()
    first.end(Failure(code=full, reason="WORKER_LIMIT", retry_after_s=2))
    second = await service.stream()
    assert time.monotonic() - began >= 1.9
    second.welcome()
    await leave(second, seats)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, "WORKER_TOOL_NOT_ALLOWED"),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"),
        (grpc.StatusCode.NOT_FOUND, "WORKER_POOL_NOT_FOUND"),
        (grpc.StatusCode.ABORTED, "WORKER_SESSION_TAKEN"),
    ],
)
async def test_a_refusal_ends_the_worker_with_its_reason_and_the_fields(
    stream: WorkerStream, service: WorkerService, seats: Seats, code: grpc.StatusCode, reason: str
) -> None:
    violations = (("register.tools[1].name", "this is why"),)
    stream.end(Failure(code=code, reason=reason, violations=violations))
    assert await seats.ended() == 1
    for part in (code.name, reason, "register.tools[1].name", "this is why"):
        assert part in seats.words()
    assert service.came == 1


async def test_a_wrong_token_is_told_by_its_reason(
    tmp_path: Path, program: tuple[str, ...], address: str
) -> None:
    async with seats_in(tmp_path) as seats:
        await seats.start(program, address, "not-the-token")
        assert await seats.ended() == 1
        assert "UNAUTHENTICATED" in seats.words()
