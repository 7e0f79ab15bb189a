"""The connections to a file that wait for their next statement.

Owns keeping and closing them. Small on purpose: to import a library for it made the first statement of a
server wait a second. How many are in use at once is the slots' business (`guards`).
"""

import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress


class IdleConnections:
    """Connections of one kind. Safe to use from any thread."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, most: int) -> None:
        """Connects to nothing yet. `most` is how many are kept."""
        self._connect = connect
        self._most = most
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def taken(self) -> Generator[sqlite3.Connection]:
        """One that nobody else has, kept afterwards; closed if the block raises, which rolls back.

        Raises what `connect` does.
        """
        with self._lock:
            kept = self._idle.pop() if self._idle else None
        connection = self._connect() if kept is None else kept
        try:
            yield connection
        except BaseException:
            with suppress(sqlite3.Error):
                connection.close()
            raise
        self._give_back(connection)

    def close(self) -> None:
        """Close those that are idle now; the others when they come back."""
        with self._lock:
            self._closed, idle = True, self._idle
            self._idle = []
        for connection in idle:
            connection.close()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            is_kept = not self._closed and len(self._idle) < self._most
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
