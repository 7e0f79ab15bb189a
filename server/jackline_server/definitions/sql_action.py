"""The statement of an SQL step, checked as far as it can be before a database reads it.

Owns what a workflow may write as a statement, and that a step which writes says so. Does not own how values
are bound (`tools.sql`): they never become part of the text.
"""

from jackline_server.core.plan import Effect, SqlAction
from jackline_server.core.sql_text import SqlProblem, read_statement
from jackline_server.definitions.catalog import Catalog, nearest
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import SqlShape
from jackline_server.definitions.yaml_nodes import Path


def effect(step: SqlShape) -> Effect:
    """What a step may change: nothing, unless it says so. The database holds it to that."""
    return Effect(step.effect or Effect.READ.value)


def build(step: SqlShape, path: Path, catalog: Catalog, report: Report) -> SqlAction:
    """The action of the plan; what is wrong with it is in the report."""
    source = catalog.data_sources.get(step.connection)
    if source is None:
        hint = nearest(step.connection, catalog.data_sources)
        message = f"there is no data source `{step.connection[:64]}` in the server's config{hint}"
        report.error("unknown_connection", message, (*path, "connection"))
    elif effect(step) is not Effect.READ and not source.writes:
        message = (
            f"nothing may be written to `{step.connection}`: its operator would have to set `writes = true` "
            f"in [data_sources.{step.connection}]"
        )
        report.error("read_only_source", message, (*path, "effect"))
    try:
        statement = read_statement(step.statement)
    except SqlProblem as problem:
        report.error("bad_statement", str(problem), (*path, "statement"))
    else:
        if statement.writes and effect(step) is Effect.READ:
            message = f"{statement.verb} writes, and an sql step only reads unless it has `effect: write`"
            report.error("sql_writes", message, (*path, "statement"))
    return SqlAction(connection=step.connection, statement=step.statement, max_rows=step.max_rows)
