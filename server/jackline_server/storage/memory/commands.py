"""Putting commands into the tables of runs, in the memory store."""

from jackline_server.runtime.ports.command_table import CommandRow, CommandState
from jackline_server.storage.memory.tables import MemoryRun


def deliver(run: MemoryRun, command_id: str, payload: bytes) -> None:
    """Put a command into the run's table, unless the run has ended or knows it."""
    if run.terminal or command_id in run.commands:
        return
    insert(run, command_id, payload)


def insert(run: MemoryRun, command_id: str, payload: bytes) -> CommandRow:
    """Put a command that is not there into the run's table."""
    row = CommandRow(
        command_id=command_id,
        ordinal=len(run.commands) + 1,
        payload=payload,
        state=CommandState.PENDING,
        sequence=0,
        rejection="",
    )
    run.commands[command_id] = row
    return row
