"""What workers say of how far an invocation is: whose it is, and when nobody is told any more."""

import asyncio

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.tool_reports import ToolReport
from jackline_server.runtime.ports.tools import ToolEnding
from jackline_server.runtime.ports.workers import WorkerErrorKind
from tests.tools.worker.scene import Scene, result_of


@pytest.mark.parametrize(("fraction", "done", "total"), [(0.5, 0.5, 1.0), (None, None, None)])
async def test_progress_of_an_invocation_is_that_of_its_call(
    fraction: float | None, done: float | None, total: float | None
) -> None:
    there, heard, other = Scene(), list[ToolReport](), list[ToolReport]()
    worker = await there.worker()
    first, second = there.call(report=heard.append), there.call(report=other.append)
    orders = [await worker.invoked(), await worker.invoked()]
    worker.show(orders[0], "asking the carrier", fraction)
    assert heard == [ToolReport(text="asking the carrier", done=done, total=total)]
    assert other == []
    for order in orders:
        worker.answer(order)
    await asyncio.gather(result_of(first), result_of(second))


async def test_progress_after_a_result_or_of_an_invocation_that_nobody_knows_is_about_nothing() -> None:
    there, heard = Scene(), list[ToolReport]()
    worker = await there.worker()
    call = there.call(report=heard.append)
    order = await worker.invoked()
    worker.answer(order)
    worker.show(order, "late")
    await result_of(call)
    worker.show(order, "very late")
    assert heard == []


@pytest.mark.parametrize("how", ["aborted", "late"])
async def test_progress_of_a_call_that_nobody_waits_for_is_about_nothing(how: str) -> None:
    there, heard = Scene(), list[ToolReport]()
    worker = await there.worker()
    call = there.call(report=heard.append, timeout_ms=20_000 if how == "aborted" else 50)
    order = await worker.invoked()
    if how == "aborted":
        call.cancel()
    await asyncio.wait({call})
    await worker.cancelled()
    worker.show(order, "still at it")
    assert heard == []


async def test_progress_gives_a_call_no_more_time() -> None:
    there, heard = Scene(), list[ToolReport]()
    worker = await there.worker()
    call = there.call(report=heard.append, timeout_ms=200, effect=Effect.WRITE)
    order = await worker.invoked()
    while not call.done():
        worker.show(order, "nearly there")
        await asyncio.sleep(0)
    result = await result_of(call)
    assert (result.ending, result.timed_out) == (ToolEnding.UNCERTAIN, True)
    assert heard


async def test_a_worker_that_goes_on_after_a_break_still_tells_how_far_it_is() -> None:
    there, heard = Scene(), list[ToolReport]()
    worker = await there.worker()
    call = there.call(report=heard.append)
    order = await worker.invoked()
    worker.seat.end(leaving=False)
    again = await there.back(worker, invocations=(order.invocation,))
    worker.show(order, "on a stream that is over")
    again.show(order, "going on")
    assert [one.text for one in heard] == ["going on"]
    again.answer(order)
    await result_of(call)


async def test_a_worker_that_began_nothing_tells_nothing_of_the_call_that_another_makes() -> None:
    there, heard = Scene(), list[ToolReport]()
    first = await there.worker()
    call = there.call(report=heard.append)
    order = await first.invoked()
    second = await there.worker()
    first.fail(order, WorkerErrorKind.NOT_STARTED)
    again = await second.invoked()
    first.show(order, "the first")
    second.show(again, "the second")
    assert [one.text for one in heard] == ["the second"]
    second.answer(again)
    await result_of(call)
