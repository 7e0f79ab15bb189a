"""The places of a pool: taken with a worker and not before, and in the order of asking."""

import asyncio
import json
from collections.abc import Coroutine

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.tools.guards import NoPlace
from jackline_server.tools.results import completed, failed
from jackline_server.tools.worker.places import PoolPlaces
from tests.models.virtual_time import run_virtual
from tests.tools.worker.scene import Scene, connection, result_of, tool

LONG_MS = 1_000_000


def order_of(arguments_json: str) -> str:
    return json.loads(arguments_json)["order"]


async def test_a_call_that_waits_for_a_worker_takes_no_place_from_one_whose_worker_is_there():
    there = Scene(concurrency=1)
    waits = [there.call("absent") for _ in range(3)]
    await there.waiting(3)
    worker = await there.worker()
    call = there.call()
    worker.answer(await worker.invoked())
    assert (await result_of(call)).ending is ToolEnding.COMPLETED
    late = await there.worker(tool("absent"))
    for one in waits:
        late.answer(await late.invoked())
        assert (await result_of(one)).ending is ToolEnding.COMPLETED


async def test_the_line_of_a_busy_worker_holds_up_no_other_tool():
    there = Scene(concurrency=2)
    busy, free = await there.worker(max_parallel=1), await there.worker(tool("count"))
    held = [there.call() for _ in range(5)]
    first = await busy.invoked()
    await there.waiting(4)
    call = there.call("count")
    free.answer(await free.invoked())
    assert (await result_of(call)).ending is ToolEnding.COMPLETED
    busy.answer(first)
    for _ in held[1:]:
        busy.answer(await busy.invoked())
    await asyncio.gather(*map(result_of, held))


async def test_a_pool_has_no_more_calls_with_its_workers_than_it_may():
    there = Scene(concurrency=2)
    workers = [await there.worker(max_parallel=10) for _ in range(2)]
    calls = [there.call(arguments={"order": str(number)}) for number in range(5)]
    await there.waiting(3)
    await there.loaded(1, 1)
    served: list[str] = []
    for worker in (workers[0], workers[1], workers[0], workers[1], workers[0]):
        order = await worker.invoked()
        served.append(order_of(order.arguments_json))
        worker.answer(order)
    assert served == ["0", "1", "2", "3", "4"]
    await asyncio.gather(*map(result_of, calls))


async def test_whoever_has_waited_longest_for_a_worker_is_next_whatever_its_tool():
    there = Scene()
    worker = await there.worker(tool("look"), tool("count"), max_parallel=1)
    calls: list[asyncio.Task[ToolResult]] = []
    for waiting, name in enumerate(("look", "count", "look", "count")):
        calls.append(there.call(name))
        await there.waiting(waiting)
    served: list[str] = []
    for _ in calls:
        order = await worker.invoked()
        served.append(order.tool)
        worker.answer(order)
    assert served == ["look", "count", "look", "count"]
    await asyncio.gather(*map(result_of, calls))


async def test_a_thousand_that_wait_are_given_to_the_worker_that_comes_in_their_order():
    there = Scene(concurrency=1_000)
    count = 1_000
    calls = [there.call(arguments={"order": str(number)}) for number in range(count)]
    await there.waiting(count)
    worker = await there.worker(max_parallel=7)
    served: list[str] = []
    for _ in range(count):
        order = await worker.invoked()
        served.append(order_of(order.arguments_json))
        worker.answer(order)
    assert served == [str(number) for number in range(count)]
    assert {(await result_of(call)).ending for call in calls} == {ToolEnding.COMPLETED}
    assert there.pools.pools()[0].waiting == 0


async def test_one_that_is_given_up_before_it_was_given_out_leaves_no_place_taken():
    there = Scene(concurrency=1)
    worker = await there.worker()
    gone, held = there.call(), there.call()
    await there.loaded(1)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    worker.answer(await worker.invoked())
    assert (await result_of(held)).ending is ToolEnding.COMPLETED


async def test_a_result_that_comes_in_the_moment_of_the_deadline_counts():
    there = Scene()
    worker = await there.worker()
    call = there.call(effect=Effect.WRITE, timeout_ms=3_000)
    order = await worker.invoked()
    asyncio.get_running_loop().call_at(order.deadline, worker.answer, order)
    assert (await result_of(call)).ending is ToolEnding.COMPLETED


async def test_a_call_in_line_fails_for_certain_once_the_pool_is_left_alone():
    there = Scene(breaker=Breaker(failures=1, cool_off_ms=LONG_MS))
    gone = await there.worker(max_parallel=1)
    lost, in_line = there.call(), there.call(effect=Effect.WRITE)
    await gone.invoked()
    gone.seat.end(leaving=True)
    assert (await result_of(lost)).ending is ToolEnding.FAILED
    await there.worker()
    for refused in (in_line, there.call(effect=Effect.WRITE)):
        result = await result_of(refused)
        assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)


def test_no_more_calls_begin_in_a_minute_than_may_and_room_is_told_of() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        began, told = loop.time(), asyncio.Event()
        places = PoolPlaces(connection(calls_per_minute=2), on_room=told.set)
        times: list[int] = []
        for _ in range(6):
            while not places.has_room:
                await told.wait()
                told.clear()
            places.take()
            times.append(round(loop.time() - began))
        assert times == [0, 0, 60, 60, 120, 120]
        with pytest.raises(NoPlace) as refused:
            places.check(loop.time() + 1)
        assert refused.value.result.retry_after_ms
        places.check(loop.time() + 100)

    run_virtual(scene())


def test_once_a_pool_has_been_left_alone_long_enough_one_call_finds_out() -> None:
    async def scene() -> None:
        breaker = Breaker(failures=1, cool_off_ms=10_000)
        places = PoolPlaces(connection(breaker=breaker), on_room=lambda: None)
        places.take().heard(failed("gone", connection_failed=True))
        with pytest.raises(NoPlace):
            places.take()
        await asyncio.sleep(11)  # of virtual time
        first = places.take()
        with pytest.raises(NoPlace):
            places.take()
        first.release()
        second = places.take()
        second.heard(completed("there"))
        places.take()

    run_virtual(scene())


async def test_a_call_that_a_draining_worker_never_heard_of_goes_on_elsewhere() -> None:
    there = Scene(concurrency=1)
    leaving, other = await there.worker(), await there.worker()
    call: Coroutine[None, None, ToolResult] = result_of(there.call(effect=Effect.WRITE))
    task = asyncio.create_task(call)
    await there.loaded(1, 0)
    leaving.seat.end(leaving=True)
    other.answer(await other.invoked())
    assert (await task).ending is ToolEnding.COMPLETED
