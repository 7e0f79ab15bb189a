"""Commands to runs, durable before they are acknowledged: how anybody but its owner speaks to a run."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from jackline_server.core.frozen import frozen


class CommandState(Enum):
    """Where a command stands in the table."""

    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"


@frozen
class CommandOutcome:
    """What an append says of one command. `rejection` is empty for an applied one."""

    command_id: str
    state: CommandState
    sequence: int
    rejection: str


@frozen
class CommandRow:
    """One row of the command table. `payload` is the encoded command."""

    command_id: str
    ordinal: int
    payload: bytes
    state: CommandState
    sequence: int
    rejection: str


@frozen
class Below:
    """What a command to a run makes of the runs below it: one to each of them, of an own id."""

    command_id: str
    payload: bytes


class Submission(Enum):
    """What became of a submit."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    TERMINAL = "terminal"
    FULL = "full"


class Commands(Protocol):
    """The command table: unique by run and command id, durable before it is acknowledged."""

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        """Store a command unless its id is known, the run is terminal, or `limit` are pending.

        A known id answers REPEATED with the stored row, whatever the run's state. The row is None
        for TERMINAL and FULL. With an accepted command, `below` comes to every run that
        lives and that the run has started, or a run below it, over any limit: in the same commit.
        """
        ...

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        """The commands that no append has settled, by ordinal."""
        ...

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        """One command."""
        ...

    async def unheard(self, *, limit: int) -> Sequence[str]:
        """Runs with a command that is pending and that no release has said was heard, oldest run first."""
        ...
