"""Recorded runs decided again: which, against what, and what each came to.

Owns reading runs and logs from a data folder, which a server may have, and compiling the revision that they
are held against. Does not own the walk (`core.replaying`) nor the words (`replay`).
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from pathlib import Path

from jackline_server.bootstrap import workbench
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.commands.compiling import compiled, loaded_workflow, place_of
from jackline_server.config import Config
from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import Phase
from jackline_server.core.frozen import change, frozen
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import Plan
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import Replayed, replayed
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.linear_regex import LinearPatterns
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.ports.codec import Record, UnknownFact
from jackline_server.runtime.ports.definitions import Compilation, Severity, Source
from jackline_server.runtime.ports.run_rows import RunQuery, RunRow
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreError
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.reading.histories import NAMING, Histories
from jackline_server.runtime.reading.loading import PAGE_EVENTS
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.workflows.references import revision_of
from jackline_server.storage.sqlite.aside import StoreAside

_PAGE_RUNS = 100
_CODEC = ProtoCodec()


class CannotReplay(Exception):
    """Nothing can be replayed. `lines` say why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


@frozen
class Which:
    """Which runs: one by its id, or the newest of a workflow and of states, up to so many."""

    run_id: str
    workflow: str
    phases: frozenset[Phase]
    limit: int

    def of_workflow(self, name: str) -> "Which":
        """The same of that workflow."""
        return change(self, workflow=name)


@frozen
class Judged:
    """One run. `outcome` is None if it could not be replayed, for `trouble`.

    `at` is the record of the log at which the walk met a difference, None without one.
    """

    row: RunRow
    outcome: Replayed | None
    at: Record | None = None
    trouble: str = ""

    @property
    def same(self) -> bool:
        """True if every decision of the log would be the same now."""
        return self.outcome is not None and self.outcome.difference is None


async def rows(store: StoreAside, which: Which) -> AsyncGenerator[RunRow]:
    """The runs, newest first. Raises CannotReplay if the one that is asked for is not there."""
    if which.run_id:
        row = await store.runs.get(DEFAULT_TENANT, which.run_id)
        if row is None:
            raise CannotReplay(f"there is no run {which.run_id} in this data folder")
        yield row
        return
    left, before = which.limit, None
    while left > 0:
        query = RunQuery(
            tenant=DEFAULT_TENANT,
            phases=which.phases,
            workflow=which.workflow,
            labels={},
            before=before,
            limit=min(left, _PAGE_RUNS),
        )
        page = (await store.runs.page(query)).rows
        for row in page:
            yield row
        if not page:
            return
        left -= len(page)
        before = page[-1].created_unix_ms, page[-1].run_id


async def judged(store: StoreAside, row: RunRow, against: Plan | None, instruments: Instruments) -> Judged:
    """Decide one run again. A log that can't be read is one run's trouble and no other's."""
    loop = asyncio.get_running_loop()
    histories = Histories(blobs=store.blobs, codec=_CODEC)

    def log() -> Generator[Entry]:
        position = 0
        while True:
            reading = store.journal.read(row.run_id, after_sequence=position, limit=PAGE_EVENTS)
            events = asyncio.run_coroutine_threadsafe(reading, loop).result()
            if not events:
                return
            for event in events:
                record = _CODEC.decode(event)
                if type(record.fact) in NAMING:
                    naming = histories.resolved(row.tenant, record)
                    record = asyncio.run_coroutine_threadsafe(naming, loop).result()
                yield _entry(record)
            position = events[-1].sequence

    try:
        plan = _CODEC.decode_plan(await store.journal.plan(row.plan_digest))
        outcome = await asyncio.to_thread(
            replayed, row.run_id, log(), plan, instruments=instruments, against=against
        )
        at = await _record(store, row, outcome)
    except UnknownFact as error:
        return Judged(row=row, outcome=None, trouble=f"a newer version wrote it: {error}")
    except (StoreDamaged, CorruptLog) as error:
        return Judged(row=row, outcome=None, trouble=f"its log is damaged: {error}")
    return Judged(row=row, outcome=outcome, at=at)


async def _record(store: StoreAside, row: RunRow, outcome: Replayed) -> Record | None:
    if outcome.difference is None or outcome.difference.recorded is None:
        return None
    before = outcome.difference.sequence - 1
    events = await store.journal.read(row.run_id, after_sequence=before, limit=1)
    return _CODEC.decode(events[0]) if events else None


def _entry(record: Record) -> Entry:
    envelope = record.envelope
    return Entry(fact=record.fact, active_ms=envelope.active_ms, unix_ms=envelope.unix_ms)


def instruments() -> Instruments:
    """What judges expressions and schemas in a run."""
    return Instruments(expressions=CelExpressions(), schemas=JsonSchemas(), patterns=LinearPatterns())


# --- what they are held against ----------------------------------------------------------------


async def check_workflow(store: StoreAside, which: Which) -> None:
    """Whether runs could have been found: a gate that names no workflow would hold for ever.

    Raises CannotReplay.
    """
    async with aclosing(rows(store, change(which, phases=frozenset[Phase](), limit=1))) as any_run:
        async for _ in any_run:
            return
    try:
        await revision_of(store.revisions, DEFAULT_TENANT, which.workflow)
    except Refused as refused:
        raise CannotReplay(f"--workflow {which.workflow}: {refused.message}") from None
    except StoreError as error:
        raise CannotReplay(str(error)) from None


async def plan_against(store: StoreAside, config: Config, reference: str) -> Plan:
    """The plan of a workflow file, or of a revision in the data folder, compiled against the config.

    Raises CannotReplay.
    """
    if reference.endswith((".yaml", ".yml")) or os.sep in reference:
        return await _of_file(config, Path(reference))
    try:
        row = await revision_of(store.revisions, DEFAULT_TENANT, reference)
    except Refused as refused:
        raise CannotReplay(f"--against {reference}: {refused.message}") from None
    except StoreError as error:
        raise CannotReplay(str(error)) from None
    found = await _compiled(config, Source(yaml=row.yaml, files=row.files))
    return _plan(found, f"{row.name}@{row.digest[:12]}", None)


async def _of_file(config: Config, path: Path) -> Plan:
    try:
        loaded = await loaded_workflow(path)
    except OSError as error:
        raise CannotReplay(f"{path} can't be read: {error.strerror}") from None
    if loaded.source is None:
        raise CannotReplay(*(f"{path}: {one.message}" for one in loaded.problems))
    return _plan(await _compiled(config, loaded.source, folder=path.parent), loaded.file, path)


async def _compiled(config: Config, source: Source, *, folder: Path | None = None) -> Compilation:
    async with workbench(config) as bench:
        return await compiled(bench, source, folder=folder)


def _plan(found: Compilation, name: str, path: Path | None) -> Plan:
    if found.plan is not None:
        return found.plan
    raise CannotReplay(
        *(
            f"{place_of(one, path, name) if path is not None else f'{name}:{one.line}'}: {one.message}"
            for one in found.findings
            if one.severity is Severity.ERROR
        )
    )
