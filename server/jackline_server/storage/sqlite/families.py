"""Parents and children in the SQLite store: who started whom.

Owns `run_parents`. A run that has ended has none below
it that lives: the walk down need not go through one.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.session import Session

_INSERT = "INSERT INTO run_parents (run_key, parent_key) SELECT ?, run_key FROM runs WHERE run_id = ?"
_BELOW = """
WITH RECURSIVE below (run_key) AS (
  SELECT run_parents.run_key FROM run_parents JOIN runs USING (run_key)
  WHERE parent_key = (SELECT run_key FROM runs WHERE run_id = ?) AND terminal = 0
  UNION ALL
  SELECT run_parents.run_key FROM run_parents JOIN runs USING (run_key)
  JOIN below ON parent_key = below.run_key WHERE terminal = 0
)
SELECT run_id FROM below JOIN runs USING (run_key)
"""
_BELOW_OF_TENANT = f"{_BELOW} WHERE tenant = ?"


def note_parent(session: Session, run_key: int, parent_run_id: str) -> None:
    """Say who started a run that was just inserted."""
    session.connection.execute(_INSERT, (run_key, parent_run_id))


def living_below(session: Session, run_id: str) -> Iterator[str]:
    """The runs below one that have not ended. After a flush."""
    rows = session.connection.execute(_BELOW, (run_id,)).fetchall()
    yield from (run_id for (run_id,) in cast("list[tuple[str]]", rows))


def read_below(connection: Database, which: tuple[str, str]) -> Sequence[str]:
    """The same for a reader: of a run id and a tenant."""
    rows = connection.execute(_BELOW_OF_TENANT, which).fetchall()
    return [run_id for (run_id,) in cast("list[tuple[str]]", rows)]
