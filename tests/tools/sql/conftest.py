"""The two kinds of databases, each with the same table in it."""

from collections.abc import Generator

import pytest

from tests.support.postgres_server import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres() -> Generator[Postgres]:
    with running_postgres() as server:
        yield server
