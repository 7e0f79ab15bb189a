"""Noticing a consumer that takes nothing any more."""

import asyncio

import pytest

from jackline_server.rpc.stall import Stall


async def stalled(stall: Stall) -> bool:
    """Write for ever; True if the stall ended it and left the task as it was."""
    stall.begin()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return stall.is_over()
    finally:
        stall.end()
    return False


async def test_a_write_that_waits_too_long_is_ended_and_the_task_is_not_cancelled() -> None:
    stall = Stall(wait_s=0.02)
    async with asyncio.timeout(5):
        assert await stalled(stall)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    stall.close()


async def test_a_later_write_is_given_its_whole_time() -> None:
    """The timer of the first write looks while the second is young, and then waits for the rest."""
    loop = asyncio.get_running_loop()
    stall = Stall(wait_s=0.2)
    stall.begin()
    await asyncio.wait({loop.create_future()}, timeout=0.15)
    stall.end()
    since = loop.time()
    async with asyncio.timeout(5):
        assert await stalled(stall)
    assert loop.time() - since >= 0.199
    stall.close()


async def test_time_between_writes_does_not_count() -> None:
    stall = Stall(wait_s=0.02)
    stall.begin()
    stall.end()
    await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.1)
    stall.close()


async def test_a_cancel_of_somebody_else_stays_a_cancel() -> None:
    async def stream() -> None:
        stall = Stall(wait_s=60)
        stall.begin()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert not stall.is_over()
            raise
        finally:
            stall.close()

    task = asyncio.create_task(stream())
    await asyncio.wait({task}, timeout=0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
