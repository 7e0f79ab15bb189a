"""How a run takes its turn in a thread, as the commits of its creation and its end carry it.

Owns those values. A thread has one active run at most; a store keeps to that in the same commit in which a
run is created or ends.
"""

from collections.abc import Sequence
from enum import Enum

from jackline_server.core.facts import Usage
from jackline_server.core.frozen import frozen


class Turn(Enum):
    """The place that a new run takes."""

    NOW = "now"
    """It is the active run at once: there is none."""
    LAST = "last"
    """It waits behind all others."""
    NEXT = "next"
    """It waits before all others. The active run, and one that waits by this right, are aborted for it."""


@frozen
class AbortOrder:
    """The command that aborts what a run replaces, as it goes into the command table of each such run."""

    command_id: str
    payload: bytes


@frozen
class Joining:
    """A new run's place in a thread, which comes to be with it if there was none.

    `position` is how many messages the thread had when it was read. The creation comes to nothing (MOVED) if
    that has changed for NOW, if there is an active run for NOW, or none for the others. `abort` goes with
    NEXT.
    """

    thread_id: str
    turn: Turn
    position: int
    abort: AbortOrder | None = None


@frozen
class NewMessage:
    """A message to add to a thread: its blob, what it is, and how many bytes it has."""

    digest: str
    role: str
    size: int


@frozen
class ThreadShare:
    """What a run leaves to its thread at its end: its messages, in order, and what it has used."""

    messages: Sequence[NewMessage]
    usage: Usage
    cost_micros: int
