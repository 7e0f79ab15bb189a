"""The Runs role of the SQLite store: rows by id, by request and by page."""

import json
from collections.abc import Sequence
from typing import cast

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.families import read_below
from jackline_server.storage.sqlite.readers import Readers

_COLUMNS = """
SELECT tenant, run_id, workflow, plan_digest, labels, created_unix_ms, finished_unix_ms, epoch, owner,
  (SELECT max(sequence) FROM events WHERE events.run_key = runs.run_key), phase, summary,
  (SELECT thread_id FROM run_threads JOIN threads USING (thread_key)
    WHERE run_threads.run_key = runs.run_key),
  (SELECT place FROM run_threads WHERE run_threads.run_key = runs.run_key),
  (SELECT parents.run_id FROM run_parents JOIN runs AS parents ON parents.run_key = parent_key
    WHERE run_parents.run_key = runs.run_key)
FROM runs WHERE tenant = ?
"""
_GET = f"{_COLUMNS} AND run_id = ?"
_COUNT = "SELECT count(*) FROM runs WHERE tenant = ?"
_FIND_REQUEST = "SELECT run_id, fingerprint FROM requests WHERE tenant = ? AND request_id = ?"

# Each filter is a constant that a query carries or leaves out, so that the planner sees only what counts.
_IN_PHASES = " AND phase IN (SELECT value FROM json_each(?))"
_OF_WORKFLOW = " AND workflow = ?"
_FROM = " AND created_unix_ms >= ?"
_UNTIL = " AND created_unix_ms < ?"
_WITH_INTERRUPTS = " AND open_interrupts > 0"
_WITHOUT_DELAYED = " AND is_delayed = 0"
_WITH_LABEL = " AND run_key IN (SELECT run_key FROM labels WHERE name = ? AND value = ?)"
_OF_THREAD = """ AND run_key IN (SELECT run_key FROM run_threads
  WHERE thread_key = (SELECT thread_key FROM threads WHERE threads.tenant = ? AND thread_id = ?))"""
_OF_PARENT = """ AND run_key IN (SELECT run_key FROM run_parents
  WHERE parent_key = (SELECT run_key FROM runs AS parents WHERE parents.run_id = ?))"""
_OLDER = " AND (created_unix_ms, run_id) < (?, ?)"
_NEWER = " AND (created_unix_ms, run_id) > (?, ?)"
_NEWEST_FIRST = " ORDER BY created_unix_ms DESC, run_id DESC LIMIT ?"
_OLDEST_FIRST = " ORDER BY created_unix_ms, run_id LIMIT ?"

_Value = str | int


class SqliteRuns:
    """The rows of runs, in SQLite."""

    def __init__(self, *, readers: Readers) -> None:
        self._readers = readers

    async def get(self, tenant: Tenant, run_id: str) -> RunRow | None:
        """As the port says."""
        return await self._readers.run(_get, (tenant.id, run_id))

    async def find_request(self, tenant: Tenant, request_id: str) -> tuple[str, bytes] | None:
        """As the port says."""
        return await self._readers.run(_find_request, (tenant.id, request_id))

    async def page(self, query: RunQuery) -> RunPage:
        """As the port says."""
        return await self._readers.run(_page, query)

    async def living_below(self, tenant: Tenant, run_id: str) -> Sequence[str]:
        """As the port says."""
        return await self._readers.run(read_below, (run_id, tenant.id))


def _get(connection: Database, which: tuple[str, str]) -> RunRow | None:
    row = connection.execute(_GET, which).fetchone()
    return _row(row) if row is not None else None


def _find_request(connection: Database, which: tuple[str, str]) -> tuple[str, bytes] | None:
    return cast("tuple[str, bytes] | None", connection.execute(_FIND_REQUEST, which).fetchone())


def _page(connection: Database, query: RunQuery) -> RunPage:
    filters, values = _filters(query)
    total = cast("int", connection.execute(_COUNT + filters, values).get)
    if query.before is not None:
        filters += _NEWER if query.oldest_first else _OLDER
        values.extend(query.before)
    filters += _OLDEST_FIRST if query.oldest_first else _NEWEST_FIRST
    values.append(query.limit)
    rows = connection.execute(_COLUMNS + filters, values).fetchall()
    return RunPage(rows=[_row(row) for row in rows], total=total)


def _filters(query: RunQuery) -> tuple[str, list[_Value]]:  # noqa: C901 - one case a filter
    """The conditions that the query makes, and their values in the same order."""
    asked: list[tuple[str, tuple[_Value, ...]]] = []
    if query.phases:
        asked.append((_IN_PHASES, (json.dumps([phase.value for phase in query.phases]),)))
    if query.workflow:
        asked.append((_OF_WORKFLOW, (query.workflow,)))
    if query.created_from_unix_ms is not None:
        asked.append((_FROM, (query.created_from_unix_ms,)))
    if query.created_until_unix_ms is not None:
        asked.append((_UNTIL, (query.created_until_unix_ms,)))
    if query.with_interrupts:
        asked.append((_WITH_INTERRUPTS, ()))
    if query.without_delayed:
        asked.append((_WITHOUT_DELAYED, ()))
    if query.thread_id:
        asked.append((_OF_THREAD, (query.tenant.id, query.thread_id)))
    if query.parent_run_id:
        asked.append((_OF_PARENT, (query.parent_run_id,)))
    asked.extend((_WITH_LABEL, label) for label in query.labels.items())
    values: list[_Value] = [query.tenant.id]
    for _, given in asked:
        values.extend(given)
    return "".join(condition for condition, _ in asked), values


def _row(row: object) -> RunRow:
    *found, thread_id, place, parent = cast("tuple[object, ...]", row)
    tenant, run_id, workflow, digest, labels, created, finished, epoch, owner, sequence, phase, summary = (
        cast("tuple[str, str, str, str, str, int, int | None, int, str | None, int, str, bytes]", found)
    )
    return RunRow(
        tenant=Tenant(tenant),
        run_id=run_id,
        workflow=workflow,
        plan_digest=digest,
        labels=json.loads(labels),
        created_unix_ms=created,
        finished_unix_ms=finished,
        epoch=epoch,
        owner=owner,
        head_sequence=sequence,
        phase=Phase(phase),
        summary=summary,
        thread_id=cast("str | None", thread_id) or "",
        waits_for_turn=place is not None,
        parent_run_id=cast("str | None", parent) or "",
    )
