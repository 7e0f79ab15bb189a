"""Connections to a file between statements: used again, but for one that something went wrong with."""

import sqlite3
from collections.abc import Generator
from contextlib import ExitStack

import pytest

from jackline_server.tools.sql.idle import IdleConnections

made: list[sqlite3.Connection] = []


@pytest.fixture
def kept() -> Generator[IdleConnections]:
    def connect() -> sqlite3.Connection:
        made.append(sqlite3.connect(":memory:", check_same_thread=False))
        return made[-1]

    made.clear()
    connections = IdleConnections(connect, most=2)
    yield connections
    connections.close()
    assert not any(is_open(one) for one in made)


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT 1").fetchone()
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_connection_is_used_again(kept: IdleConnections) -> None:
    for _ in range(3):
        with kept.taken() as connection:
            assert is_open(connection)
    assert len(made) == 1


def test_nobody_gets_one_that_another_has(kept: IdleConnections) -> None:
    with kept.taken() as one, kept.taken() as other:
        assert one is not other


def test_one_that_something_went_wrong_with_is_closed_and_not_used_again(kept: IdleConnections) -> None:
    with pytest.raises(sqlite3.OperationalError), kept.taken() as broken:
        broken.execute("no statement")
    assert not is_open(broken)
    with kept.taken() as next_one:
        assert is_open(next_one)


def test_no_more_are_kept_than_may_be(kept: IdleConnections) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(kept.taken())
    assert sum(is_open(one) for one in made) == 2


def test_one_that_is_in_use_when_all_are_closed_is_closed_when_it_comes_back(kept: IdleConnections) -> None:
    with kept.taken() as connection:
        kept.close()
        assert is_open(connection)
    assert not is_open(connection)
