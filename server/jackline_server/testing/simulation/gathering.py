"""What a simulated world leaves behind: its store, its books and its notebook as one history.

Owns the reading of the store at the end. Judges nothing.
"""

from collections.abc import Iterator, Sequence

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.runtime.ports.run_rows import RunQuery, RunRow
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.testing.simulation.clients import Client, Notebook
from jackline_server.testing.simulation.conversing import threads_of
from jackline_server.testing.simulation.families import mark_of
from jackline_server.testing.simulation.workers import Deployment
from jackline_server.testing.validators.history import CommandEntry, History, Hit, Limits, Run
from jackline_server.testing.validators.recording import bounds_of, caps_of, event_of

MOST_EVENTS = 100_000


async def all_runs(deployment: Deployment) -> Sequence[RunRow]:
    """Every run, as the store has it."""
    query = RunQuery(tenant=DEFAULT_TENANT, labels={}, limit=1_000)
    return (await deployment.store.runs.page(query)).rows


async def gather(deployment: Deployment, notebook: Notebook, limits: Limits) -> History:
    """All of it."""
    runs = await _runs(deployment, notebook)
    books, by_mark = deployment.books, {run.mark: run.run for run in runs}
    return History(
        runs=tuple(runs),
        commits=tuple(deployment.commits),
        commands=tuple(await _commands(deployment, notebook)),
        starts=tuple(notebook.starts),
        controls=tuple(notebook.controls),
        streams=tuple(notebook.streams),
        tools=tuple(books.tools),
        threads=tuple(await threads_of(deployment.store, ProtoCodec())),
        appends=tuple(notebook.appends),
        switchings=tuple(notebook.switchings),
        bulk=tuple(notebook.bulk),
        hits=tuple(Hit(run=by_mark.get(mark, mark), at_ms=at) for mark, at in books.hits),
        limits=limits,
    )


def miscounted(history: History) -> Iterator[str]:
    """The recoveries that count a crash; for a world in which no process ever goes away.

    The first recovery of a run aside: where the answer to its creation was lost, nobody drove it.
    """
    for run in history.runs:
        for event in run.events[2:]:
            if event.kind == "run_recovered" and event.fields["cause"] == "crash":
                yield f"event {event.sequence} of {run.run} counts a crash; none was"


async def _runs(deployment: Deployment, notebook: Notebook) -> list[Run]:
    found: list[Run] = []
    store, at = deployment.store, _commit_times(deployment)
    for row in sorted(await all_runs(deployment), key=lambda row: row.run_id):
        stored = await store.journal.read(row.run_id, after_sequence=0, limit=MOST_EVENTS)
        plan = ProtoCodec().decode_plan(await store.journal.plan(row.plan_digest))
        tokens, cost_micros = await _told(deployment, notebook, row.run_id)
        found.append(
            Run(
                run=row.run_id,
                mark=mark_of(stored[0]),
                caps=caps_of(plan, bounds_of(stored[0]) if row.parent_run_id else plan.bounds),
                events=tuple(event_of(one, at_ms=at.get((row.run_id, one.sequence))) for one in stored),
                thread=row.thread_id,
                parent=row.parent_run_id,
                tokens=tokens,
                cost_micros=cost_micros,
            )
        )
    return found


async def _told(deployment: Deployment, notebook: Notebook, run_id: str) -> tuple[int | None, int | None]:
    """The tokens and the money that a run has used, as the server says; asked if there are families."""
    if not deployment.has_families:
        return None, None
    found = await Client("late", deployment, notebook).look(run_id)
    return (None, None) if found is None else (found.state.ledger.tokens, found.state.ledger.cost_micros)


async def _commands(deployment: Deployment, notebook: Notebook) -> list[CommandEntry]:
    """The places of the commands that somebody sent."""
    entries: list[CommandEntry] = []
    for run, command_id in {(control.run, control.command_id): None for control in notebook.controls}:
        found = await deployment.store.commands.get(run, command_id)
        if found is not None:
            entries.append(CommandEntry(run=run, command_id=command_id, ordinal=found.ordinal))
    return entries


def _commit_times(deployment: Deployment) -> dict[tuple[str, int], int]:
    return {
        (commit.run, sequence): commit.at_ms
        for commit in deployment.commits
        for sequence in range(commit.after + 1, commit.after + commit.count + 1)
    }
