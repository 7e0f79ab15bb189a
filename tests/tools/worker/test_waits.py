"""What a call of a worker's tool says that it waits for, and how its pool stands among the connections."""

import asyncio

from jackline_server.core.frozen import change
from jackline_server.core.plan import WorkerAction
from jackline_server.runtime.ports.connection_views import ConnectionState, ConnectionView, PoolCounts
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitFor
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.runtime.ports.workers import WorkerLeaves
from tests.tools.invocations import invocation
from tests.tools.worker.scene import POOL, SECONDS, Scene, result_of, tool, until


def called(there: Scene, waits: list[ToolWait | None]) -> "asyncio.Task[ToolResult]":
    action = WorkerAction(
        connection=POOL, tool="look", arguments_json="{}", tool_digest="", takes=("order",), wait_ms=None
    )
    made = change(invocation(action, timeout_ms=SECONDS * 1000), on_wait=waits.append)
    return asyncio.create_task(there.calls.call(action, made))


def wait(what: WaitFor, count: int) -> ToolWait:
    return ToolWait(what=what, connection=POOL, count=count)


def view(there: Scene) -> ConnectionView:
    (one,) = there.pools.views()
    return one


async def test_a_call_tells_what_it_waits_for_each_time_that_changes() -> None:
    there, waits = Scene(), list[ToolWait | None]()
    call = called(there, waits)
    await until(lambda: waits == [wait(WaitFor.WORKER, 0)])
    await there.worker(tool("write"))
    await until(lambda: waits[1:] == [wait(WaitFor.WORKER, 1)])
    busy = await there.worker(max_parallel=1)
    worker_order = await busy.invoked()
    await until(lambda: waits[2:] == [None])
    second = list[ToolWait | None]()
    other = called(there, second)
    await until(lambda: second == [wait(WaitFor.WORKER_PLACE, 1)])
    busy.answer(worker_order)
    assert (await result_of(call)).ending is ToolEnding.COMPLETED
    busy.answer(await busy.invoked())
    assert (await result_of(other)).ending is ToolEnding.COMPLETED
    assert second[1:] == [None]


async def test_a_call_that_finds_a_worker_waits_for_nothing() -> None:
    there, waits = Scene(), list[ToolWait | None]()
    worker = await there.worker()
    call = called(there, waits)
    worker.answer(await worker.invoked())
    await result_of(call)
    assert waits == []


async def test_a_call_that_is_aborted_while_it_waits_waits_no_more() -> None:
    there, waits = Scene(), list[ToolWait | None]()
    call = called(there, waits)
    await until(lambda: bool(waits))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert waits == [wait(WaitFor.WORKER, 0), None]
    assert view(there).waiting == 0


async def test_a_pool_counts_who_serves_it_and_what_waits() -> None:
    there = Scene()
    assert (view(there).state, view(there).pool) == (
        ConnectionState.NO_WORKER,
        PoolCounts(connected=0, draining=0, away=0, places=0, taken=0),
    )
    first = await there.worker(max_parallel=1)
    second = await there.worker(max_parallel=2)
    away = await there.worker()
    away.seat.end(leaving=False)
    calls = [there.call() for _ in range(5)]
    await there.waiting(2)
    counted = view(there)
    assert (counted.state, counted.in_flight, counted.waiting) == (ConnectionState.READY, 3, 2)
    assert counted.pool == PoolCounts(connected=2, draining=0, away=1, places=3, taken=3)
    second.seat.hear(WorkerLeaves())
    assert view(there).pool == PoolCounts(connected=2, draining=1, away=1, places=1, taken=1)
    first.seat.hear(WorkerLeaves())
    assert view(there).state is ConnectionState.NO_WORKER
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
