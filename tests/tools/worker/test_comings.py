"""What the server's log says of workers that come and go."""

import logging

import pytest

from jackline_server.runtime.ports.workers import WorkerLeaves
from jackline_server.tools.worker.comings import LINES_A_MINUTE
from tests.tools.worker.scene import Scene

LOGGER = "jackline_server.tools.worker.comings"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.name == LOGGER]


async def test_the_log_says_that_a_worker_joins_breaks_off_comes_back_drains_and_leaves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    there = Scene()
    worker = await there.worker()
    worker.seat.end(leaving=False)
    again = await there.back(worker)
    again.seat.hear(WorkerLeaves())
    again.seat.end(leaving=True)
    assert lines(caplog) == [
        "a worker has joined",
        "a worker's stream has ended; it may come back",
        "a worker has come back",
        "a worker is leaving",
        "a worker has left",
    ]
    first = next(record for record in caplog.records if record.name == LOGGER)
    assert (vars(first)["pool"], vars(first)["worker"]) == ("support", "one")


async def test_a_worker_that_comes_and_goes_all_the_time_does_not_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    there = Scene()
    worker = await there.worker()
    for _ in range(LINES_A_MINUTE):
        worker.seat.end(leaving=False)
        worker = await there.back(worker)
    assert len(lines(caplog)) == LINES_A_MINUTE
