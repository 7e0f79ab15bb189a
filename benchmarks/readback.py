"""Reading a store after its server has ended: how many facts and runs it holds, and their bytes.

Owns a connection that can only read, to the file alone. Of the server it takes the typed view of the driver
and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import apsw

from benchmarks.histories import Stored
from jackline_server.storage.sqlite.database import Database, connect

FILE = "jackline.db"

_RUNS = """
SELECT run_key, run_id, phase, (SELECT max(sequence) FROM events WHERE events.run_key = runs.run_key),
  terminal, summary
FROM runs
"""
_PARTS = "SELECT sequence, meta, content FROM events WHERE run_key = ? ORDER BY sequence"
_KEY = "SELECT run_key FROM runs WHERE run_id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All runs by id, and how many events there are in all."""

    runs: Mapping[str, Stored]
    events: int


def open_store(data: Path) -> Database:
    """The store of a data folder, for reading. The caller closes it. Raises apsw.Error."""
    return connect(data / FILE, flags=apsw.SQLITE_OPEN_READONLY, vfs=None)


def read_store(data: Path) -> Contents:
    """Everything that the store of a data folder holds. Raises apsw.Error."""
    connection = open_store(data)
    try:
        runs = {
            run_id: _stored(connection, key, (phase, head, terminal, summary))
            for key, run_id, phase, head, terminal, summary in cast(
                "list[tuple[int, str, str, int, int, bytes]]", connection.execute(_RUNS).fetchall()
            )
        }
        return Contents(runs=runs, events=sum(len(run.events) for run in runs.values()))
    finally:
        connection.close()


def read_parts(connection: Database, run_id: str) -> list[tuple[int, bytes, bytes]]:
    """Sequence, metadata and content of each event of a run, in order."""
    return _parts(connection, cast("int", connection.execute(_KEY, (run_id,)).get))


def _parts(connection: Database, key: int) -> list[tuple[int, bytes, bytes]]:
    return cast("list[tuple[int, bytes, bytes]]", connection.execute(_PARTS, (key,)).fetchall())


def _stored(connection: Database, key: int, row: tuple[str, int, int, bytes]) -> Stored:
    parts = _parts(connection, key)
    phase, head, terminal, summary = row
    return Stored(
        phase=phase,
        head_sequence=head,
        terminal=bool(terminal),
        sequences=[sequence for sequence, _, _ in parts],
        events=[meta + content for _, meta, content in parts],
        summary=summary,
    )
