"""The readers of a SQLite store: a few threads, each with a connection of its own.

Owns those threads and connections. A read sees all that was acknowledged before it began. Queries belong
to the roles.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreUnavailable
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.folder import DataFolder
from jackline_server.storage.sqlite.schema import open_reader

_THREADS = 4

A = TypeVar("A")
R = TypeVar("R")


class Readers:
    """Runs queries off the event loop. `close` ends it."""

    def __init__(
        self, *, folder: DataFolder, vfs: str | None, on_damage: Callable[[StoreDamaged], None]
    ) -> None:
        """`on_damage` is called, from a reader's thread, whenever the database turns out to be damaged."""
        self._on_damage = on_damage
        self._folder = folder
        self._vfs = vfs
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="jackline-store-reader")
        self._own = threading.local()
        self._connections: list[Database] = []
        self._closed = False

    async def run(self, query: Callable[[Database, A], R], argument: A) -> R:
        """Run a query in one read transaction and return its result.

        Raises:
            StoreUnavailable: the store is closed, busy or can't be read just now.
            StoreDamaged: what was read can't be right.
        """
        if self._closed:
            raise StoreUnavailable("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._query, query, argument)

    async def close(self, *, within_ms: int) -> None:
        """Let running queries end, at most so long, and close their connections. Idempotent."""
        self._closed = True
        for connection in self._connections:
            connection.interrupt()
        ending = asyncio.create_task(asyncio.to_thread(self._end))
        await asyncio.wait({ending}, timeout=within_ms / 1000)

    def _end(self) -> None:
        self._pool.shutdown(wait=True)
        while self._connections:
            self._connections.pop().close()

    def _query(self, query: Callable[[Database, A], R], argument: A) -> R:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            connection = self._connection()
            connection.execute("BEGIN")
            try:
                return query(connection, argument)
            finally:
                connection.execute("COMMIT")
        except (apsw.CorruptError, apsw.NotADBError) as error:
            damage = StoreDamaged(f"the database is damaged: {error}")
            self._on_damage(damage)
            raise damage from error
        except apsw.Error as error:
            raise StoreUnavailable(f"the store can't be read: {error}") from error

    def _connection(self) -> Database:
        connection: Database | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = open_reader(self._folder, vfs=self._vfs)
            self._own.connection = connection
            self._connections.append(connection)
        return connection
