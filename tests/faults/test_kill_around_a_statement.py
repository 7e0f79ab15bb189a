"""SIGKILL before, during and after a statement that writes, judged by what the database holds.

The cases are F8 to F12 of the faults, with a database in place of a service.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from jackline.v1.run_pb2 import RunState
from tests.faults.one_write import PLACES, Write, killed
from tests.support.postgres_server import Postgres, running_postgres
from tests.support.server_process import Servers

WORKFLOW = """\
name: note
flow: [note]
steps:
  note:
    kind: sql
    connection: shop
    effect: {effect}
    input: {{}}
    statement: >-
      {statement}
"""
ONCE = "INSERT INTO notes (key) VALUES ({{ _call_key }}) ON CONFLICT (key) DO NOTHING"
PLAIN = "INSERT INTO notes (key) VALUES ({{ _call_key }} || '-' || (SELECT count(*) FROM notes))"
SLOW = "INSERT INTO notes (key) SELECT 'slow' FROM pg_sleep(30)"
TABLE = "CREATE TABLE notes (key TEXT PRIMARY KEY)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """A database with a table of notes."""

    config: str
    value: Callable[[str], object]

    @property
    def rows(self) -> object:
        return self.value("SELECT count(*) FROM notes")

    def write(self, workflow: str) -> Write:
        return Write(config=self.config, workflow=workflow, count=lambda: self.rows)


@pytest.fixture(scope="module")
def postgres() -> Generator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def notes(request: pytest.FixtureRequest, tmp_path: Path) -> Notes:
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        server.run("DROP TABLE IF EXISTS notes", TABLE)
        return Notes(config=f'[data_sources.shop]\nurl = "{server.url}"\nwrites = true\n', value=server.value)
    file = tmp_path / "notes.db"

    def value(statement: str) -> object:
        with closing(sqlite3.connect(file)) as connection:
            return connection.execute(statement).fetchone()[0]

    with closing(sqlite3.connect(file)) as connection:
        connection.execute(TABLE)
    return Notes(config=f'[data_sources.shop]\nfile = "{file}"\nwrites = true\n', value=value)


@pytest.mark.parametrize("place", PLACES)
async def test_a_write_is_made_once_and_asked_about_where_nobody_knows(
    place: str, servers: Servers, notes: Notes
) -> None:
    before, after, asks = PLACES[place]
    seen = await killed(
        servers, notes.write(WORKFLOW.format(effect="write", statement=PLAIN)), failpoints=f"{place}=kill"
    )

    assert (seen.rows, notes.rows, seen.asked) == (before, after, asks)
    assert seen.state == RunState.RUN_STATE_SUCCEEDED


@pytest.mark.parametrize("place", PLACES)
async def test_an_idempotent_write_is_made_again_under_its_key_and_stands_once(
    place: str, servers: Servers, notes: Notes
) -> None:
    seen = await killed(
        servers, notes.write(WORKFLOW.format(effect="idempotent", statement=ONCE)), failpoints=f"{place}=kill"
    )

    assert (notes.rows, seen.asked) == (1, False)
    assert seen.state == RunState.RUN_STATE_SUCCEEDED


async def test_a_statement_whose_server_dies_is_rolled_back_and_asked_about(
    servers: Servers, postgres: Postgres
) -> None:
    postgres.run("DROP TABLE IF EXISTS notes", TABLE)
    config = f'[data_sources.shop]\nurl = "{postgres.url}"\nwrites = true\n'
    active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(30)'"
    seen = await killed(
        servers,
        Notes(config=config, value=postgres.value).write(WORKFLOW.format(effect="write", statement=SLOW)),
        until=lambda: postgres.value(active),
    )

    assert (seen.rows, seen.asked) == (0, True)
    postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)'")
    assert postgres.value("SELECT count(*) FROM notes") == 0
