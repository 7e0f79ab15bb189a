"""Who may call a model now, and who has to wait for a place."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from jackline_server.models.places import Places
from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.ports.models import ModelPlace
from tests.models.examples import model_plan
from tests.models.virtual_time import run_virtual

PLAN = model_plan()


def places(*, concurrency: int = 1_000, requests: int | None = None, tokens: int | None = None) -> Places:
    profile = ModelProfile(concurrency=concurrency, requests_per_minute=requests, tokens_per_minute=tokens)
    return Places({"p": profile})


async def taken(line: Places, *, tokens: int = 10) -> ModelPlace:
    """A place, now or later."""
    return line.take(PLAN, tokens=tokens) or await line.wait(PLAN, tokens=tokens)


async def times(line: Places, count: int, *, tokens: int = 10, used: int | None = None) -> list[float]:
    """When each of so many attempts begins that come at once and take no time."""
    loop = asyncio.get_running_loop()
    began: list[float] = []

    async def attempt() -> None:
        place = await taken(line, tokens=tokens)
        began.append(loop.time())
        place.release(used)

    await asyncio.gather(*(attempt() for _ in range(count)))
    return began


async def turn() -> None:
    """Let every task that is ready run."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_no_more_attempts_than_a_profile_has_places_run_at_once() -> None:
    line = places(concurrency=2)
    held = [line.take(PLAN, tokens=1), line.take(PLAN, tokens=1)]
    assert None not in held
    assert line.take(PLAN, tokens=1) is None
    waiting = asyncio.create_task(line.wait(PLAN, tokens=1))
    await turn()
    assert not waiting.done()
    assert held[0] is not None
    held[0].release(None)
    assert line.take(PLAN, tokens=1) is None, "who waits comes first"
    (await waiting).release(None)
    assert line.take(PLAN, tokens=1) is not None


async def test_a_place_that_is_given_back_twice_is_one_place() -> None:
    line = places(concurrency=1)
    place = await taken(line)
    place.release(None)
    place.release(None)
    assert line.take(PLAN, tokens=1) is not None
    assert line.take(PLAN, tokens=1) is None


async def test_who_came_first_is_served_first() -> None:
    line = places(concurrency=1)
    first = await taken(line)
    served: list[int] = []

    async def attempt(number: int) -> None:
        place = await line.wait(PLAN, tokens=1)
        served.append(number)
        place.release(None)

    tasks = [asyncio.create_task(attempt(number)) for number in range(5)]
    await turn()
    first.release(None)
    await asyncio.gather(*tasks)
    assert served == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("gone", [0, 1, 2])
async def test_who_leaves_the_line_holds_up_nobody(gone: int) -> None:
    line = places(concurrency=1)
    first = await taken(line)
    tasks = [asyncio.create_task(line.wait(PLAN, tokens=1)) for _ in range(3)]
    await turn()
    tasks[gone].cancel()
    first.release(None)  # in the same moment
    for task in tasks:
        await asyncio.wait({task}, timeout=5)
        if not task.cancelled():
            task.result().release(None)
    assert [task.cancelled() for task in tasks] == [number == gone for number in range(3)]
    assert line.take(PLAN, tokens=1) is not None


async def test_a_place_that_comes_when_nobody_wants_it_any_more_goes_to_the_next() -> None:
    line = places(concurrency=1)
    first = await taken(line)
    tasks = [asyncio.create_task(line.wait(PLAN, tokens=1)) for _ in range(2)]
    await turn()
    first.release(None)  # the first of the two has its place
    tasks[0].cancel()  # and goes before it knows
    async with asyncio.timeout(5):
        (await tasks[1]).release(None)
    assert tasks[0].cancelled()


def virtual(test: Coroutine[Any, Any, list[float]]) -> list[float]:
    return run_virtual(test)


def test_in_no_minute_do_more_attempts_begin_than_are_allowed() -> None:
    began = virtual(times(places(requests=3), 8))
    assert began == pytest.approx([0, 0, 0, 60, 60, 60, 120, 120])


def test_in_no_minute_do_attempts_ask_for_more_tokens_than_are_allowed() -> None:
    began = virtual(times(places(tokens=100), 5, tokens=40))
    assert began == pytest.approx([0, 0, 60, 60, 120])


def test_what_an_attempt_did_not_use_is_there_for_the_others() -> None:
    assert virtual(times(places(tokens=100), 5, tokens=40, used=10)) == pytest.approx([0] * 5)


def test_an_attempt_that_asks_for_more_than_a_minute_has_goes_alone() -> None:
    began = virtual(times(places(tokens=100), 2, tokens=5_000))
    assert began == pytest.approx([0, 60])


def test_both_limits_hold_together() -> None:
    began = virtual(times(places(concurrency=1, requests=4, tokens=30), 4, tokens=10))
    assert began == pytest.approx([0, 0, 0, 60])


async def test_profiles_do_not_wait_for_each_other_and_an_unknown_one_has_the_usual_places() -> None:
    line = places(concurrency=1)
    assert line.take(PLAN, tokens=1) is not None
    other = model_plan(profile="openai/other", model="openai/other")
    assert all(line.take(other, tokens=1) is not None for _ in range(32))
    assert line.take(other, tokens=1) is None
