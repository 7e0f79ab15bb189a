"""Golden logs put into a store again, and a whole store as text.

Owns the way through the store's own port, which needs no knowledge of tables, and the dump of a data folder,
which holds nothing but tables: a store as the release wrote it, for every later one to open.
"""

import asyncio
import re
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from jackline_server.core.facts import Fact, RunFinished, RunRecovered
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.command_table import CommandOutcome, CommandRow, Submission
from jackline_server.runtime.ports.journal import Append, NewRun, RunHead
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.sqlite.schema import APPLICATION_ID
from jackline_server.storage.sqlite.store import SqliteSettings, open_sqlite
from jackline_server.storage.sqlite.upgrade import UpgradeSettings
from tests.logs.golden import CODEC, RELEASE, GoldenLog, records, states
from tests.logs.stage import LEASE_MS, START_UNIX_MS

_WORKER = "recorder"
_FAR_UNIX_MS = 2**52
_GENERATION = "0123456789abcdef0123456789abcdef"


async def restore(store: Store, logs: Sequence[GoldenLog]) -> None:
    """Put these runs into a store, each as its own store held it: rows, events, commands, epochs, owners."""
    # A worker that claims takes whatever is free: the queued ones come last, and no run is let go before.
    for log in sorted(logs, key=lambda log: log.epoch == 0):
        await _restore(store, log)
    for log in logs:
        if log.epoch and not log.owned:
            await store.leases.release(_WORKER, log.run_id, epoch=log.epoch)


async def _restore(store: Store, log: GoldenLog) -> None:
    first, *later = zip(log.events, records(log), states(log), strict=True)
    epoch = first[2].epoch
    await store.journal.create(
        NewRun(
            tenant=DEFAULT_TENANT,
            run_id=log.run_id,
            workflow=log.workflow,
            plan_digest=log.plan_digest,
            plan=log.plan,
            labels=log.labels,
            created_unix_ms=log.created_unix_ms,
            request_id=f"request of {log.run_id}",
            fingerprint=b"fingerprint",
            owner=_WORKER if epoch else None,
            first=first[0],
            head=_head(first[2]),
            summary=_summary(log, first[2], first[1].fact),
        )
    )
    for command in log.commands:
        said, _ = await store.commands.submit(
            log.run_id, command_id=command.command_id, payload=command.payload, limit=64
        )
        assert said is Submission.ACCEPTED
    outcomes = {command.sequence: _outcome(command) for command in log.commands}
    for event, record, state in later:
        if isinstance(record.fact, RunRecovered):
            epoch = await _claim(store, log.run_id, epoch, until=record.fact.epoch)
        await store.journal.append(
            Append(
                run_id=log.run_id,
                epoch=epoch,
                after_sequence=event.sequence - 1,
                events=[event],
                head=_head(state),
                summary=_summary(log, state, record.fact),
                settled=[outcomes[event.sequence]] if event.sequence in outcomes else [],
                finishing=isinstance(record.fact, RunFinished),
                finished_unix_ms=log.finished_unix_ms if isinstance(record.fact, RunFinished) else None,
            )
        )


def _head(state: RunState) -> RunHead:
    return RunHead(
        phase=state.phase,
        wake_unix_ms=timing.wake_unix_ms(state),
        open_interrupts=len(state.oversight.interrupts),
    )


def _summary(log: GoldenLog, state: RunState, fact: Fact) -> bytes:
    ended = log.finished_unix_ms if isinstance(fact, RunFinished) else None
    return CODEC.summarize(state, created_unix_ms=log.created_unix_ms, finished_unix_ms=ended)


def _outcome(command: CommandRow) -> CommandOutcome:
    return CommandOutcome(
        command_id=command.command_id,
        state=command.state,
        sequence=command.sequence,
        rejection=command.rejection,
    )


async def _claim(store: Store, run_id: str, epoch: int, *, until: int) -> int:
    """Take the run over again until it is in that epoch."""
    while epoch < until:
        if epoch:
            await store.leases.release(_WORKER, run_id, epoch=epoch)
        claims = await store.leases.claim(_WORKER, limit=1, now_unix_ms=_FAR_UNIX_MS)
        assert [claim.run_id for claim in claims] == [run_id]
        epoch = claims[0].epoch
    return epoch


# --- a whole store -----------------------------------------------------------------------------


def dumped_store(logs: Sequence[GoldenLog]) -> str:
    """The SQL that makes the database of a data folder with these runs. Not from within an event loop."""
    clock = StoreClock(unix_ms=lambda: START_UNIX_MS, monotonic_ms=lambda: START_UNIX_MS)
    settings = SqliteSettings(clock=clock, lease_ms=LEASE_MS, upgrade=UpgradeSettings(release=RELEASE))

    async def made(folder: Path) -> str:
        opened = await open_sqlite(folder, settings)
        await restore(opened.store, logs)
        await opened.close()
        return opened.generation

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        generation = asyncio.run(made(data))
        return dump(data / "jackline.db").replace(generation, _GENERATION)


def dump(database: Path) -> str:
    """A database as the SQL that makes it."""
    with closing(sqlite3.connect(database)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        lines = "\n".join(connection.iterdump())
    pragmas = f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {version};\n"
    return f"{pragmas}{lines}\n"


def undump(text: str, database: Path) -> None:
    """Make the database of a dump, in the mode of a store."""
    database.parent.mkdir(mode=0o700, parents=True)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(text)


def tables_of(text: str) -> str:
    """What a dump says of its tables and indexes, without their rows."""
    return re.sub(r"^INSERT INTO .*?\);\n", "", text, flags=re.MULTILINE | re.DOTALL)
