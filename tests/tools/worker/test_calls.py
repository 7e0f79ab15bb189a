"""Step kind worker: who is given a call, and what its end says about whether the tool acted."""

import asyncio
import json

import pytest

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.tools import ToolEnding
from jackline_server.runtime.ports.workers import (
    CancelReason,
    ResultTaken,
    ServerLeaves,
    WorkerErrorKind,
    WorkerLeaves,
    WorkerResult,
)
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.tools.worker.session import Outbox
from tests.tools.worker.scene import POOL, Scene, registration, result_of, tool


async def test_a_call_reaches_the_worker_with_all_that_goes_along():
    there = Scene()
    worker = await there.worker()
    call = there.call(arguments={"order": "A-1"})
    order = await worker.invoked()
    assert json.loads(order.arguments_json) == {"order": "A-1"}
    assert (order.call_key, order.attempt, order.run_id, order.step_id) == ("key_1", 1, "run_1", "tool")
    assert order.subject == {"user": "ann"}
    assert order.traceparent.startswith("00-")
    worker.answer(order, {"status": "paid"})
    result = await result_of(call)
    assert (result.ending, result.output_json) == (ToolEnding.COMPLETED, '{"status":"paid"}')
    assert (await worker.taken()).invocation == order.invocation


async def test_two_workers_of_one_tool_share_the_calls():
    there = Scene()
    first, second = await there.worker(), await there.worker()
    calls = [there.call() for _ in range(4)]
    for worker in (first, second, first, second):
        worker.answer(await worker.invoked())
    assert [(await result_of(call)).ending for call in calls] == [ToolEnding.COMPLETED] * 4


async def test_a_worker_is_given_no_more_than_it_has_places_and_the_line_is_kept():
    there = Scene()
    worker = await there.worker(max_parallel=1)
    calls = [there.call(arguments={"order": str(number)}) for number in range(3)]
    await there.waiting(2)
    served: list[str] = []
    for left in (1, 0, 0):
        order = await worker.invoked()
        served.append(json.loads(order.arguments_json)["order"])
        worker.answer(order)
        await there.waiting(left)
    assert served == ["0", "1", "2"]
    await asyncio.gather(*map(result_of, calls))


async def test_a_tool_has_its_own_limit_within_its_worker():
    there = Scene()
    worker = await there.worker(tool("look", max_parallel=1), tool("count"))
    calls = [there.call("look"), there.call("look"), there.call("count")]
    assert [(await worker.invoked()).tool for _ in range(2)] == ["look", "count"]
    await there.waiting(1)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_call_waits_for_a_worker_to_appear():
    there = Scene()
    call = there.call()
    await there.waiting(1)
    worker = await there.worker()
    worker.answer(await worker.invoked())
    assert (await result_of(call)).ending is ToolEnding.COMPLETED


async def test_with_nobody_in_time_the_call_certainly_failed_and_may_be_tried_again():
    there = Scene()
    result = await result_of(there.call(effect=Effect.WRITE, wait_ms=1))
    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)


async def test_a_call_that_got_no_place_in_its_time_certainly_failed():
    there = Scene()
    worker = await there.worker(max_parallel=1)
    held = there.call()
    await worker.invoked()
    result = await result_of(there.call(effect=Effect.WRITE, timeout_ms=20))
    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)
    held.cancel()


@pytest.mark.parametrize(
    ("effect", "ending"), [(Effect.WRITE, ToolEnding.UNCERTAIN), (Effect.READ, ToolEnding.FAILED),
                           (Effect.IDEMPOTENT, ToolEnding.FAILED)]
)  # fmt: skip
async def test_the_end_of_a_worker_follows_the_effect_of_its_tool(effect: Effect, ending: ToolEnding):
    there = Scene()
    worker = await there.worker()
    call = there.call(effect=effect)
    await worker.invoked()
    worker.seat.end(leaving=True)
    result = await result_of(call)
    assert (result.ending, result.may_pass) == (ending, True)


async def test_a_worker_that_does_not_come_back_in_its_grace_is_lost():
    there = Scene(resume_grace_ms=10)
    worker = await there.worker()
    call = there.call(effect=Effect.WRITE)
    await worker.invoked()
    worker.seat.end(leaving=False)
    assert (await result_of(call)).ending is ToolEnding.UNCERTAIN
    assert there.pools.pools()[0].workers == []


async def test_a_call_that_its_worker_was_never_told_of_goes_to_another():
    there = Scene()
    gone = await there.worker()
    call = there.call(effect=Effect.WRITE)
    await there.loaded(1)
    gone.seat.end(leaving=True)
    worker = await there.worker()
    worker.answer(await worker.invoked())
    assert (await result_of(call)).ending is ToolEnding.COMPLETED


async def test_a_result_that_was_finished_in_a_break_is_delivered_once():
    there = Scene()
    gone = await there.worker()
    call = there.call(effect=Effect.WRITE)
    order = await gone.invoked()
    gone.seat.end(leaving=False)
    back = await there.back(gone, invocations=(order.invocation,))
    assert back.seat.welcome.resumed
    back.answer(order, "first")
    back.answer(order, "second")
    assert (await result_of(call)).output_json == '"first"'
    assert [(await back.taken()).invocation for _ in range(2)] == [order.invocation] * 2
    assert there.pools.pools()[0].dropped_results == 0


async def test_an_invocation_that_a_worker_does_not_name_when_it_is_back_never_reached_it():
    there = Scene()
    gone = await there.worker()
    call = there.call(effect=Effect.WRITE)
    order = await gone.invoked()
    gone.seat.end(leaving=False)
    back = await there.back(gone)
    again = await back.invoked()
    assert again.invocation == order.invocation
    back.answer(again)
    assert (await result_of(call)).ending is ToolEnding.COMPLETED


async def test_a_stranger_can_not_resume_a_session():
    there = Scene()
    worker = await there.worker()
    seat = await there.pools.join("somebody else", registration(session=worker.seat.welcome.session))
    assert not seat.welcome.resumed
    assert seat.welcome.session != worker.seat.welcome.session


async def test_the_older_stream_of_a_resumed_session_says_nothing_any_more():
    there = Scene()
    old = await there.worker()
    call = there.call()
    order = await old.invoked()
    new = await there.back(old, invocations=(order.invocation,))
    old.answer(order, "of the old stream")
    old.seat.end(leaving=True)
    new.answer(order, "of the new one")
    assert (await result_of(call)).output_json == '"of the new one"'


async def test_an_abort_tells_the_worker_to_stop_and_its_place_is_taken_until_it_says_it_has():
    there = Scene()
    worker = await there.worker(max_parallel=1)
    call = there.call(effect=Effect.WRITE)
    order = await worker.invoked()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    cancel = await worker.cancelled()
    assert (cancel.invocation, cancel.reason) == (order.invocation, CancelReason.ABORTED)
    second = there.call()
    await there.waiting(1)
    worker.fail(order, WorkerErrorKind.CANCELLED)
    worker.answer(await worker.invoked())
    assert (await result_of(second)).ending is ToolEnding.COMPLETED


async def test_a_result_that_nobody_waits_for_is_acknowledged_dropped_and_counted():
    there = Scene()
    worker = await there.worker()
    call = there.call(effect=Effect.WRITE, timeout_ms=20)
    order = await worker.invoked()
    result = await result_of(call)
    assert (result.ending, result.timed_out) == (ToolEnding.UNCERTAIN, True)
    assert (await worker.cancelled()).reason is CancelReason.TIMED_OUT
    worker.answer(order)
    worker.answer("inv_of_somebody_else")
    assert [(await worker.taken()).invocation for _ in range(2)] == [order.invocation, "inv_of_somebody_else"]
    assert there.pools.pools()[0].dropped_results == 2


async def test_the_invocation_of_another_worker_can_not_be_answered():
    there = Scene()
    first = await there.worker()
    call = there.call()
    order = await first.invoked()
    second = await there.worker()
    second.answer(order, "forged")
    first.answer(order, "true")
    assert (await result_of(call)).output_json == '"true"'


async def test_a_draining_worker_finishes_and_is_given_nothing_more():
    there = Scene()
    worker = await there.worker()
    held = there.call()
    order = await worker.invoked()
    worker.seat.hear(WorkerLeaves())
    assert await worker.next() == ServerLeaves(grace_ms=None)
    later = there.call()
    await there.waiting(1)
    worker.answer(order)
    assert (await result_of(held)).ending is ToolEnding.COMPLETED
    other = await there.worker()
    other.answer(await other.invoked())
    assert (await result_of(later)).ending is ToolEnding.COMPLETED


async def test_a_worker_that_began_nothing_is_not_asked_again_for_that_call():
    there = Scene()
    first = await there.worker()
    call = there.call(effect=Effect.WRITE)
    first.fail(await first.invoked(), WorkerErrorKind.NOT_STARTED)
    await there.waiting(1)
    second = await there.worker()
    second.answer(await second.invoked())
    assert (await result_of(call)).ending is ToolEnding.COMPLETED


async def test_a_call_that_no_worker_here_is_to_be_given_keeps_no_other_from_them():
    there = Scene()
    worker = await there.worker()
    shy = there.call()
    worker.fail(await worker.invoked(), WorkerErrorKind.NOT_STARTED)
    await there.waiting(1)
    other = there.call()
    worker.answer(await worker.invoked())
    assert (await result_of(other)).ending is ToolEnding.COMPLETED
    shy.cancel()


async def test_nothing_is_kept_for_a_stream_that_has_to_end():
    outbox = Outbox()
    for number in range(20_000):
        outbox.put(ResultTaken(invocation=str(number)))
    with pytest.raises(Refused) as refused:
        await outbox.take()
    assert refused.value.reason is Reason.SLOW_CONSUMER
    assert len(outbox.orders) < 10_000


@pytest.mark.parametrize(
    ("kind", "effect", "ending", "may_pass"),
    [
        (WorkerErrorKind.FAILED, Effect.WRITE, ToolEnding.FAILED, False),
        (WorkerErrorKind.TRANSIENT, Effect.READ, ToolEnding.FAILED, True),
        (WorkerErrorKind.UNCERTAIN, Effect.WRITE, ToolEnding.UNCERTAIN, True),
        (WorkerErrorKind.UNCERTAIN, Effect.READ, ToolEnding.FAILED, True),
        (WorkerErrorKind.CANCELLED, Effect.WRITE, ToolEnding.UNCERTAIN, False),
    ],
)
async def test_what_a_worker_says_of_a_failure_is_what_counts(
    kind: WorkerErrorKind, effect: Effect, ending: ToolEnding, may_pass: bool
):
    there = Scene()
    worker = await there.worker()
    call = there.call(effect=effect)
    worker.fail(await worker.invoked(), kind, "out of stock")
    result = await result_of(call)
    assert (result.ending, result.may_pass, result.error) == (ending, may_pass, "out of stock")


@pytest.mark.parametrize("said", ["", "  ", "\u200b"])
async def test_a_failure_of_which_a_worker_says_nothing_is_told_in_words(said: str):
    there = Scene()
    worker = await there.worker()
    call = there.call()
    worker.fail(await worker.invoked(), WorkerErrorKind.FAILED, said)
    result = await result_of(call)
    assert result.error == "The tool failed and did not say why."


async def test_a_call_goes_only_to_a_worker_that_describes_the_tool_as_it_was_pinned():
    there = Scene()
    new = await there.worker(tool(description="Looks otherwise."))
    await there.worker(tool())
    catalog = there.pools.catalog(POOL)
    assert not isinstance(catalog, str)
    digest = catalog["look"].digest
    call = there.call(tool_digest=digest)
    await there.loaded(0, 1)
    assert new.told == []
    call.cancel()


async def test_a_tool_that_every_worker_describes_differently_has_changed_and_is_not_called():
    there = Scene()
    worker = await there.worker()
    result = await result_of(there.call(effect=Effect.WRITE, tool_digest="0" * 64))
    assert (result.ending, result.error.partition(":")[0]) == (ToolEnding.FAILED, "tool_changed")
    assert worker.told == []


async def test_a_result_that_does_not_fit_the_tools_own_schema_is_a_failure_of_its_effect():
    there = Scene()
    worker = await there.worker(tool(output_schema_json=b'{"type":"object"}'))
    for effect, ending in ((Effect.READ, ToolEnding.FAILED), (Effect.WRITE, ToolEnding.UNCERTAIN)):
        call = there.call(effect=effect)
        worker.answer(await worker.invoked(), "a text")
        assert (await result_of(call)).ending is ending


@pytest.mark.parametrize("data", [b"{", b'{"a":NaN}', b"[" * 500 + b"]" * 500, b"\xff"])
async def test_a_result_that_is_no_json_is_uncertain_for_a_write(data: bytes):
    there = Scene()
    worker = await there.worker()
    call = there.call(effect=Effect.WRITE)
    order = await worker.invoked()
    worker.seat.hear(WorkerResult(invocation=order.invocation, outcome=data))
    assert (await result_of(call)).ending is ToolEnding.UNCERTAIN


async def test_a_long_result_is_cut_as_any_other():
    there = Scene()
    worker = await there.worker()
    call = there.call()
    worker.answer(await worker.invoked(), "x" * 300_000)
    result = await result_of(call)
    assert result.cut_from_bytes == 300_000
