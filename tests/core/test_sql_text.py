"""What is seen of a statement before a database reads it: quotes, comments, first word, parameters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core.sql_text import SqlProblem, Statement, marked, read_statement
from jackline_server.core.templates import TemplateError


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        ("SELECT 1", "SELECT"),
        ("  -- why\n/* and /* how */ */ select {{ a }} ;  -- done", "SELECT"),
        ("((SELECT 1) UNION (SELECT 2))", "SELECT"),
        ("WITH a AS (SELECT ';' AS b) SELECT * FROM a", "WITH"),
        ("SELECT 'it''s; -- no comment', \"a;b\", E'\\'; x', $$; {$$, $a$ ; $$ $a$", "SELECT"),
        ("SELECT now()::date, a[1], '12:30', {{ a }}::int FROM b", "SELECT"),
        ("insert into a values ({{ b }})", "INSERT"),
    ],
)
def test_a_statement_is_known_by_its_first_word(text: str, verb: str):
    assert read_statement(text).verb == verb


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ; ",
        "-- nothing",
        "PRAGMA journal_mode = OFF",
        "ATTACH 'x' AS y",
        "COPY a TO PROGRAM 'id'",
        "SET ROLE admin",
        "DO $$ BEGIN END $$",
        "COMMIT",
        "SELECT 1; SELECT 2",
        "SELECT 1;;DROP TABLE a",
        "SELECT 'never closed",
        'SELECT "never closed',
        "SELECT 1 /* never closed",
        "SELECT '{{ a }}'",
        'SELECT "{{ a }}"',
        "SELECT $${{ a }}$$",
        "SELECT 1 -- {{ a }}",
        "SELECT 1 /* {{ a }} */",
        "SELECT :a",
        "SELECT $1",
        "{{ verb }} FROM a",
    ],
)
def test_what_no_step_may_run_is_refused(text: str):
    with pytest.raises(SqlProblem):
        read_statement(text)


def test_a_statement_that_returns_rows_is_known():
    assert read_statement("DELETE FROM a RETURNING b") == Statement(verb="DELETE", returns=True)
    assert read_statement("DELETE FROM a WHERE b = 'RETURNING'") == Statement(verb="DELETE", returns=False)


def test_each_name_becomes_one_marker_and_the_rest_is_escaped():
    text, names = marked("a % {{ x }} {{ y }} {{ x }}", lambda n: f"<{n}>", lambda s: s.replace("%", "%%"))

    assert (text, names) == ("a %% <0> <1> <0>", ["x", "y"])


@given(st.text(alphabet="ab'\"`;-*/$ {}:()eE\\\n", max_size=60))
def test_any_text_is_read_or_refused(text: str):
    try:
        found = read_statement(text)
    except SqlProblem:
        return
    assert found.verb
    try:
        marked(text, lambda n: "?", str)
    except TemplateError:
        return
