"""Databases that the operator's config names as data sources: shapes between the config and their users."""

from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.secrets import Secret


@frozen
class SqliteFile:
    """A database in a file. It has to be there: none is made."""

    file: Path


@frozen
class PostgresServer:
    """A database of a server, `postgresql://…` with all that libpq takes."""

    url: Secret


@frozen
class DataSource:
    """A data source of the operator's config.

    Nothing is written to it unless `writes`. `timeout_ms` caps a statement, `max_rows` and `max_bytes` what
    of an answer is kept. For the others see `GuardedConnection`.
    """

    name: str
    database: SqliteFile | PostgresServer
    writes: bool
    timeout_ms: int
    concurrency: int
    max_rows: int
    max_bytes: int
    calls_per_minute: int | None = None
    breaker: Breaker = Breaker()
