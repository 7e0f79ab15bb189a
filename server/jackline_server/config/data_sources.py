"""Section `[data_sources]`: the databases that workflows may only name.

Owns what an operator says about one: where it is, whether anything may be written to it, and its limits.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from jackline_server.config.guarding import read_breaker, read_calls_per_minute
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.sections import NAME
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.sql import DataSource, PostgresServer, SqliteFile

_URL = re.compile(r"postgres(?:ql)?://\S+", re.IGNORECASE)
_MOST_BYTES = 8 * 1024 * 1024
_NOWHERE = SqliteFile(file=Path("nowhere.invalid"))


def read_data_sources(section: Section) -> Mapping[str, DataSource]:
    """The data sources by name. One that is not well described is reported."""
    sources: dict[str, DataSource] = {}
    for name, table in section.tables():
        if NAME.fullmatch(name) is None:
            section.problem(ProblemCode.BAD_VALUE, name, "a data source's name is letters, digits, _ and -")
        sources[name] = read_data_source(name, table)
    return sources


def read_data_source(name: str, table: Section) -> DataSource:
    """One of them."""
    source = DataSource(
        name=name,
        database=_database(table),
        writes=table.boolean("writes", default=False) or False,
        timeout_ms=table.span("timeout", default_ms=30_000),
        concurrency=table.integer("concurrency", default=8, least=1, most=200),
        calls_per_minute=read_calls_per_minute(table),
        breaker=read_breaker(table),
        max_rows=table.integer("max_rows", default=1_000, least=1, most=100_000),
        max_bytes=table.integer("max_bytes", default=1_048_576, least=1_024, most=_MOST_BYTES),
    )
    table.finish()
    return source


def _database(table: Section) -> SqliteFile | PostgresServer:
    file, url = table.path("file"), table.secret("url")
    has_file, has_url = file is not None or table.has_seen("file"), url is not None or table.has_seen("url")
    if has_file and has_url:
        table.problem(ProblemCode.BAD_VALUE, "url", "a data source has a file or a url, not both")
    if not has_file and not has_url:
        table.missing("file", "say where it is: file for SQLite, or url = postgresql://… for PostgreSQL")
    if file is not None:
        return SqliteFile(file=file)
    if url is None:
        return _NOWHERE
    if _URL.fullmatch(url.reveal()) is None:
        table.problem(ProblemCode.BAD_VALUE, "url", "must be a URL of PostgreSQL, postgresql://HOST/DATABASE")
        return PostgresServer(url=Secret("postgresql://nowhere.invalid/none"))
    return PostgresServer(url=url)
