"""Parents and children in the memory store: runs that a commit creates, commands from one to the other."""

from collections.abc import Iterator

from jackline_server.runtime.ports.journal import Append
from jackline_server.storage.memory.commands import deliver, insert
from jackline_server.storage.memory.switches import halted
from jackline_server.storage.memory.tables import MemoryRun, MemoryTables


def carry_out(tables: MemoryTables, append: Append) -> None:
    """Create the runs that the commit brings forth, and put what it says to others into their tables."""
    for new in append.births:
        if new.run_id not in tables.runs:
            tables.runs[new.run_id] = MemoryRun(
                new=new, epoch=0, owner=None, head=new.head, summary=new.summary, log=[new.first, *new.rest]
            )
            tables.plans.setdefault(new.plan_digest, new.plan)
            switch = halted(tables, new.tenant)
            if switch is not None:
                insert(tables.runs[new.run_id], switch.command_id, switch.payload)
    for message in append.messages:
        run = tables.runs.get(message.run_id)
        if run is not None:
            deliver(run, message.command_id, message.payload)


def living_below(tables: MemoryTables, run_id: str) -> Iterator[MemoryRun]:
    """The runs below one that have not ended. A run that has ended has none below it."""
    above = {run_id}
    for run in tables.runs.values():  # a child is created after its parent
        if run.new.parent_run_id in above and not run.terminal:
            above.add(run.new.run_id)
            yield run
