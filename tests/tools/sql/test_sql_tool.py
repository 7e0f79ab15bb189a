"""Step kind sql on both kinds of databases: bound values, transactions that hold, caps, time, exact JSON."""

# ruff: noqa: E501, S608  # a statement stands on its line, and is made of the test's own words

import asyncio
import json
import math
import sqlite3
import time
from collections.abc import AsyncGenerator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from jackline_server.core.json_text import clean
from jackline_server.core.plan import Effect, JsonValue
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.sql import PostgresServer, SqliteFile
from jackline_server.runtime.ports.tools import ToolEnding
from jackline_server.tools.sql.databases import SourceDown
from tests.support.postgres_server import PASSWORD, USER, Postgres
from tests.tools.sql.databases import Asked, asked, file_value, in_file, on_server, source

SLOW = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "postgres": "SELECT pg_sleep(60)",
}
SLOW_WRITE = {
    "sqlite": "INSERT INTO orders SELECT 9, 'late', max(i) FROM (WITH RECURSIVE n(i) AS "
    "(SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)",
    "postgres": "INSERT INTO orders SELECT 9, 'late', 1 FROM pg_sleep(60)",
}
ACTIVE = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND state = 'active'"
KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'jackline'"
HOSTILE: list[JsonValue] = [
    "'; DROP TABLE orders; --",
    "' OR '1'='1",
    "{{ other }}",
    ":p0 %(p0)s $1 ?",
    "100%",
    "\\'; --",
    "Ω \U0001f600 \ud800",
    "",
]


@pytest.fixture(params=["sqlite", "postgres"])
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Asked]:
    if request.param == "sqlite":
        path = tmp_path / "orders.db"
        peek = partial(file_value, path)
        async with asked(source(in_file(path)), peek) as made:
            yield made
        return
    server: Postgres = request.getfixturevalue("postgres")
    async with asked(source(on_server(server)), server.value) as made:
        yield made


def kind_of(db: Asked) -> str:
    return "sqlite" if isinstance(db.source.database, SqliteFile) else "postgres"


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", HOSTILE)
async def test_a_value_stays_a_value_whatever_it_holds(db: Asked, value: JsonValue):
    rows = await db.rows("SELECT {{ v }} AS v, 'it''s 100%' AS w", {"v": value})

    assert rows == [{"v": clean(str(value)), "w": "it's 100%"}]
    assert db.peek("SELECT count(*) FROM orders") == 3


async def test_a_placeholder_as_text_finds_a_number(db: Asked):
    assert await db.rows("SELECT customer FROM orders WHERE id = {{ id }}", {"id": "2"}) == [
        {"customer": "bob"}
    ]


async def test_a_value_keeps_its_kind_and_what_is_no_plain_value_is_its_json(db: Asked):
    cast = "CAST({{ d }} AS TEXT)"
    rows = await db.rows(
        f"SELECT id + {{{{ n }}}} AS n, CAST({{{{ z }}}} AS TEXT) IS NULL AS z, {cast} AS d FROM orders WHERE id = 1",
        {"n": 41, "z": None, "d": {"a": [1]}},
    )

    assert rows == [{"n": 42, "z": rows[0]["z"], "d": '{"a":[1]}'}]
    assert rows[0]["z"] in (True, 1)


async def test_one_name_may_stand_twice(db: Asked):
    rows = await db.rows("SELECT id FROM orders WHERE id >= {{ a }} AND id <= {{ a }}", {"a": 2})

    assert rows == [{"id": 2}]


async def test_a_name_without_a_value_runs_nothing(db: Asked):
    result = await db.run("SELECT {{ nobody }}")

    assert result.ending is ToolEnding.FAILED
    assert "nobody" in result.error


async def test_columns_of_one_name_are_told_apart(db: Asked):
    assert await db.rows("SELECT 1 AS a, 2 AS a, 3 AS a") == [{"a": 1, "a_2": 2, "a_3": 3}]


async def test_no_rows_are_an_empty_list(db: Asked):
    assert await db.rows("SELECT id FROM orders WHERE id = 99") == []


async def test_values_of_postgresql_are_exact(postgres: Postgres):
    async with asked(source(on_server(postgres)), postgres.value) as db:
        (row,) = await db.rows(
            "SELECT 12345678901234567890.10::numeric AS d, 'NaN'::numeric AS dn, 'NaN'::float8 AS n, "
            "'-Infinity'::float8 AS i, 9223372036854775807::int8 AS b, '\\x0001ff'::bytea AS raw, "
            "'2026-02-03 04:05:06.5+02'::timestamptz AS t, 'infinity'::timestamptz AS ti, "
            "'2026-02-03'::date AS day, '04:05'::time AS at, '1 mon 2 days'::interval AS span, "
            "'{\"a\": [1, 2.5]}'::jsonb AS j, ARRAY[1, NULL] AS list, true AS yes, "
            "'00000000-0000-0000-0000-000000000001'::uuid AS id, int4range(1, 5) AS r, '10.0.0.1'::inet AS ip"
        )
    assert row == {
        "d": "12345678901234567890.10",
        "dn": "NaN",
        "n": "NaN",
        "i": "-Infinity",
        "b": 9223372036854775807,
        "raw": "[3 bytes]",
        "t": "2026-02-03T02:05:06.5+00:00",
        "ti": "infinity",
        "day": "2026-02-03",
        "at": "04:05:00",
        "span": "P1M2D",
        "j": {"a": [1, 2.5]},
        "list": [1, None],
        "yes": True,
        "id": "00000000-0000-0000-0000-000000000001",
        "r": "[1, 5)",
        "ip": "10.0.0.1",
    }


async def test_values_of_sqlite_are_exact(tmp_path: Path):
    async with asked(source(in_file(tmp_path / "a.db")), None) as db:
        (row,) = await db.rows("SELECT 9e999 AS i, x'00ff' AS raw, CAST(x'ff41' AS TEXT) AS odd, 0.1 AS f")
    assert row == {"i": "Infinity", "raw": "[2 bytes]", "odd": "\ufffdA", "f": 0.1}
    assert math.isclose(row["f"], 0.1)


# --- reading is reading ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM orders",
        "UPDATE orders SET total = 0",
        "INSERT INTO orders VALUES (7, 'x', 1)",
        "CREATE TABLE more (a INTEGER)",
        "DROP TABLE orders",
    ],
)
async def test_a_step_that_reads_can_not_write_whatever_its_statement_is(db: Asked, statement: str):
    result = await db.run(statement)

    assert result.ending is ToolEnding.FAILED
    assert db.peek("SELECT count(*) || '' FROM orders WHERE total > 0") == "2"
    assert await db.rows("SELECT count(*) AS n FROM orders") == [{"n": 3}]


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH ':memory:' AS x",
        "PRAGMA writable_schema = 1",
        "PRAGMA query_only = 0",
        "VACUUM INTO 'never-made.db'",
        "SELECT load_extension('x')",
        "SELECT randomblob(100000000)",
        "COMMIT",
    ],
)
@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_sqlite_opens_nothing_and_is_not_reset(tmp_path: Path, statement: str, effect: Effect):
    path = tmp_path / "a.db"
    async with asked(source(in_file(path)), None) as db:
        assert (await db.run(statement, effect=effect)).ending is ToolEnding.FAILED
        assert await db.rows("SELECT count(*) AS n FROM orders") == [{"n": 3}]


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_a_statement_does_not_learn_where_its_file_of_sqlite_is(tmp_path: Path, effect: Effect):
    async with asked(source(in_file(tmp_path / "a.db")), None) as db:
        result = await db.run("SELECT file FROM pragma_database_list", effect=effect)
    assert result.ending is ToolEnding.FAILED
    assert str(tmp_path) not in result.error


async def test_a_function_that_writes_does_not_get_past_a_reading_transaction(postgres: Postgres):
    async with asked(source(on_server(postgres)), postgres.value) as db:
        postgres.run(
            "CREATE OR REPLACE FUNCTION wipe() RETURNS int LANGUAGE sql AS 'DELETE FROM orders RETURNING 1'"
        )
        for statement in (
            "SELECT wipe()",
            "WITH gone AS (DELETE FROM orders RETURNING 1) SELECT * FROM gone",
        ):
            assert (await db.run(statement)).ending is ToolEnding.FAILED
    assert postgres.value("SELECT count(*) FROM orders") == 3


async def test_what_one_statement_sets_in_its_session_does_not_reach_the_next(postgres: Postgres):
    async with asked(source(on_server(postgres), concurrency=1), postgres.value) as db:
        for effect in (Effect.READ, Effect.WRITE):
            done = await db.run("SELECT set_config('search_path', 'nowhere', false)", effect=effect)
            assert done.ending is ToolEnding.COMPLETED
            await db.run("SELECT set_config('default_transaction_read_only', 'off', false)", effect=effect)
            assert await db.rows("SELECT count(*) AS n FROM orders") == [{"n": 3}]


@pytest.mark.parametrize("statement", ["SELECT 1; SELECT 2", "SELECT 1; DROP TABLE orders", "", ";"])
async def test_only_one_statement_is_run_even_where_no_check_saw_it(db: Asked, statement: str):
    result = await db.run(statement, effect=Effect.WRITE)

    assert result.ending is ToolEnding.FAILED
    assert db.peek("SELECT count(*) FROM orders") == 3


async def test_what_the_operator_keeps_for_reading_is_never_written_to(tmp_path: Path):
    async with asked(source(in_file(tmp_path / "a.db"), writes=False), None) as db:
        assert (await db.run("DELETE FROM orders", effect=Effect.WRITE)).ending is ToolEnding.FAILED
    assert file_value(tmp_path / "a.db", "SELECT count(*) FROM orders") == 3


# --- writing -----------------------------------------------------------------------------------


async def test_a_write_is_committed_before_its_result_is_there(db: Asked):
    result = await db.run("UPDATE orders SET total = 1 WHERE id < {{ n }}", {"n": 3}, effect=Effect.WRITE)

    assert result.output_json == '{"rows_affected":2}'
    assert db.peek("SELECT count(*) FROM orders WHERE total = 1") == 2


async def test_a_write_may_return_rows_and_all_of_it_is_done_though_few_are_shown(db: Asked):
    statement = "INSERT INTO orders (id, customer) SELECT id + 10, customer FROM orders RETURNING id"
    result = await db.run(statement, effect=Effect.WRITE, max_rows=1)

    answer = json.loads(result.output_json or "")
    assert (len(answer["rows"]), answer["rows_affected"], answer["truncated"]) == (1, 3, True)
    assert db.peek("SELECT count(*) FROM orders") == 6


async def test_a_write_that_fails_changes_nothing_and_says_why(db: Asked):
    statement = "INSERT INTO orders (id, customer) SELECT 5 - id, 'x' FROM orders WHERE id < 3"
    result = await db.run(statement, effect=Effect.WRITE)

    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, False)
    assert "unique" in result.error.lower()
    assert db.peek("SELECT count(*) FROM orders WHERE customer = 'x'") == 0


async def test_the_key_of_the_call_makes_a_write_one_that_may_be_repeated(db: Asked):
    made = "CREATE TABLE refunds (key TEXT PRIMARY KEY)"
    if isinstance(db.source.database, SqliteFile):
        with closing(sqlite3.connect(db.source.database.file)) as connection:
            connection.execute(made)
    else:
        with psycopg.connect(db.source.database.url.reveal(), autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS refunds")
            connection.execute(made.encode())
    statement = "INSERT INTO refunds VALUES ({{ _call_key }}) ON CONFLICT DO NOTHING"
    for expected in (1, 0):
        result = await db.run(statement, {"_call_key": "chosen by a model"}, effect=Effect.IDEMPOTENT)
        assert result.output_json == f'{{"rows_affected":{expected}}}'
    assert db.peek("SELECT key FROM refunds") == "key_1"


# --- caps --------------------------------------------------------------------------------------


async def test_rows_beyond_the_cap_are_left_out_and_said(db: Asked):
    result = await db.run("SELECT id FROM orders ORDER BY id", max_rows=2)

    assert json.loads(result.output_json or "") == {"rows": [{"id": 1}, {"id": 2}], "truncated": True}


async def test_a_step_can_not_raise_the_cap_of_its_operator(tmp_path: Path):
    async with asked(source(in_file(tmp_path / "a.db"), max_rows=1), None) as db:
        result = await db.run("SELECT id FROM orders", max_rows=50)
    assert result.output_json == '{"rows":[{"id":1}],"truncated":true}'


async def test_an_answer_without_end_is_cut_at_its_bytes(db: Asked):
    endless = {
        "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, hex(zeroblob(500)) AS x FROM n",
        "postgres": "SELECT generate_series(1, 100000000) AS i, repeat('0', 1000) AS x",
    }[kind_of(db)]
    started = time.monotonic()
    result = await db.run(endless)

    answer = json.loads(result.output_json or "")
    assert answer["truncated"] is True
    assert 50 < len(answer["rows"]) < 66
    assert time.monotonic() - started < 8


async def test_a_first_row_that_does_not_fit_is_no_empty_answer(db: Asked):
    wide = {"sqlite": "hex(zeroblob(50000))", "postgres": "repeat('0', 100000)"}[kind_of(db)]
    result = await db.run(f"SELECT {wide} AS x")

    assert result.ending is ToolEnding.FAILED
    assert "65536 bytes" in result.error


# --- time --------------------------------------------------------------------------------------


async def test_a_statement_that_is_late_ends_in_the_database(db: Asked):
    for statement, effect in ((SLOW, Effect.READ), (SLOW_WRITE, Effect.WRITE)):
        started = time.monotonic()
        result = await db.run(statement[kind_of(db)], effect=effect, timeout_ms=300)

        assert (result.ending, result.timed_out) == (ToolEnding.FAILED, True)
        assert time.monotonic() - started < 2
    await _nothing_runs(db)
    assert db.peek("SELECT count(*) FROM orders WHERE customer = 'late'") == 0


async def test_a_statement_that_is_cancelled_ends_in_the_database(db: Asked):
    task = asyncio.create_task(db.run(SLOW_WRITE[kind_of(db)], effect=Effect.WRITE))
    await _something_runs(db)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.monotonic() - started < 1.5
    await _nothing_runs(db)
    assert db.peek("SELECT count(*) FROM orders WHERE customer = 'late'") == 0
    assert await db.rows("SELECT count(*) AS n FROM orders") == [{"n": 3}]


async def test_the_event_loop_goes_on_while_a_database_works(db: Asked):
    task = asyncio.create_task(db.run(SLOW[kind_of(db)], timeout_ms=600))
    before = asyncio.get_running_loop().time()
    longest = 0.0
    while not task.done():
        await asyncio.wait({task}, timeout=0.01)
        now = asyncio.get_running_loop().time()
        longest, before = max(longest, now - before), now
    assert longest < 0.3


@pytest.mark.parametrize(
    ("operator", "pattern"), [("LIKE", "%" + "a" * 5_000 + "b"), ("GLOB", "[a]" * 2_000)]
)
async def test_a_pattern_that_sqlite_would_match_for_long_is_refused(
    tmp_path: Path, operator: str, pattern: str
):
    file = in_file(
        tmp_path / "db", "CREATE TABLE texts (text)", f"INSERT INTO texts VALUES ('{'a' * 1_000}')"
    )
    statement = f"SELECT count(*) AS n FROM texts WHERE text {operator} {{{{ p }}}}"
    async with asked(source(file), None) as db:
        found = await db.rows(statement, {"p": pattern[:900] + ("%" if operator == "LIKE" else "*")})
        refused = await db.run(statement, {"p": pattern})

    assert found == [{"n": 1}]
    assert refused.error == "The database refused the statement: LIKE or GLOB pattern too complex."


async def test_no_more_statements_run_at_once_than_the_source_has_slots(tmp_path: Path):
    async with asked(source(in_file(tmp_path / "a.db"), concurrency=1), None) as db:
        slow = asyncio.create_task(db.run(SLOW["sqlite"], timeout_ms=700))
        await asyncio.wait({slow}, timeout=0.1)
        second = await db.run("SELECT 1 AS a", timeout_ms=100)
        assert (second.ending, second.may_pass) == (ToolEnding.FAILED, True)
        await slow
        assert await db.rows("SELECT 1 AS a") == [{"a": 1}]


async def test_a_lock_that_another_holds_is_waited_for_and_nothing_is_written_after_the_time(tmp_path: Path):
    path = tmp_path / "a.db"
    async with asked(source(in_file(path)), None) as db:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            late = await db.run("DELETE FROM orders", effect=Effect.WRITE, timeout_ms=300)
            assert (late.ending, late.timed_out) == (ToolEnding.FAILED, True)
            waiting = asyncio.create_task(db.run("DELETE FROM orders WHERE id = 1", effect=Effect.WRITE))
            await asyncio.wait({waiting}, timeout=0.3)
            other.execute("COMMIT")
        assert (await waiting).output_json == '{"rows_affected":1}'
    assert file_value(path, "SELECT count(*) FROM orders") == 2


async def _something_runs(db: Asked) -> None:
    """Until the database is at it; SQLite has nobody to ask but the lock that the writer holds."""
    async with asyncio.timeout(10):
        while True:
            if isinstance(db.source.database, SqliteFile):
                with closing(sqlite3.connect(db.source.database.file, timeout=0)) as other:
                    try:
                        other.execute("BEGIN IMMEDIATE")
                    except sqlite3.OperationalError:
                        return
            elif db.peek(ACTIVE):
                return
            await asyncio.to_thread(lambda: None)


async def _nothing_runs(db: Asked) -> None:
    async with asyncio.timeout(5):
        if isinstance(db.source.database, SqliteFile):
            with closing(sqlite3.connect(db.source.database.file, timeout=4)) as other:
                await asyncio.to_thread(lambda: None)
                other.execute("BEGIN IMMEDIATE")
            return
        while db.peek(ACTIVE):
            await asyncio.to_thread(lambda: None)


# --- what goes wrong ---------------------------------------------------------------------------


async def test_an_error_of_the_database_is_told_without_address_or_credential(postgres: Postgres):
    async with asked(source(on_server(postgres)), None) as db:
        result = await db.run(f"SELECT '{PASSWORD}'::int")
    assert result.ending is ToolEnding.FAILED
    assert "invalid input syntax" in result.error
    assert PASSWORD not in result.error


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://{user}:wrong-{password}@127.0.0.1:{port}/postgres",
        "postgresql://{user}:{password}@127.0.0.1:1/postgres",
    ],
)
async def test_a_server_that_can_not_be_reached_is_no_secret_but_its_place_is(postgres: Postgres, url: str):
    there = url.format(user=USER, password=PASSWORD, port=postgres.port)
    async with asked(source(PostgresServer(url=Secret(there))), None) as db:
        result = await db.run("INSERT INTO orders VALUES (1, 'x', 1)", effect=Effect.WRITE)
        with pytest.raises(SourceDown):
            await db.tool.check("orders")
    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)
    assert not any(part in result.error for part in (USER, PASSWORD, "127.0.0.1", "postgres"))


@pytest.mark.parametrize("source_ms", [500, 20_000], ids=["all its time", "less than its time"])
async def test_a_server_that_takes_a_connection_and_says_nothing_has_failed_if_it_had_its_time(
    source_ms: int,
):
    lines: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, line: lines.append(line), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    silent = PostgresServer(url=Secret(f"postgresql://{USER}@127.0.0.1:{port}/orders?sslmode=disable"))
    async with server, asked(source(silent, timeout_ms=source_ms), None) as db:
        result = await db.run("SELECT 1", effect=Effect.WRITE, timeout_ms=500)
        assert (result.ending, result.timed_out) == (ToolEnding.FAILED, True)
        assert bool(result.connection_problem) is (source_ms == 500)
        for line in lines:
            line.transport.abort()


async def test_a_file_that_is_not_there_is_not_made(tmp_path: Path):
    for effect in (Effect.READ, Effect.WRITE):
        async with asked(source(SqliteFile(file=tmp_path / "none.db")), None) as db:
            assert (await db.run("SELECT 1", effect=effect)).ending is ToolEnding.FAILED
        assert not await asyncio.to_thread((tmp_path / "none.db").exists)


async def test_a_file_that_is_no_database_is_a_failure(tmp_path: Path):
    (tmp_path / "a.db").write_bytes(b"no database " * 1000)
    async with asked(source(SqliteFile(file=tmp_path / "a.db")), None) as db:
        assert (await db.run("SELECT 1 FROM x")).ending is ToolEnding.FAILED


async def test_a_connection_that_died_between_two_statements_is_made_anew(postgres: Postgres):
    async with asked(source(on_server(postgres), concurrency=1), None) as db:
        await db.rows("SELECT 1 AS a")
        postgres.run(KILL)
        assert await db.rows("SELECT 1 AS a") == [{"a": 1}]


async def test_a_connection_that_dies_under_a_write_changed_nothing(postgres: Postgres):
    async with asked(source(on_server(postgres)), postgres.value) as db:
        task = asyncio.create_task(db.run(SLOW_WRITE["postgres"], effect=Effect.WRITE))
        await _something_runs(db)
        postgres.run(KILL)
        result = await task
    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)
    assert postgres.value("SELECT count(*) FROM orders") == 3


async def test_a_commit_that_the_server_refuses_is_certain(postgres: Postgres):
    made = on_server(
        postgres,
        "CREATE TABLE orders (id INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED, customer TEXT, total NUMERIC)",
        "INSERT INTO orders VALUES (1, 'ann', 1)",
    )
    async with asked(source(made), postgres.value) as db:
        result = await db.run("INSERT INTO orders VALUES (1, 'x', 1)", effect=Effect.WRITE)
    assert result.ending is ToolEnding.FAILED
    assert postgres.value("SELECT count(*) FROM orders") == 1


async def test_values_that_no_database_takes_are_refused_in_words(db: Asked):
    for value in (10**30, "a\x00b", float("1e308")):
        result = await db.run("SELECT id FROM orders WHERE customer = {{ v }} OR id = 0", {"v": value})
        assert result.ending in (ToolEnding.COMPLETED, ToolEnding.FAILED)
    assert await db.rows("SELECT 1 AS a") == [{"a": 1}]
