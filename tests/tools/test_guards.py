"""The guard of a connection: its slots, its rate, and when it is left alone."""

import asyncio
from dataclasses import dataclass

from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionState, ConnectionView
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitFor
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.tools.guards import Guard, is_fair
from jackline_server.tools.results import completed, failed
from tests.models.virtual_time import run_virtual

GOOD = completed("ok")
REFUSED = failed("The server answered 422.")
DOWN = failed("It can't be reached.", may_pass=True, connection_failed=True)
COOL_OFF_S = 10.0


@dataclass(frozen=True)
class Connection:
    name: str = "orders"
    concurrency: int = 100
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker(failures=3, cool_off_ms=int(COOL_OFF_S * 1000))


class Server:
    """What is behind the connection: answers as it is told to, and counts."""

    def __init__(self, connection: Connection) -> None:
        self.guard = Guard(connection)
        self.calls = 0
        self.most = 0
        self._now = 0

        self.waits: list[ToolWait | None] = []

    async def call(self, answer: ToolResult, *, takes_s: float = 0, within_s: float = 1_000) -> ToolResult:
        deadline = asyncio.get_running_loop().time() + within_s
        return await self.guard.run(
            deadline, lambda: self._answer(answer, takes_s), on_wait=self.waits.append
        )

    async def _answer(self, answer: ToolResult, takes_s: float) -> ToolResult:
        self.calls += 1
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(takes_s)
        finally:
            self._now -= 1
        return answer

    async def fail(self, times: int) -> None:
        for _ in range(times):
            assert await self.call(DOWN) is DOWN


def test_no_more_calls_than_there_are_slots_are_in_flight() -> None:
    async def scene() -> None:
        server = Server(Connection(concurrency=2))
        results = await asyncio.gather(*(server.call(GOOD, takes_s=1) for _ in range(7)))
        assert results == [GOOD] * 7
        assert server.most == 2
        assert server.guard.in_flight == 0

    run_virtual(scene())


def test_a_call_that_gets_no_slot_in_time_is_not_made_and_may_be_made_again() -> None:
    async def scene() -> None:
        server = Server(Connection(concurrency=1))
        first = asyncio.create_task(server.call(GOOD, takes_s=60))
        await asyncio.sleep(1)
        late = await server.call(GOOD, within_s=5)
        assert (late.ending, late.may_pass, late.connection_failed) == (ToolEnding.FAILED, True, False)
        assert await first is GOOD
        assert server.calls == 1

    run_virtual(scene())


def test_a_cancelled_call_gives_its_slot_back() -> None:
    async def scene() -> None:
        server = Server(Connection(concurrency=1))
        for wait_s in (0, 1):  # once while it waits for the slot, once while it holds it
            held = asyncio.create_task(server.call(GOOD, takes_s=60))
            await asyncio.sleep(1)
            other = asyncio.create_task(server.call(GOOD, takes_s=60))
            await asyncio.sleep(wait_s)
            for task in (other, held):
                task.cancel()
            await asyncio.gather(held, other, return_exceptions=True)
            assert server.guard.in_flight == 0
        assert await server.call(GOOD) is GOOD

    run_virtual(scene())


def test_no_more_calls_than_allowed_begin_in_a_minute() -> None:
    async def scene() -> None:
        server = Server(Connection(calls_per_minute=2))
        loop = asyncio.get_running_loop()
        began: list[float] = []

        async def one() -> None:
            await server.call(GOOD)
            began.append(loop.time())

        await asyncio.gather(*(one() for _ in range(5)))
        assert [int(at) for at in began] == [0, 0, 60, 60, 120]

    run_virtual(scene())


def test_a_call_that_the_minute_has_no_room_for_is_refused_at_once_and_told_when_there_is() -> None:
    async def scene() -> None:
        server = Server(Connection(calls_per_minute=1))
        await server.call(GOOD)
        refused = await server.call(GOOD, within_s=20)
        assert asyncio.get_running_loop().time() < 1
        assert (refused.ending, refused.may_pass) == (ToolEnding.FAILED, True)
        assert refused.retry_after_ms is not None
        assert 59_000 < refused.retry_after_ms <= 60_001
        assert server.calls == 1
        assert server.guard.in_flight == 0

    run_virtual(scene())


def test_after_so_many_failures_in_a_row_a_connection_is_left_alone() -> None:
    async def scene() -> None:
        server = Server(Connection())
        await server.fail(3)
        refused = await server.call(GOOD)
        assert (refused.ending, refused.may_pass) == (ToolEnding.FAILED, True)
        assert server.calls == 3
        assert server.guard.circuit.is_open

    run_virtual(scene())


def test_a_refusal_of_the_breaker_says_why_the_connection_failed_and_for_how_long_it_is_left_alone() -> None:
    async def scene() -> None:
        server = Server(Connection())
        await server.fail(3)
        await asyncio.sleep(COOL_OFF_S - 4)
        refused = await server.call(GOOD)
        assert DOWN.connection_problem
        assert DOWN.connection_problem in refused.error
        assert "for 4 s more" in refused.error
        await asyncio.sleep(5)
        probe = asyncio.create_task(server.call(GOOD, takes_s=1))
        await asyncio.sleep(0.5)
        refused = await server.call(GOOD)
        assert "one call is finding out whether it is back" in refused.error
        assert DOWN.connection_problem in refused.error
        assert await probe is GOOD

    run_virtual(scene())


def test_what_comes_back_over_a_connection_begins_the_count_anew() -> None:
    async def scene() -> None:
        server = Server(Connection())
        for answer in (GOOD, REFUSED):
            await server.fail(2)
            assert await server.call(answer) is answer
        await server.fail(2)
        assert not server.guard.circuit.is_open

    run_virtual(scene())


def test_errors_of_the_caller_never_leave_a_connection_alone() -> None:
    async def scene() -> None:
        server = Server(Connection())
        for _ in range(20):
            assert await server.call(REFUSED) is REFUSED
        assert not server.guard.circuit.is_open

    run_virtual(scene())


def test_after_the_cool_off_one_call_finds_out_whether_the_connection_is_back() -> None:
    async def scene() -> None:
        server = Server(Connection())
        await server.fail(3)
        await asyncio.sleep(COOL_OFF_S + 1)
        probe = asyncio.create_task(server.call(GOOD, takes_s=1))
        await asyncio.sleep(0.5)
        assert (await server.call(GOOD)).ending is ToolEnding.FAILED, "one finds out, and no other"
        assert await probe is GOOD
        assert await server.call(GOOD) is GOOD
        assert server.calls == 5

    run_virtual(scene())


def test_a_connection_that_is_not_back_is_left_alone_for_as_long_again() -> None:
    async def scene() -> None:
        server = Server(Connection())
        await server.fail(3)
        await asyncio.sleep(COOL_OFF_S + 1)
        assert await server.call(DOWN) is DOWN
        await asyncio.sleep(COOL_OFF_S - 1)
        assert (await server.call(GOOD)).ending is ToolEnding.FAILED
        await asyncio.sleep(2)
        assert await server.call(GOOD) is GOOD

    run_virtual(scene())


def test_a_call_from_before_does_not_end_the_search_of_the_one_that_finds_out() -> None:
    async def scene() -> None:
        server = Server(Connection())
        old = asyncio.create_task(server.call(DOWN, takes_s=COOL_OFF_S + 2))
        await asyncio.sleep(0)
        await server.fail(3)
        await asyncio.sleep(COOL_OFF_S + 1)
        probe = asyncio.create_task(server.call(GOOD, takes_s=3 * COOL_OFF_S))
        assert await old is DOWN
        await asyncio.sleep(COOL_OFF_S + 1)
        assert (await server.call(GOOD)).ending is ToolEnding.FAILED, "one finds out, and no other"
        assert await probe is GOOD
        assert await server.call(GOOD) is GOOD

    run_virtual(scene())


def test_when_the_call_that_finds_out_is_cancelled_the_next_one_does() -> None:
    async def scene() -> None:
        server = Server(Connection())
        await server.fail(3)
        await asyncio.sleep(COOL_OFF_S + 1)
        probe = asyncio.create_task(server.call(GOOD, takes_s=5))
        await asyncio.sleep(1)
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
        assert await server.call(GOOD) is GOOD

    run_virtual(scene())


def test_a_call_that_waited_for_a_slot_is_not_made_once_the_connection_is_left_alone() -> None:
    async def scene() -> None:
        server = Server(Connection(concurrency=1, breaker=Breaker(failures=1, cool_off_ms=10_000)))
        first = asyncio.create_task(server.call(DOWN, takes_s=1))
        waits = asyncio.create_task(server.call(GOOD))
        assert await first is DOWN
        assert (await waits).ending is ToolEnding.FAILED
        assert server.calls == 1
        await asyncio.sleep(11)
        assert await server.call(GOOD) is GOOD, "its slot is free"

    run_virtual(scene())


def test_without_a_breaker_a_connection_is_called_again_and_again() -> None:
    async def scene() -> None:
        server = Server(Connection(breaker=Breaker(failures=0)))
        await server.fail(20)
        assert not server.guard.circuit.is_open

    run_virtual(scene())


def test_a_caller_in_a_hurry_says_nothing_about_a_connection() -> None:
    assert not is_fair(50, 30_000)
    assert is_fair(50, 50), "the operator gives it no more"
    assert is_fair(498, 500), "it waited for nobody, and some time is always gone"
    assert not is_fair(400, 500), "it waited for others"
    assert is_fair(5_000, 300_000)


def test_a_call_that_finds_a_place_waits_for_nothing() -> None:
    async def scene() -> None:
        server = Server(Connection(concurrency=1, calls_per_minute=1))
        await server.call(GOOD)
        assert server.waits == []

    run_virtual(scene())


def test_a_call_says_that_it_waits_for_a_place_and_that_it_waits_no_more() -> None:
    async def scene() -> None:
        server = Server(Connection(concurrency=2))
        first = [asyncio.create_task(server.call(GOOD, takes_s=5)) for _ in range(2)]
        await asyncio.sleep(1)
        third = asyncio.create_task(server.call(GOOD))
        await asyncio.sleep(1)
        place = ToolWait(what=WaitFor.PLACE, connection="orders", count=2)
        assert server.waits == [place]
        assert view_of(server).waiting == 1
        await asyncio.gather(*first, third)
        assert server.waits == [place, None]
        assert view_of(server).waiting == 0

    run_virtual(scene())


def test_a_call_says_that_it_waits_for_the_rate_also_if_it_is_given_up() -> None:
    async def scene() -> None:
        server = Server(Connection(calls_per_minute=3))
        for _ in range(3):
            await server.call(GOOD)
        waiting = asyncio.create_task(server.call(GOOD))
        await asyncio.sleep(1)
        rate = ToolWait(what=WaitFor.RATE, connection="orders", count=3)
        assert server.waits == [rate]
        assert (view_of(server).waiting, view_of(server).calls_left) == (1, 0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert server.waits == [rate, None]
        assert view_of(server).waiting == 0

    run_virtual(scene())


def test_a_view_tells_how_a_connection_does_from_its_first_call_to_being_left_alone_and_back() -> None:
    async def scene() -> None:
        server = Server(Connection(calls_per_minute=10))
        fresh = view_of(server)
        assert (fresh.state, fresh.calls_left, fresh.problem) == (ConnectionState.UNUSED, 10, "")
        await server.call(REFUSED)
        used = view_of(server)
        assert (used.state, used.calls_left, used.failures) == (ConnectionState.READY, 9, 0)
        await server.fail(1)
        failed_once = view_of(server)
        assert (failed_once.state, failed_once.failures) == (ConnectionState.FAILED, 1)
        assert failed_once.problem == DOWN.connection_problem
        await server.fail(2)
        alone = view_of(server)
        assert (alone.state, alone.failures, alone.breaker_failures) == (ConnectionState.LEFT_ALONE, 3, 3)
        assert 0 < alone.left_alone_ms <= COOL_OFF_S * 1000
        await asyncio.sleep(COOL_OFF_S)
        assert view_of(server).left_alone_ms == 0
        await server.call(GOOD)
        back = view_of(server)
        assert (back.state, back.failures, back.problem) == (ConnectionState.READY, 0, "")

    run_virtual(scene())


def test_the_word_of_a_link_counts_as_long_as_no_call_has_failed() -> None:
    async def scene() -> None:
        server = Server(Connection())
        starting = server.guard.view(ConnectionKind.MCP, state=ConnectionState.STARTING, problem="soon")
        assert (starting.state, starting.problem) == (ConnectionState.STARTING, "soon")
        await server.fail(1)
        failed_once = server.guard.view(ConnectionKind.MCP, state=ConnectionState.READY)
        assert failed_once.state is ConnectionState.FAILED

    run_virtual(scene())


def test_a_pool_without_a_worker_is_told_so_though_its_last_worker_failed() -> None:
    async def scene() -> None:
        server = Server(Connection())
        await server.fail(1)
        left = server.guard.view(ConnectionKind.WORKER, state=ConnectionState.NO_WORKER)
        assert (left.state, left.problem, left.failures) == (ConnectionState.NO_WORKER, "", 1)
        await server.fail(2)
        alone = server.guard.view(ConnectionKind.WORKER, state=ConnectionState.NO_WORKER)
        assert alone.state is ConnectionState.LEFT_ALONE

    run_virtual(scene())


def view_of(server: Server) -> ConnectionView:
    return server.guard.view(ConnectionKind.HTTP)
