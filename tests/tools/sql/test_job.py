"""A statement that is given up: until a commit is sent nothing is changed, and whoever waits knows."""

import threading
import time

from jackline_server.tools.sql.job import Job


def job() -> Job:
    return Job(deadline=time.monotonic() + 60)


def test_a_job_that_was_given_up_may_not_commit():
    one = job()

    assert one.give_up() is True
    assert one.may_commit() is False


def test_a_job_that_commits_can_not_be_given_up_for_certain():
    one = job()

    assert one.may_commit() is True
    assert one.give_up() is False


def test_giving_up_interrupts_what_runs_and_nothing_that_has_ended():
    one, called = job(), threading.Event()
    with one.interrupted_by(called.set):
        one.give_up()
        assert called.wait(timeout=10)
    called.clear()
    one.give_up()
    assert not called.is_set()


def test_what_runs_next_on_a_connection_is_not_interrupted_for_the_one_before():
    one, began, go = job(), threading.Event(), threading.Event()
    calls: list[str] = []

    def interrupt() -> None:
        began.set()
        go.wait(timeout=10)
        calls.append("interrupted")

    def work() -> None:
        with one.interrupted_by(interrupt):
            one.give_up()
            began.wait(timeout=10)
        calls.append("put back")

    working = threading.Thread(target=work)
    working.start()
    began.wait(timeout=10)
    working.join(timeout=0.2)
    go.set()
    working.join(timeout=10)

    assert calls == ["interrupted", "put back"]


def test_a_job_is_over_with_its_time():
    assert Job(deadline=time.monotonic()).is_over
    assert not job().is_over
