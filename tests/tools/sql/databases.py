"""Databases of tests: a table of orders in each kind, and the tool that asks it."""

import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jackline_server.core.plan import Effect, JsonValue, SqlAction
from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.sql import DataSource, PostgresServer, SqliteFile
from jackline_server.runtime.ports.tools import ToolResult
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.http import HttpTool
from jackline_server.tools.sql.tool import SqlTool
from jackline_server.tools.toolbox import StepToolbox
from tests.support.postgres_server import Postgres
from tests.tools.invocations import invocation

NAME = "orders"
TABLE = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total NUMERIC(12,2))",
    "INSERT INTO orders VALUES (1, 'ann', 19.90), (2, 'bob', 5), (3, 'eve', NULL)",
)


def source(database: SqliteFile | PostgresServer, **more: Any) -> DataSource:
    limits = {"writes": True, "timeout_ms": 20_000, "concurrency": 4, "max_rows": 100, "max_bytes": 65_536}
    fields: dict[str, Any] = {**limits, **more}
    return DataSource(name=NAME, database=database, **fields)


@dataclass(slots=True, kw_only=True)
class Asked:
    """A data source, and its tool behind the door of the toolbox."""

    source: DataSource
    tool: SqlTool
    box: StepToolbox
    peek: Any = field(repr=False)

    async def run(
        self,
        statement: str,
        values: dict[str, JsonValue] | None = None,
        *,
        effect: Effect = Effect.READ,
        timeout_ms: int = 10_000,
        max_rows: int | None = None,
    ) -> ToolResult:
        action = SqlAction(connection=NAME, statement=statement, max_rows=max_rows)
        return await self.box.call(invocation(action, values, effect=effect, timeout_ms=timeout_ms))

    async def rows(self, statement: str, values: dict[str, JsonValue] | None = None) -> Any:
        result = await self.run(statement, values)
        assert result.output_json is not None, result.error
        return json.loads(result.output_json)["rows"]


@asynccontextmanager
async def asked(made: DataSource, peek: Any) -> AsyncGenerator[Asked]:
    tool = SqlTool({NAME: made})
    box = StepToolbox(
        http=HttpTool(clients=GuardedClients(), connections={}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=())),
        sql=tool,
    )
    try:
        yield Asked(source=made, tool=tool, box=box, peek=peek)
    finally:
        await tool.close()


def in_file(path: Path, *statements: str) -> SqliteFile:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements or TABLE:
            connection.execute(statement)
        connection.commit()
    return SqliteFile(file=path)


def file_value(path: Path, statement: str) -> object:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchone()[0]


def on_server(server: Postgres, *statements: str) -> PostgresServer:
    server.run("DROP TABLE IF EXISTS orders", *(statements or TABLE))
    return PostgresServer(url=Secret(server.url))
